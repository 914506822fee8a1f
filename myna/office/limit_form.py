"""The fields of forms for the caps and limits of a key or an account, and the routes that a key may use."""

from collections.abc import Collection, Mapping

from msgspec import Struct, field, structs

from myna.accounts import limits
from myna.accounts.caps import Period
from myna.accounts.limits import DEFAULT
from myna.channels.routes import TRANSCRIPTION_ROUTE, Route, listed
from myna.office.messages import N_
from myna.office.visit import Visit
from myna.store.batch import NO_LIMITS
from myna.store.queries import config as config_store
from myna.store.queries import keys as store
from myna.store.queries.keys import OF_ACCOUNT, CapRow

PERIODS = ((Period.DAY, N_("per day")), (Period.WEEK, N_("per week")), (Period.MONTH, N_("per month")))


class LimitFields(Struct):
    """The limits as typed, empty for those of the site; and the routes, none for any."""

    rpm: str = ""
    concurrent: str = ""
    units_per_day: str = ""
    route: list[str] = field(default_factory=list)


def typed_limits(form: LimitFields) -> dict[str, str]:
    """The limits as actions have them: an empty one is the site's."""
    return {name: getattr(form, name) or DEFAULT for name in limits.NAMES}


async def limit_fields(visit: Visit, account_id: int, key_id: int = OF_ACCOUNT) -> LimitFields:
    """The fields for the stored limits of a key, with its routes, or of an account."""
    stored = limits.shown(await store.limits_of(visit.db, account_id, key_id))
    routes = await config_store.routes_of_key(visit.db, key_id) if key_id != OF_ACCOUNT else None
    texts = {name: "" if text == DEFAULT else text for name, text in stored.items()}
    return LimitFields(**texts, route=list(routes or ()))


async def of_site(visit: Visit, *, account: bool = False) -> Mapping[str, str]:
    """The site's limits of a key, or of an account, as text by the names of the fields."""
    await visit.config()
    defaults = limits.defaults_of(visit.parts.config.settings)
    found = NO_LIMITS if defaults is None else defaults.account if account else defaults.key
    return limits.as_texts(structs.asdict(found))


async def routes_of_site(visit: Visit, chosen: Collection[str]) -> list[Route]:
    """The routes that the form offers, none if the operator has added none. Whisper is one of them where it
    is installed, or if it is `chosen`."""
    config = await visit.config()
    whisper = TRANSCRIPTION_ROUTE in chosen or not await visit.parts.whisper_missing()
    found = listed(config, visit.parts.config.settings) if config.routes else []
    return [route for route in found if whisper or route.name != TRANSCRIPTION_ROUTE]


class CapFields(Struct):
    """The units and the period as typed; without units there is no cap."""

    cap_units: str = ""
    cap_period: str = Period.MONTH.value

    @property
    def text(self) -> str:
        """The cap as on the command line; "" without one."""
        return f"{self.cap_units}/{self.cap_period}" if self.cap_units else ""


def cap_fields(row: CapRow | None) -> CapFields:
    """The fields for a stored cap."""
    return CapFields(str(row.units), row.period) if row else CapFields()
