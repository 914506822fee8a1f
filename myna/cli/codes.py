"""myna code add|list|disable|redeem"""

import csv
import sys

from cyclopts import App

from myna.actions import codes
from myna.actions.codes import AddCodes, DisableCodes, NewBatch, RedeemCode
from myna.cli.actions import register
from myna.cli.console import Json, Wide, seconds, show_rows, with_database
from myna.store.database import Database
from myna.store.queries.codes import BatchRow

app = App(name="code", help="Codes that account holders redeem for units.")


def _print(made: NewBatch, as_json: bool) -> None:
    batch = made.batch
    rest = {
        "units": batch.units, "uses": batch.uses, "expires_at": seconds(batch.expires_at), "batch": batch.id,
    }  # fmt: skip
    rows = [{"code": code, **rest} for code in made.codes]
    if as_json:
        show_rows(rows, True, empty="")
    else:
        table = csv.DictWriter(sys.stdout, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


register(
    app,
    AddCodes,
    lambda _, made: made,
    printed=_print,
    then=lambda *_: "Next: give them to account holders, who redeem a code in the back office.",
)
register(app, DisableCodes, lambda action, _: {"batch": action.batch, "disabled": True})
register(
    app,
    RedeemCode,
    lambda action, redeemed: {
        "name": action.account, "units": redeemed.units, "balance": redeemed.account.balance,
    },
)  # fmt: skip


@app.command(name="list")
def list_all(*, wide: Wide = False, json: Json = False) -> None:
    """List the batches of codes. The codes themselves are not stored."""

    async def work(db: Database) -> list[dict[str, object]]:
        ((now,),) = await db.fetch("SELECT now_ms()")
        return [_shown(batch, now) for batch in await codes.list_all(db)]

    brief = ("batch", "state", "codes", "units", "redeemed", "expires_at")
    rows = with_database(work, json=json)
    show_rows(rows, json, empty="There is no code yet.", brief=brief, wide=wide)


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
