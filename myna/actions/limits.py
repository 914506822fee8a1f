"""The limits among the fields of actions on keys and accounts."""

from typing import Annotated, Protocol

from myna.accounts.limits import Given, parsed
from myna.actions import Field

_VALUES = "a number, none, or default for the site's."
Rpm = Annotated[str | None, Field(f"Calls in a minute: {_VALUES}", hyphen=True)]
Concurrent = Annotated[str | None, Field(f"Calls that may be open at once: {_VALUES}", hyphen=True)]
UnitsPerDay = Annotated[str | None, Field(f"Units in 24 hours: {_VALUES}", hyphen=True)]


class _Limited(Protocol):
    @property
    def rpm(self) -> str | None: ...
    @property
    def concurrent(self) -> str | None: ...
    @property
    def units_per_day(self) -> str | None: ...


def given_limits(action: _Limited) -> Given:
    """The limits that an action sets. Raises CommandError."""
    return parsed(rpm=action.rpm, concurrent=action.concurrent, units_per_day=action.units_per_day)
