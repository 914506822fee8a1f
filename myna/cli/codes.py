"""myna code add|list|disable|redeem"""

import csv
import sys
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from myna import codes, durations
from myna.activity import command_line
from myna.cli.console import Json, Whole, Wide, seconds, show, show_rows, whole_number, with_database
from myna.store.database import Database
from myna.store.queries.codes import BatchRow

app = App(name="code", help="Codes that account holders redeem for units.")


@app.command
def add(
    *,
    units: Annotated[Whole, Parameter(help="The units that a code gives.")],
    count: Annotated[Whole, Parameter(help="How many codes to make.")] = 1,
    uses: Annotated[Whole, Parameter(help="How many accounts may redeem each code.")] = 1,
    expires: Annotated[str, Parameter(allow_leading_hyphen=True, help="Such as 30d, 12h, 90s.")] = "",
    memo: Annotated[str, Parameter(help="A note that the ledger stores with the units.")] = "",
    json: Json = False,
) -> None:
    """Make a batch of codes. They are printed once, as CSV or JSON, and not stored."""
    life_ms = durations.millis(expires) if expires else 0
    made = with_database(
        lambda db: codes.add(
            db, units=units, count=count, uses=uses, life_ms=life_ms, memo=memo, by=command_line()
        ),
        json=json,
    )
    batch = made.batch
    rest = {"units": units, "uses": uses, "expires_at": seconds(batch.expires_at), "batch": batch.id}
    rows = [{"code": code, **rest} for code in made.codes]
    if json:
        show_rows(rows, True, empty="")
    else:
        table = csv.DictWriter(sys.stdout, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


@app.command(name="list")
def list_all(*, wide: Wide = False, json: Json = False) -> None:
    """List the batches of codes. The codes themselves are not stored."""

    async def work(db: Database) -> list[dict[str, object]]:
        ((now,),) = await db.fetch("SELECT now_ms()")
        return [_shown(batch, now) for batch in await codes.list_all(db)]

    brief = ("batch", "state", "codes", "units", "redeemed", "expires_at")
    rows = with_database(work, json=json)
    show_rows(rows, json, empty="There is no code yet.", brief=brief, wide=wide)


@app.command
def disable(
    batch: Annotated[
        int,
        Parameter(
            help="The batch in `myna code list`.",
            converter=whole_number,
            validator=Number(gte=1, lte=2**53),
        ),
    ],
    /,
    *,
    json: Json = False,
) -> None:
    """Disable the codes of a batch. Units that they gave stay."""
    with_database(lambda db: codes.disable(db, batch, by=command_line()), json=json)
    show({"batch": batch, "disabled": True}, json)


@app.command
def redeem(
    account: Annotated[str, Parameter(help="The name of the account that gets the units.")],
    code: Annotated[str, Parameter(help="The code.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Redeem a code for an account."""
    redeemed = with_database(lambda db: codes.redeem(db, account, code, by=command_line()), json=json)
    show({"name": account, "units": redeemed.units, "balance": redeemed.account.balance}, json)


def _shown(batch: BatchRow, now: int) -> dict[str, object]:
    return {
        "batch": batch.id,
        "state": codes.batch_state(batch, now),
        "codes": batch.codes,
        "units": batch.units,
        "uses": batch.uses,
        "uses_left": batch.uses_left,
        "redeemed": batch.codes * batch.uses - batch.uses_left,
        "created_at": seconds(batch.created_at),
        "expires_at": seconds(batch.expires_at),
        "memo": batch.memo,
    }
