"""The response headers about units."""

from myna.telemetry import access_log


def headers() -> dict[str, str]:
    """The units that this request cost, 0 for a stored response, and the account's balance after it."""
    details = access_log.details()
    return {"X-Units-Cost": str(details.units), "X-Units-Balance": str(details.balance)}
