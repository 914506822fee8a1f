"""The fields of a form for the cap of a key."""

from msgspec import Struct

from myna.accounts.caps import Period
from myna.office.messages import N_
from myna.store.queries.keys import CapRow

PERIODS = ((Period.DAY, N_("per day")), (Period.WEEK, N_("per week")), (Period.MONTH, N_("per month")))


class CapFields(Struct):
    """The units and the period as typed; without units there is no cap."""

    cap_units: str = ""
    cap_period: str = Period.MONTH.value

    @property
    def text(self) -> str:
        """The cap as on the command line; "" without one."""
        return f"{self.cap_units}/{self.cap_period}" if self.cap_units else ""


def fields_of(row: CapRow | None) -> CapFields:
    """The fields for a stored cap."""
    return CapFields(str(row.units), row.period) if row else CapFields()
