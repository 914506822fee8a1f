"""The options of the commands that set limits of keys and accounts."""

from typing import Annotated

from cyclopts import Parameter

_VALUES = "a number, none, or default for the site's."
Rpm = Annotated[str | None, Parameter(allow_leading_hyphen=True, help=f"Calls in a minute: {_VALUES}")]
Concurrent = Annotated[
    str | None, Parameter(allow_leading_hyphen=True, help=f"Calls that may be open at once: {_VALUES}")
]
UnitsPerDay = Annotated[
    str | None, Parameter(allow_leading_hyphen=True, help=f"Units in 24 hours: {_VALUES}")
]
NONE_GIVEN = "Give at least one of --rpm, --concurrent and --units-per-day."
