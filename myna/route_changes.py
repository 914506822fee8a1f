"""Changes of the operator's routes. Each is recorded in the activity."""

from collections.abc import Sequence

from msgspec import Struct, structs

from myna import activity
from myna.activity import Actor
from myna.channels import from_settings
from myna.errors import CommandError
from myna.routes import Route, RouteKind, check, of_row, price_setting
from myna.settings import Settings
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import config as config_store
from myna.store.queries import routes as store
from myna.store.queries.routes import RouteRow


class Edit(Struct, frozen=True):
    """New values of a route; None leaves one as it is."""

    units: int | None = None
    upstream_model: str | None = None
    channels: tuple[str, ...] | None = None
    intent: bool | None = None


async def add(db: Database, settings: Settings, route: Route, *, by: Actor) -> None:
    """Adds a route. Raises CommandError."""
    check(route)
    command = activity.words(
        *("route", "add", route.name),
        units=route.units,
        channel=route.channels,
        upstream_model=route.upstream_model or None,
        kind=route.kind.value,
        intent=route.intent,
    )

    async def work(connection: Transaction) -> None:
        if route.name in {row.name for row in await store.load(connection)}:
            raise CommandError("There already is a route {name!r}.", name=route.name)
        await _put(connection, settings, route)
        await activity.record(connection, by, command)

    await db.transaction(work)


async def change(db: Database, settings: Settings, name: str, edit: Edit, *, by: Actor) -> Route:
    """Changes a route and returns it. Raises CommandError."""
    if edit == Edit():
        raise CommandError(
            "Give at least one of --units, --channel, --any-channel, --upstream-model, --intent."
        )
    command = activity.words(
        *("route", "set", name),
        units=edit.units,
        channel=edit.channels,
        any_channel=edit.channels == (),
        upstream_model=edit.upstream_model,
        intent=None if edit.intent is None else "yes" if edit.intent else "no",
    )

    async def work(connection: Transaction) -> Route:
        given = {field: value for field, value in structs.asdict(edit).items() if value is not None}
        route = structs.replace(await _of_name(connection, name), **given)
        check(route)
        await _put(connection, settings, route)
        await activity.record(connection, by, command)
        return route

    return await db.transaction(work)


async def remove(db: Database, name: str, *, by: Actor) -> None:
    """Deletes a route. Keys that are limited to it can't use its name again, unless they are limited to a new
    route of this name. Raises CommandError."""

    async def work(connection: Transaction) -> None:
        await _of_name(connection, name)
        await store.remove(connection, name)
        await config_store.raise_version(connection)
        await activity.record(connection, by, activity.words("route", "remove", name))

    await db.transaction(work)


async def _put(connection: Transaction, settings: Settings, route: Route) -> None:
    await _check_channels(connection, settings, route.kind, route.channels)
    await store.put(
        connection,
        RouteRow(
            name=route.name,
            kind=route.kind.value,
            units=route.units,
            upstream_model=route.upstream_model,
            intent=int(route.intent),
            channels=tuple(sorted(set(route.channels))),
        ),
    )
    await config_store.raise_version(connection)


async def _of_name(db: Queries, name: str) -> Route:
    """The operator's route of this name. Raises CommandError."""
    known = await store.load(db)
    for row in known:
        if row.name == name:
            return of_row(row)
    if setting := price_setting(name):
        raise CommandError(
            "{name} is built in; its price is the site setting {setting}.", name=name, setting=setting
        )
    names = ", ".join(repr(row.name) for row in known)
    raise CommandError("There is no route {name!r}; there are {known}.", name=name, known=names or "none")


async def _check_channels(db: Queries, settings: Settings, kind: RouteKind, names: Sequence[str]) -> None:
    """Raises CommandError unless each name is that of a channel that can serve this kind."""
    rows = (await config_store.load(db)).channels
    known = {one.name: one.kind for one in from_settings(settings)} | {row.name: row.kind for row in rows}
    for name in names:
        if name not in known:
            raise CommandError("There is no channel {name!r}: see 'myna channel list'.", name=name)
        if known[name] != kind.channel_kind:
            raise CommandError(
                "The channel {name!r} is for {known}; a route of the kind {kind} needs channels"
                " for {channel_kind}.",
                name=name,
                known=known[name],
                kind=kind,
                channel_kind=kind.channel_kind,
            )
