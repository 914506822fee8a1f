"""Routes: the models that callers may name, with their prices and channels; added, changed, removed."""

from urllib.parse import quote

from msgspec import Struct, field, structs
from starlette.responses import Response

from myna import activity, route_changes
from myna.channels import Channel
from myna.errors import CommandError, NotFound
from myna.office.messages import N_
from myna.office.page import Page, Who
from myna.office.pages.site.channels import known
from myna.office.visit import Visit
from myna.route_changes import Edit
from myna.routes import (
    BUILT_IN,
    NAME_MAX_CHARS,
    PRICE_SETTINGS,
    TRANSCRIPTION_ROUTE,
    UNITS_MAX,
    Route,
    RouteKind,
    listed,
    model_for,
    of_row,
)
from myna.store.queries import config as config_store
from myna.store.queries import routes as store

PATH = "/site/routes"
KINDS = {
    RouteKind.CHAT: N_("Chat"),
    RouteKind.EMBEDDINGS: N_("Embeddings"),
    RouteKind.SPEECH: N_("Speech"),
    RouteKind.TRANSCRIPTION: N_("Transcription"),
}
TESTED = (RouteKind.CHAT, RouteKind.SPEECH)
"""The kinds that the test of a channel can send."""


class Fields(Struct):
    """The form of a route. The kind of a route never changes."""

    name: str = ""
    kind: str = RouteKind.CHAT.value
    units: str = ""
    channel: list[str] = field(default_factory=list)
    upstream_model: str = ""
    intent: bool = False

    def route(self) -> Route:
        """Raises CommandError."""
        if self.kind not in list(RouteKind):
            raise CommandError("A route is for {kinds}.", kinds=", ".join(RouteKind))
        return Route(
            name=self.name,
            kind=RouteKind(self.kind),
            units=_whole(self.units),
            upstream_model=self.upstream_model,
            channels=tuple(sorted(set(self.channel))),
            intent=self.intent,
        )


class Removal(Struct):
    """The form that removes a route: its name, and the name as typed."""

    name: str = ""
    typed: str = ""


class Row(Struct, frozen=True):
    """A line of the table. `serving` are the enabled channels that serve the route, `keys` how many keys are
    limited to it."""

    route: Route
    serving: list[Channel]
    keys: int


async def show(visit: Visit) -> Response:
    """The operator's routes, and the built-in ones with their prices."""
    config = await visit.read(config_store.load)
    await visit.parts.config.at(config.version)
    channels = await known(visit)
    keys = await visit.read(store.keys_limited)
    own = sorted(map(of_row, config.routes), key=lambda route: (route.name.endswith("*"), route.name))
    built_in = [route for route in listed(config, visit.parts.config.settings) if route.name in BUILT_IN]
    return visit.page(
        "site/routes.html",
        rows=[Row(route, _serving(route, channels), keys.get(route.name, 0)) for route in own],
        built_in=[(route, PRICE_SETTINGS[route.kind]) for route in built_in],
        missing=TRANSCRIPTION_ROUTE if await visit.parts.whisper_missing() else "",
        kinds=KINDS,
        has_channel=any(channel.enabled for channel in channels),
    )


async def show_new(visit: Visit, error: str = "") -> Response:
    """Asks for a new route."""
    form = visit.fields(Fields)
    return visit.page(
        "site/route_new.html",
        status=400 if error else 200,
        form=form,
        kinds=KINDS,
        channels=await known(visit),
        name_max_chars=NAME_MAX_CHARS,
        units_max=UNITS_MAX,
        error=error,
        command_words=activity.words(
            *("route", "add", form.name or "NAME"),
            units=form.units or "UNITS",
            channel=form.channel,
            upstream_model=form.upstream_model or None,
            kind=form.kind,
            intent=form.intent,
        ),
    )


async def add(visit: Visit) -> Response:
    """Adds the route."""
    form = visit.fields(Fields)
    try:
        await route_changes.add(visit.db, visit.parts.settings, form.route(), by=visit.actor)
    except CommandError as error:
        return await show_new(visit, visit.said(error))
    notice = visit.text("{name} is added. Callers may name it from now on.").format(name=form.name)
    return visit.redirect(f"{PATH}/change?name={quote(form.name, safe='')}", notice)


