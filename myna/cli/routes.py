"""myna route add|list|set|remove"""

from cyclopts import App
from msgspec import structs

from myna.actions.routes import AddRoute, RemoveRoute, SetRoute
from myna.channels.routes import BUILT_IN, Route, listed
from myna.cli.actions import named, register
from myna.cli.console import Json, Wide, show_rows, with_database
from myna.config import settings_of
from myna.store.queries import config as store
from myna.store.queries.config import Config

app = App(name="route", help="Routes: what callers name as model, what serves it, and its price.")


@app.command(name="list")
def list_all(*, wide: Wide = False, json: Json = False) -> None:
    """List the routes: the built-in ones, exact names, and wildcards."""
    config: Config = with_database(store.load, json=json)
    routes = listed(config, settings_of(config))
    rows = [{**_shown(route), "built_in": route.name in BUILT_IN} for route in routes]
    brief = ("name", "kind", "units", "channels", "upstream_model")
    show_rows(rows, json, empty="", brief=brief, wide=wide)


def _shown(route: Route) -> dict[str, object]:
    return {**structs.asdict(route), "channels": list(route.channels)}


register(
    app,
    AddRoute,
    lambda _, route: _shown(route),
    then=lambda action, _: (
        f"Next: callers send {action.name} as model. All names and prices: myna route list"
    ),
)
register(app, SetRoute, lambda _, route: _shown(route))
register(app, RemoveRoute, named(removed=True))
