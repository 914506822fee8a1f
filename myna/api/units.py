"""The response headers of a charged call."""

from myna.telemetry.requests import RequestDetails


def headers(details: RequestDetails) -> dict[str, str]:
    """The units that a request cost, 0 for a stored response, and the account's balance after it; the calls
    that are left in this minute, if they are limited; and what of the request was ignored."""
    found = {"X-Units-Cost": str(details.units), "X-Units-Balance": str(details.balance)}
    found |= details.rate_headers
    if details.ignored:
        found["X-Ignored-Fields"] = details.ignored
    if details.ignored_tools:
        found["X-Ignored-Tools"] = details.ignored_tools
    return found


def headers_with_channel(details: RequestDetails) -> dict[str, str]:
    """The headers about units, and the channel that answered: `node` for compute nodes, and no header for a
    stored response."""
    return headers(details) | ({"X-Myna-Channel": details.channel} if details.channel else {})