async def show_change(visit: Visit, name: str = "", error: str = "") -> Response:
    """One route: its form, a test of each channel that serves it, and its removal."""
    route = await _found(visit, name or visit.parameter("name"))
    channels = await known(visit)
    form = visit.fields(Fields) if error and "units" in visit.form else _as_typed(route)
    serving = _serving(route, channels) if route.kind in TESTED else []
    return visit.page(
        "site/route.html",
        status=400 if error else 200,
        route=route,
        form=form,
        kind=KINDS[route.kind],
        channels=[channel for channel in channels if channel.kind == route.kind.channel_kind],
        keys=(await visit.read(store.keys_limited)).get(route.name, 0),
        tests=[(channel, _model_of_test(route, channel)) for channel in serving],
        name_max_chars=NAME_MAX_CHARS,
        units_max=UNITS_MAX,
        error=error,
        command_words=activity.words(
            *("route", "set", route.name),
            units=form.units,
            channel=form.channel,
            any_channel=not form.channel,
            upstream_model=form.upstream_model,
            intent=None if route.kind is not RouteKind.CHAT else "yes" if form.intent else "no",
        ),
    )


async def change(visit: Visit) -> Response:
    """Changes the fields that differ from the stored route."""
    form = visit.fields(Fields)
    before = await _found(visit, form.name)
    try:
        after = structs.replace(form, kind=before.kind.value).route()
        edit = Edit(
            units=None if after.units == before.units else after.units,
            upstream_model=None if after.upstream_model == before.upstream_model else after.upstream_model,
            channels=None if after.channels == before.channels else after.channels,
            intent=None if after.intent == before.intent else after.intent,
        )
        if edit == Edit():
            return visit.redirect(PATH)
        await route_changes.change(visit.db, visit.parts.settings, before.name, edit, by=visit.actor)
    except CommandError as error:
        return await show_change(visit, before.name, visit.said(error))
    return visit.redirect(PATH, visit.text("{name} is changed.").format(name=before.name))


async def remove(visit: Visit) -> Response:
    """Removes the route."""
    form = visit.fields(Removal)
    try:
        if form.typed != form.name:
            raise CommandError(visit.text("Type the name to remove it."))
        await route_changes.remove(visit.db, form.name, by=visit.actor)
    except CommandError as error:
        return await show_change(visit, form.name, visit.said(error))
    return visit.redirect(PATH, visit.text("{name} is removed.").format(name=form.name))


async def _found(visit: Visit, name: str) -> Route:
    """The operator's route of this name. Raises NotFound."""
    for row in await visit.read(store.load):
        if row.name == name:
            return of_row(row)
    raise NotFound("There is no such route.")


def _serving(route: Route, channels: list[Channel]) -> list[Channel]:
    """The enabled channels that serve the route, in their order."""
    return [
        channel
        for channel in channels
        if channel.enabled
        and channel.kind == route.kind.channel_kind
        and (not route.channels or channel.name in route.channels)
    ]


def _model_of_test(route: Route, channel: Channel) -> str:
    """The model that a test of this channel asks for; "" where only a caller can name it."""
    if route.kind is RouteKind.SPEECH:
        return route.upstream_model or channel.model
    return model_for(route, channel.model, "" if route.name.endswith("*") else route.name)


def _as_typed(route: Route) -> Fields:
    return Fields(
        name=route.name,
        kind=route.kind.value,
        units=str(route.units),
        channel=list(route.channels),
        upstream_model=route.upstream_model,
        intent=route.intent,
    )


def _whole(text: str) -> int:
    """The units as typed. Raises CommandError."""
    if not text.isascii() or not text.isdecimal():
        raise CommandError("--units: must be a whole number from 0 to {units_max}.", units_max=UNITS_MAX)
    return int(text[:20])


PAGES = [
    Page(path=PATH, show=show, who=Who.OPERATOR),
    Page(path=f"{PATH}/new", show=show_new, submit=add, who=Who.OPERATOR, recent=True),
    Page(path=f"{PATH}/change", show=show_change, submit=change, who=Who.OPERATOR, recent=True),
    Page(path=f"{PATH}/remove", submit=remove, who=Who.OPERATOR, recent=True),
]
