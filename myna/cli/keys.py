"""myna key issue|list|cap|limit|routes|roll|rename|revoke"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, TypeVar

import msgspec
from cyclopts import App, Parameter

from myna import accounts, caps, durations, keys, limits
from myna.activity import command_line
from myna.cli.console import Json, Wide, seconds, show, show_rows, with_database
from myna.cli.limit_options import NONE_GIVEN, Concurrent, Rpm, UnitsPerDay
from myna.errors import CommandError
from myna.keys import Issued, Scope
from myna.store.database import Database
from myna.store.queries import caps as cap_store
from myna.store.queries import keys as store
from myna.store.queries import limits as limit_store
from myna.store.queries import routes as route_store
from myna.store.queries.caps import CapRow
from myna.store.queries.keys import KeyRow, KeyUsage
from myna.store.queries.limits import LimitsRow

T = TypeVar("T")
_ID = re.compile(r"[1-9][0-9]{0,15}")

app = App(name="key", help="API keys.")
Routes = Annotated[
    list[str] | None,
    Parameter(help="A route that the key may use; may be given often; any by default."),
]
CAP_HELP = "Units per day, week or month, such as 1000/month."
Account = Annotated[str, Parameter(help="The name of the account.")]
Key = Annotated[
    str,
    Parameter(
        name="KEY", help="The name of the key, or its id in 'myna key list'.", allow_leading_hyphen=True
    ),
]


@app.command
def issue(
    account: Account,
    *,
    name: Annotated[
        str | None, Parameter(help="A name for the key, such as its purpose; key N by default.")
    ] = None,
    scope: Annotated[
        list[str] | None,
        Parameter(help="chat, tts or records; may be given often; all by default."),
    ] = None,
    expires_in: Annotated[str, Parameter(allow_leading_hyphen=True, help="Such as 30d, 12h, 90s.")] = "",
    cap: Annotated[str, Parameter(allow_leading_hyphen=True, help=CAP_HELP)] = "",
    route: Routes = None,
    rpm: Rpm = None,
    concurrent: Concurrent = None,
    units_per_day: UnitsPerDay = None,
    json: Json = False,
) -> None:
    """Issue a key. The plain key is printed once and not stored."""
    scopes = keys.ALL_SCOPES if scope is None else keys.scopes_of(scope)
    capped = caps.parsed(cap) if cap else None
    life_ms = durations.millis(expires_in) if expires_in else 0
    given = limits.parsed(rpm=rpm, concurrent=concurrent, units_per_day=units_per_day)

    async def work(db: Database) -> Issued:
        owner = await accounts.find(db, account)
        others = sum(not row.internal for row in await store.of_account(db, owner.id))
        named = f"key {others + 1}" if name is None else name
        return await keys.issue(
            db,
            owner.id,
            named,
            scopes,
            life_ms,
            by=command_line(),
            cap=capped,
            routes=route,
            limits=given,
        )

    show(msgspec.structs.asdict(with_database(work, json=json)), json)


@app.command(name="list")
def list_all(account: Account, *, wide: Wide = False, json: Json = False) -> None:
    """List the keys of an account."""

    async def work(db: Database) -> list[dict[str, object]]:
        owner = await accounts.find(db, account)
        ((now,),) = await db.fetch("SELECT now_ms()")
        limited = await limit_store.of_account(db, owner.id)
        capped = {row.key_id: row for row in await cap_store.of_account(db, owner.id)}
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


@app.command(name="cap")
def set_cap(
    key: Key,
    cap: Annotated[str, Parameter(name="CAP", allow_leading_hyphen=True, help=f"{CAP_HELP} Or none.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Cap the units that a key may use in each day, week or month, or remove its cap."""
    limit = None if cap == keys.NO_CAP else caps.parsed(cap)
    key_id, _ = _change(key, lambda db, key_id: keys.set_cap(db, key_id, limit, by=command_line()), json)
    show({"id": key_id, "cap": cap}, json)


@app.command(name="limit")
def set_limits(
    key: Key,
    /,
    *,
    rpm: Rpm = None,
    concurrent: Concurrent = None,
    units_per_day: UnitsPerDay = None,
    json: Json = False,
) -> None:
    """Limit the calls and units of a key; options that are not given stay as they are."""
    given = limits.parsed(rpm=rpm, concurrent=concurrent, units_per_day=units_per_day)
    if not given:
        raise CommandError(NONE_GIVEN)
    key_id, _ = _change(key, lambda db, key_id: keys.set_limits(db, key_id, given, by=command_line()), json)
    show({"id": key_id, **limits.as_texts(given)}, json)


@app.command
def routes(
    key: Key,
    /,
    *,
    route: Routes = None,
    any_route: Annotated[bool, Parameter(name="--any", help="It may use any route.")] = False,
    json: Json = False,
) -> None:
    """Limit a key to routes, or let it use any again."""
    if bool(route) is any_route:
        raise CommandError("Give either --route, once for each route, or --any.")
    key_id, _ = _change(key, lambda db, key_id: keys.set_routes(db, key_id, route, by=command_line()), json)
    show({"id": key_id, "routes": _names(route)}, json)


def _names(names: Sequence[str] | None) -> str:
    return "any" if names is None else ", ".join(names) or "none"


@app.command
def roll(
    key: Key,
    /,
    *,
    grace: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="How long the old key still works.")
    ] = "7d",
    json: Json = False,
) -> None:
    """Replace a key by a new one with the same name and scopes, printed once. The old one expires."""
    grace_ms = durations.millis(grace)
    _, rolled = _change(key, lambda db, key_id: keys.roll(db, key_id, grace_ms, by=command_line()), json)
    show({**msgspec.structs.asdict(rolled.issued), "old_expires_at": rolled.old_expires_at}, json)


@app.command
def rename(key: Key, name: Annotated[str, Parameter(help="Its new name.")], /, *, json: Json = False) -> None:
    """Rename a key."""
    key_id, _ = _change(key, lambda db, key_id: keys.rename(db, key_id, name, by=command_line()), json)
    show({"id": key_id, "name": name}, json)


@app.command
def revoke(key: Key, /, *, json: Json = False) -> None:
    """Revoke a key: every process refuses it."""
    key_id, _ = _change(key, lambda db, key_id: keys.revoke(db, key_id, by=command_line()), json)
    show({"id": key_id, "revoked": True}, json)


def _change(key: str, change: Callable[[Database, int], Awaitable[T]], json: bool) -> tuple[int, T]:
    """Changes the key of this id or name. Returns its id, and what the change returns."""

    async def work(db: Database) -> tuple[int, T]:
        key_id = int(key) if _ID.fullmatch(key) else await _id_of(db, key)
        return key_id, await change(db, key_id)

    return with_database(work, json=json)


async def _id_of(db: Database, name: str) -> int:
    """The id of the key of this name that is not revoked. Raises CommandError if it isn't the only one."""
    found = await store.of_name(db, name)
    if not found:
        raise CommandError(
            "There is no key {name!r}; 'myna key list ACCOUNT' has the names and ids.", name=name
        )
    if len(found) > 1:
        ids = ", ".join(f"{key_id} (of {owner})" for key_id, owner in found)
        raise CommandError("There are several keys {name!r}; name one by its id: {ids}.", name=name, ids=ids)
    return found[0][0]


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
