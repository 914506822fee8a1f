"""myna key issue|list|cap|limit|routes|roll|rename|revoke, myna code add|list|disable|redeem"""

import csv
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import App, Parameter
from msgspec import structs

from myna.accounts import accounts, caps, keys, limits
from myna.accounts.keys import Scope
from myna.actions import Action, codes
from myna.actions.codes import AddCodes, DisableCodes, NewBatch, RedeemCode
from myna.actions.keys import (
    IssueKey,
    LimitKey,
    RenameKey,
    RevokeKey,
    RollKey,
    SetKeyCap,
    SetKeyRoutes,
    given_limits,
)
from myna.cli.commands import register
from myna.cli.console import Row, listing, read_settings, seconds, show_rows
from myna.store.database import Database
from myna.store.queries import config as route_store
from myna.store.queries import keys as store
from myna.store.queries.keys import CapRow, KeyRow, KeyUsage, LimitsRow

app = App(name="key", help="API keys.")
code_app = App(name="code", help="Codes that account holders redeem for units.")


def _shown(row: KeyRow, used: KeyUsage, cap: CapRow | None, now: int) -> Row:
    return {
        "id": row.id,
        "name": row.name,
        "masked": row.masked,
        "state": keys.state(row, now),
        "scopes": Scope(row.scopes).names,
        "created_at": seconds(row.created_at),
        "expires_at": seconds(row.expires_at),
        "revoked_at": seconds(row.revoked_at),
        "calls": used.calls,
        "ok_calls": used.ok_calls,
        "cost": used.cost,
        "cap": str(caps.of_row(cap)) if cap else "",
        "cap_used": caps.used(cap, now) if cap else 0,
        "cap_renews_at": seconds(cap.ends_at) if cap and now < cap.ends_at else 0,
    }


def _names(names: Sequence[str] | None) -> str:
    return "any" if names is None else ", ".join(names) or "none"


def _how_to_use(_: Action[Any], shown: Row) -> str:
    return (
        "Next, where it is used (other programs: docs/clients.md):\n\n"
        f"export OPENAI_BASE_URL={read_settings().base_url}/openai/v1\n"
        f"export OPENAI_API_KEY={shown['key']}\n"
        'curl $OPENAI_BASE_URL/models -H "Authorization: Bearer $OPENAI_API_KEY"'
    )


register(
    app,
    IssueKey,
    lambda _, issued: structs.asdict(issued),
    then=_how_to_use,
    unseen=lambda _, issued: RevokeKey(key=str(issued.id)),
)
register(app, SetKeyCap, lambda action, key: {"id": key.id, "cap": action.cap})
register(app, LimitKey, lambda action, key: {"id": key.id, **limits.as_texts(given_limits(action))})
register(app, SetKeyRoutes, lambda action, key: {"id": key.id, "routes": _names(action.route)})
register(
    app,
    RollKey,
    lambda _, rolled: {**structs.asdict(rolled.issued), "old_expires_at": rolled.old_expires_at},
    then=_how_to_use,
    unseen=lambda _, rolled: RevokeKey(key=str(rolled.issued.id)),
    lost=" The old key still expires; issue another in time.",
)
register(app, RenameKey, lambda action, key: {"id": key.id, "name": action.name})
register(app, RevokeKey, lambda _, key: {"id": key.id, "revoked": True})


@app.command(name="list")
@listing(empty="The account has no key yet.", brief=("id", "name", "masked", "state", "calls", "cost"))
async def list_keys(
    db: Database, account: Annotated[str, Parameter(help="The name of the account.")]
) -> list[Row]:
    """List the keys of an account."""
    owner = await accounts.find(db, account)
    ((now,),) = await db.fetch("SELECT now_ms()")
    limited = await store.limits_of_account(db, owner.id)
    capped = {row.key_id: row for row in await store.caps_of_account(db, owner.id)}
    return [
        {
            **_shown(row, await store.usage(db, row.id), capped.get(row.id), now),
            "routes": _names(await route_store.routes_of_key(db, row.id)),
            **limits.shown(limited.get(row.id, LimitsRow(row.id))),
        }
        for row in await store.of_account(db, owner.id)
        if not row.internal
    ]


def _print_codes(made: NewBatch, as_json: bool) -> None:
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
    code_app,
    AddCodes,
    printed=_print_codes,
    then=lambda *_: "Next: give them to account holders, who redeem a code in the back office.",
    unseen=lambda _, made: DisableCodes(batch=made.batch.id),
)
register(code_app, DisableCodes, lambda action, _: {"batch": action.batch, "disabled": True})
register(
    code_app,
    RedeemCode,
    lambda action, redeemed: {
        "name": action.account, "units": redeemed.units, "balance": redeemed.account.balance,
    },
)  # fmt: skip


@code_app.command(name="list")
@listing(empty="There is no code yet.", brief=("batch", "state", "codes", "units", "redeemed", "expires_at"))
async def list_codes(db: Database) -> list[Row]:
    """List the batches of codes. The codes themselves are not stored."""
    ((now,),) = await db.fetch("SELECT now_ms()")
    return [
        {
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
        for batch in await codes.list_all(db)
    ]
