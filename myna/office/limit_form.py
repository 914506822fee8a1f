"""The fields of a form for the limits of a key and the routes that it may use."""

from msgspec import Struct, field

from myna import limits
from myna.limits import DEFAULT, Given
from myna.office.visit import Visit
from myna.routes import BUILT_IN
from myna.store.queries import limits as store
from myna.store.queries import routes as route_store
from myna.store.queries.keys import KeyRow


class LimitFields(Struct):
    """The limits as typed, empty for those of the site; and the routes, none for any."""

    rpm: str = ""
    concurrent: str = ""
    units_per_day: str = ""
    route: list[str] = field(default_factory=list)


def given(form: LimitFields) -> Given:
    """The limits. Raises CommandError."""
    return limits.parsed(
        rpm=form.rpm or DEFAULT,
        concurrent=form.concurrent or DEFAULT,
        units_per_day=form.units_per_day or DEFAULT,
    )


async def fields_of(visit: Visit, key: KeyRow) -> LimitFields:
    """The fields for what is stored."""
    row = await store.of_key(visit.db, key.account_id, key.id)
    texts = {name: text for name, text in limits.shown(row).items() if text != DEFAULT}
    return LimitFields(**texts, route=list(await route_store.of_key(visit.db, key.id) or ()))


async def routes_of_site(visit: Visit) -> list[str]:
    """The names that the form offers, empty if the operator has added no route."""
    own = [row.name for row in await route_store.load(visit.db)]
    return [*BUILT_IN, *own] if own else []
