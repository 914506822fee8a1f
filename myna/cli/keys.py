"""myna key issue|list|cap|limit|routes|roll|rename|revoke"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from cyclopts.validators import Number

from myna import accounts, caps, durations, keys, limits
from myna.activity import command_line
from myna.cli.console import Json, seconds, show, show_rows, whole_number, with_database
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

app = App(name="key", help="API keys.")
Routes = Annotated[
    list[str] | None,
    Parameter(negative="", help="A route that the key may use; may be given often; any by default."),
]
CAP_HELP = "Units per day, week or month, such as 1000/month."
Account = Annotated[str, Parameter(help="The name of the account.")]
KeyId = Annotated[
    int,
    Parameter(
        name="ID",
        help="The id of the key in `myna key list`.",
        converter=whole_number,
        validator=Number(gte=1, lte=2**53),
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
        Parameter(negative="", help="chat, tts or records; may be given often; all by default."),
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
def list_all(account: Account, *, json: Json = False) -> None:
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
    show_rows(rows, json, empty="The account has no key yet.")


@app.command(name="cap")
def set_cap(
    key_id: KeyId,
    cap: Annotated[str, Parameter(name="CAP", allow_leading_hyphen=True, help=f"{CAP_HELP} Or none.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Cap the units that a key may use in each day, week or month, or remove its cap."""
    limit = None if cap == keys.NO_CAP else caps.parsed(cap)
    with_database(lambda db: keys.set_cap(db, key_id, limit, by=command_line()), json=json)
    show({"id": key_id, "cap": cap}, json)


@app.command(name="limit")
def set_limits(
    key_id: KeyId,
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
    with_database(lambda db: keys.set_limits(db, key_id, given, by=command_line()), json=json)
    show({"id": key_id, **limits.as_texts(given)}, json)


@app.command
def routes(
    key_id: KeyId,
    /,
    *,
    route: Routes = None,
    any_route: Annotated[bool, Parameter(name="--any", negative="", help="It may use any route.")] = False,
    json: Json = False,
) -> None:
    """Limit a key to routes, or let it use any again."""
    if bool(route) is any_route:
        raise CommandError("Give either --route, once for each route, or --any.")
    with_database(lambda db: keys.set_routes(db, key_id, route, by=command_line()), json=json)
    show({"id": key_id, "routes": _names(route)}, json)


def _names(names: Sequence[str] | None) -> str:
    return "any" if names is None else ", ".join(names) or "none"


@app.command
def roll(
    key_id: KeyId,
    /,
    *,
    grace: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="How long the old key still works.")
    ] = "7d",
    json: Json = False,
) -> None:
    """Replace a key by a new one with the same name and scopes, printed once. The old one expires."""
    grace_ms = durations.millis(grace)
    rolled = with_database(lambda db: keys.roll(db, key_id, grace_ms, by=command_line()), json=json)
    show({**msgspec.structs.asdict(rolled.issued), "old_expires_at": rolled.old_expires_at}, json)


@app.command
def rename(
    key_id: KeyId, name: Annotated[str, Parameter(help="Its new name.")], /, *, json: Json = False
) -> None:
    """Rename a key."""
    with_database(lambda db: keys.rename(db, key_id, name, by=command_line()), json=json)
    show({"id": key_id, "name": name}, json)


@app.command
def revoke(key_id: KeyId, /, *, json: Json = False) -> None:
    """Revoke a key: every process refuses it."""
    with_database(lambda db: keys.revoke(db, key_id, by=command_line()), json=json)
    show({"id": key_id, "revoked": True}, json)


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
