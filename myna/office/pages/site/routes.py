"""Routes: the models that callers may name, with their prices and channels; added, changed, removed."""

from urllib.parse import quote

from msgspec import structs
from starlette.responses import Response

from myna.actions.routes import AddRoute, RemoveRoute, SetRoute
from myna.channels.channels import Channel
from myna.channels.routes import (
    BUILT_IN,
    NAME_MAX_CHARS,
    PRICE_SETTINGS,
    TRANSCRIPTION_ROUTE,
    UNITS_MAX,
    Route,
    RouteKind,
    listed,
    model_for,
)
from myna.errors import NotFound
from myna.office.page import Page, performs
from myna.office.pages.site.channels import known
from myna.office.render import N_
from myna.office.visit import Visit
from myna.store.queries import config as store

PATH = "/site/routes"
KINDS = {
    RouteKind.CHAT: N_("Chat"),
    RouteKind.EMBEDDINGS: N_("Embeddings"),
    RouteKind.SPEECH: N_("Speech"),
    RouteKind.TRANSCRIPTION: N_("Transcription"),
}
TESTED = (RouteKind.CHAT, RouteKind.SPEECH)
"""The kinds that the test of a channel can send."""


async def show(visit: Visit) -> Response:
    """The operator's routes, each with the enabled channels that serve it and how many keys are limited to
    it, and the built-in ones with their prices."""
    config = await visit.config()
    channels = await known(visit)
    keys = await visit.read(store.keys_limited_to_routes)
    own = sorted(config.routes, key=lambda route: (route.name.endswith("*"), route.name))
    built_in = [route for route in listed(config, visit.parts.config.settings) if route.name in BUILT_IN]
    return visit.page(
        "site/routes.html",
        rows=[(route, _serving(route, channels), keys.get(route.name, 0)) for route in own],
        built_in=[(route, PRICE_SETTINGS[route.kind]) for route in built_in],
        missing=TRANSCRIPTION_ROUTE if await visit.parts.whisper_missing() else "",
        kinds=KINDS,
        has_channel=any(channel.enabled for channel in channels),
    )


async def show_new(visit: Visit) -> Response:
    """Asks for a new route."""
    return visit.page(
        "site/route_new.html",
        form=AddRoute(name="", units=0),
        kinds=KINDS,
        channels=await known(visit),
        name_max_chars=NAME_MAX_CHARS,
        units_max=UNITS_MAX,
        command_words=["route", "add", "NAME", "--units", "UNITS"],
    )


async def add(visit: Visit) -> Response:
    """Adds the route."""
    route = await visit.perform(visit.fields(AddRoute))
    return visit.redirect(
        f"{PATH}/change?name={quote(route.name, safe='')}",
        "{name} is added. Callers may name it from now on.",
        name=route.name,
    )


async def show_change(visit: Visit) -> Response:
    """One route: its form, a test of each channel that serves it, and its removal."""
    route = await _found(visit, visit.parameter("name"))
    channels = await known(visit)
    serving = _serving(route, channels) if route.kind in TESTED else []
    form = SetRoute(
        name=route.name,
        units=route.units,
        channel=route.channels or None,
        any_channel=not route.channels,
        upstream_model=route.upstream_model,
        intent=route.intent if route.kind is RouteKind.CHAT else None,
    )
    return visit.page(
        "site/route.html",
        route=route,
        form=form,
        kind=KINDS[route.kind],
        channels=[channel for channel in channels if channel.kind == route.kind.channel_kind],
        keys=(await visit.read(store.keys_limited_to_routes)).get(route.name, 0),
        tests=[(channel, _model_of_test(route, channel)) for channel in serving],
        name_max_chars=NAME_MAX_CHARS,
        units_max=UNITS_MAX,
        command_words=form.words,
    )


async def change(visit: Visit) -> Response:
    """Changes the route. A form without a channel is for any of its kind."""
    before = await _found(visit, visit.typed("name"))
    chosen = visit.fields(SetRoute, upstream_model=visit.typed("upstream_model"))
    channels = chosen.channel or None
    after = await visit.perform(
        structs.replace(chosen, channel=channels, any_channel=not channels, intent=bool(chosen.intent))
    )
    return visit.redirect(PATH, "" if after == before else N_("{name} is changed."), name=before.name)


async def _found(visit: Visit, name: str) -> Route:
    """The operator's route of this name. Raises NotFound."""
    for row in await visit.read(store.load_routes):
        if row.name == name:
            return row
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


PAGES = [
    Page(PATH, show=show),
    Page(f"{PATH}/new", show=show_new, submit=add, recent=True),
    Page(f"{PATH}/change", show=show_change, submit=change, recent=True),
    Page(
        f"{PATH}/remove",
        submit=performs(RemoveRoute, PATH, N_("{name} is removed."), confirmed=True),
        recent=True,
    ),
]
