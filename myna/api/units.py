"""The response headers of a charged call."""

from collections.abc import Mapping
from itertools import islice

from myna.lib.telemetry.requests import RequestDetails
from myna.wire.body import NAMES_MAX


def headers(details: RequestDetails) -> dict[str, str]:
    """The units that a request cost, 0 for a stored response, and the account's balance after it; the calls
    that are left in this minute, if they are limited; and what of the request was ignored
    or not spoken."""
    found = {"X-Units-Cost": str(details.units), "X-Units-Balance": str(details.balance)}
    found |= details.rate_headers
    if details.ignored:
        found["X-Ignored-Fields"] = details.ignored
    if details.unspoken:
        found["X-Unspoken"] = unspoken(details.unspoken)
    if details.ignored_tools:
        found["X-Ignored-Tools"] = details.ignored_tools
    return found


def unspoken(counts: Mapping[str, int]) -> str:
    """What of a text was not spoken, as the value of a header: scripts, kinds of signs, names of markup."""
    named = [f"{name} {count}" for name, count in islice(counts.items(), NAMES_MAX)]
    more = sum(islice(counts.values(), NAMES_MAX, None))
    return ", ".join([*named, f"{more} more"] if more else named)


def headers_with_channel(details: RequestDetails) -> dict[str, str]:
    """The headers about units, and the channel that answered: `node` for compute nodes, and no header for a
    stored response."""
    return headers(details) | ({"X-Myna-Channel": details.channel} if details.channel else {})
