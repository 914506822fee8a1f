"""Changes of the operator's routes."""

from typing import Annotated, Literal

from msgspec import structs

from myna.actions import YES_OR_NO, Action, Change, Field
from myna.channels.channels import from_settings
from myna.channels.routes import UNITS_MAX, Route, RouteKind, check, price_setting
from myna.errors import CommandError
from myna.store.queries import config as store

Name = Annotated[str, Field("What callers send as model; it may end in *.", argument="NAME")]
OldName = Annotated[str, Field("The name of the route.", argument="NAME")]
_UNITS = Field("Units that a call costs.", limits=(0, UNITS_MAX), label="Units")
_CHANNEL = Field("A channel that serves it; may be given often; any of its kind by default.", value="NAME")
_UPSTREAM_MODEL = Field(
    "The model to request; by default the channel's, or else the caller's.",
    value="MODEL",
    label="Model to request",
)


class AddRoute(Action[Route], frozen=True):
    """Add a route."""

    command = "route add"
    name: Name
    units: Annotated[int, _UNITS]
    channel: Annotated[tuple[str, ...], _CHANNEL] = ()
    upstream_model: Annotated[str, _UPSTREAM_MODEL] = ""
    kind: Annotated[
        Literal["chat", "embeddings", "speech", "transcription"], Field("What the route does.")
    ] = "chat"
    intent: Annotated[
        bool,
        Field(
            "Instructions to speak are spoken, as on /v1.", label="Answer requests to read aloud with speech"
        ),
    ] = False

    @property
    def route(self) -> Route:
        return Route(
            name=self.name,
            kind=RouteKind(self.kind),
            units=self.units,
            upstream_model=self.upstream_model,
            channels=tuple(sorted(set(self.channel))),
            intent=self.intent,
        )

    def check_values(self) -> None:
        check(self.route)

    async def run(self, change: Change) -> Route:
        await store.raise_version(change.db)  # locks the configuration
        if self.name in {row.name for row in await store.load_routes(change.db)}:
            raise CommandError("There already is a route {name!r}.", name=self.name)
        return await _put(change, self.route)


class SetRoute(Action[Route], frozen=True):
    """Change a route; options that are not given stay as they are."""

    command = "route set"
    name: OldName
    units: Annotated[int | None, _UNITS] = None
    channel: Annotated[tuple[str, ...] | None, _CHANNEL] = None
    any_channel: Annotated[bool, Field("Any channel of its kind serves it.")] = False
    upstream_model: Annotated[str | None, _UPSTREAM_MODEL] = None
    intent: Annotated[
        bool | None, Field("Whether instructions to speak are spoken: yes or no.", value=YES_OR_NO)
    ] = None

    def check_values(self) -> None:
        if self.channel and self.any_channel:
            raise CommandError("Give --channel or --any-channel, not both.")
        self.check_given()

    async def run(self, change: Change) -> Route:
        channels = () if self.any_channel else self.channel and tuple(sorted(set(self.channel)))
        values = {
            "units": self.units,
            "upstream_model": self.upstream_model,
            "channels": channels,
            "intent": self.intent,
        }
        await change.compare_configuration()
        before = await _of_name(change, self.name)
        route = structs.replace(before, **{key: value for key, value in values.items() if value is not None})
        check(route)
        present = {
            "units": before.units,
            "channel": before.channels or None,
            "any_channel": not before.channels,
            "upstream_model": before.upstream_model,
            "intent": before.intent,
        }
        given = structs.replace(self, channel=channels or None)
        change.performed = [given.differing(present)]
        return await _put(change, route)


class RemoveRoute(Action[None], frozen=True):
    """Delete a route. Keys that are limited to it can't use its name any more."""

    command = "route remove"
    name: OldName

    async def run(self, change: Change) -> None:
        await _of_name(change, self.name)
        await store.remove_route(change.db, self.name)


async def _put(change: Change, route: Route) -> Route:
    await _check_channels(change, route)
    await store.put_route(change.db, route)
    return route


async def _of_name(change: Change, name: str) -> Route:
    """The operator's route of this name, locked. Raises CommandError."""
    await store.raise_version(change.db)
    known = await store.load_routes(change.db)
    for row in known:
        if row.name == name:
            return row
    if setting := price_setting(name):
        raise CommandError(
            "{name} is built in; its price is the site setting {setting}.", name=name, setting=setting
        )
    names = ", ".join(repr(row.name) for row in known)
    raise CommandError("There is no route {name!r}; there are {known}.", name=name, known=names or "none")


async def _check_channels(change: Change, route: Route) -> None:
    """Raises CommandError unless each channel of the route is there and can serve its kind."""
    rows = (await store.load(change.db)).channels
    known = {one.name: one.kind for one in from_settings(change.settings)}
    known |= {row.name: row.kind for row in rows}
    for name in route.channels:
        if name not in known:
            raise CommandError("There is no channel {name!r}: see 'myna channel list'.", name=name)
        if known[name] != route.kind.channel_kind:
            raise CommandError(
                "The channel {name!r} is for {known}; a route of the kind {kind} needs channels"
                " for {channel_kind}.",
                name=name,
                known=known[name],
                kind=route.kind,
                channel_kind=route.kind.channel_kind,
            )
