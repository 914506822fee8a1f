"""myna route add|list|set|remove"""

from typing import Annotated, Literal

from cyclopts import App, Parameter

from myna import route_changes
from myna.activity import command_line
from myna.cli.console import Json, Whole, Wide, read_settings, show, show_rows, with_database
from myna.config import settings_of
from myna.errors import CommandError
from myna.route_changes import Edit
from myna.routes import BUILT_IN, Route, RouteKind, listed
from myna.store.queries import config as store
from myna.store.queries.config import Config

app = App(name="route", help="Routes: what callers name as model, what serves it, and its price.")
Name = Annotated[str, Parameter(help="What callers send as model; it may end in *.")]
Units = Annotated[Whole, Parameter(help="Units that a call costs.")]
Channel = Annotated[
    list[str] | None,
    Parameter(help="A channel that serves it; may be given often; any of its kind by default."),
]
UpstreamModel = Annotated[
    str, Parameter(help="The model to request; by default the channel's, or else the caller's.")
]


@app.command
def add(
    name: Name,
    *,
    units: Units,
    channel: Channel = None,
    upstream_model: UpstreamModel = "",
    kind: Annotated[
        Literal["chat", "embeddings", "speech", "transcription"], Parameter(help="What the route does.")
    ] = "chat",
    intent: Annotated[bool, Parameter(help="Instructions to speak are spoken, as on /v1.")] = False,
    json: Json = False,
) -> None:
    """Add a route."""
    route = Route(
        name=name,
        kind=RouteKind(kind),
        units=units,
        upstream_model=upstream_model,
        channels=tuple(channel or ()),
        intent=intent,
    )
    settings, by = read_settings(), command_line()
    with_database(lambda db: route_changes.add(db, settings, route, by=by), json=json)
    show(_shown(route), json)


@app.command(name="list")
def list_all(*, wide: Wide = False, json: Json = False) -> None:
    """List the routes: the built-in ones, exact names, and wildcards."""
    config: Config = with_database(store.load, json=json)
    routes = listed(config, settings_of(config))
    rows = [{**_shown(route), "built_in": route.name in BUILT_IN} for route in routes]
    brief = ("name", "kind", "units", "channels", "upstream_model")
    show_rows(rows, json, empty="", brief=brief, wide=wide)


@app.command(name="set")
def change(
    name: Name,
    *,
    units: Units | None = None,
    channel: Channel = None,
    any_channel: Annotated[bool, Parameter(help="Any channel of its kind serves it.")] = False,
    upstream_model: UpstreamModel | None = None,
    intent: Annotated[
        Literal["yes", "no"] | None, Parameter(help="Whether instructions to speak are spoken: yes or no.")
    ] = None,
    json: Json = False,
) -> None:
    """Change a route; options that are not given stay as they are."""
    if channel and any_channel:
        raise CommandError("Give --channel or --any-channel, not both.")
    edit = Edit(
        units=units,
        upstream_model=upstream_model,
        channels=() if any_channel else tuple(channel) if channel else None,
        intent=None if intent is None else intent == "yes",
    )
    settings, by = read_settings(), command_line()
    route = with_database(lambda db: route_changes.change(db, settings, name, edit, by=by), json=json)
    show(_shown(route), json)


@app.command
def remove(name: Name, *, json: Json = False) -> None:
    """Delete a route. Keys that are limited to it can't use its name any more."""
    with_database(lambda db: route_changes.remove(db, name, by=command_line()), json=json)
    show({"name": name, "removed": True}, json)


def _shown(route: Route) -> dict[str, object]:
    return {
        "name": route.name,
        "kind": route.kind.value,
        "units": route.units,
        "upstream_model": route.upstream_model,
        "channels": list(route.channels),
        "intent": route.intent,
    }
