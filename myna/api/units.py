"""The response headers of a charged call."""

from myna.telemetry import access_log
from myna.telemetry.access_log import RequestDetails


def headers(details: RequestDetails | None = None) -> dict[str, str]:
    """The units that this request cost, 0 for a stored response, and the account's balance after it; and the
    calls that are left in this minute, if they are limited; and the tools that were left out. `details` are
    this request's by default."""
    details = details or access_log.details()
    units = {"X-Units-Cost": str(details.units), "X-Units-Balance": str(details.balance)}
    ignored = {"X-Ignored-Tools": details.ignored_tools} if details.ignored_tools else {}
    return units | details.rate_headers | ignored


def headers_with_channel() -> dict[str, str]:
    """The headers about units, and the channel that answered: `node` for compute nodes, and no header for a
    stored response."""
    channel = access_log.details().channel
    return headers() | ({"X-Myna-Channel": channel} if channel else {})
