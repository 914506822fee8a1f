"""myna key issue|list|cap|limit|routes|roll|rename|revoke"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from myna.accounts import accounts, caps, keys, limits
from myna.accounts.keys import Scope
from myna.actions import Action
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
from myna.cli.actions import register
from myna.cli.console import Json, Wide, read_settings, seconds, show_rows, with_database
from myna.store.database import Database
from myna.store.queries import keys as store
from myna.store.queries import routes as route_store
from myna.store.queries.keys import CapRow, KeyRow, KeyUsage, LimitsRow

app = App(name="key", help="API keys.")


def _how_to_use(_: Action[Any], shown: Mapping[str, object]) -> str:
    return (
        "Next, where it is used (other programs: docs/clients.md):\n\n"
        f"export OPENAI_BASE_URL={read_settings().base_url}/openai/v1\n"
        f"export OPENAI_API_KEY={shown['key']}\n"
        'curl $OPENAI_BASE_URL/models -H "Authorization: Bearer $OPENAI_API_KEY"'
    )


register(app, IssueKey, lambda _, issued: msgspec.structs.asdict(issued), then=_how_to_use)
register(app, SetKeyCap, lambda action, key: {"id": key.id, "cap": action.cap})
register(app, LimitKey, lambda action, key: {"id": key.id, **limits.as_texts(given_limits(action))})
register(app, SetKeyRoutes, lambda action, key: {"id": key.id, "routes": _names(action.route)})
register(
    app,
    RollKey,
    lambda _, rolled: {**msgspec.structs.asdict(rolled.issued), "old_expires_at": rolled.old_expires_at},
    then=_how_to_use,
)
register(app, RenameKey, lambda action, key: {"id": key.id, "name": action.name})
register(app, RevokeKey, lambda _, key: {"id": key.id, "revoked": True})
Account = Annotated[str, Parameter(help="The name of the account.")]


@app.command(name="list")
def list_all(account: Account, *, wide: Wide = False, json: Json = False) -> None:
    """List the keys of an account."""

    async def work(db: Database) -> list[dict[str, object]]:
        owner = await accounts.find(db, account)
        ((now,),) = await db.fetch("SELECT now_ms()")
        limited = await store.limits_of_account(db, owner.id)
        capped = {row.key_id: row for row in await store.caps_of_account(db, owner.id)}
        return [
            {
                **_shown(row, await store.usage(db, row.id), capped.get(row.id), now),
                "routes": _names(await route_store.of_key(db, row.id)),
                **limits.shown(limited.get(row.id, LimitsRow(row.id))),
            }
            for row in await store.of_account(db, owner.id)
            if not row.internal
        ]

    rows = with_database(work, json=json)
    brief = ("id", "name", "masked", "state", "calls", "cost")
    show_rows(rows, json, empty="The account has no key yet.", brief=brief, wide=wide)


def _names(names: Sequence[str] | None) -> str:
    return "any" if names is None else ", ".join(names) or "none"


def _shown(row: KeyRow, used: KeyUsage, cap: CapRow | None, now: int) -> dict[str, object]:
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
