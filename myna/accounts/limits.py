"""Limits of keys and accounts: calls in a minute, open calls, and units in a day.

A call counts for its key and for its account. The batch checks and counts in the charge's transaction, so the
limits are exact in every process. A key or an account that has no limit set has the site's.
"""

import math
import re
from collections.abc import Mapping
from functools import lru_cache

from myna.config import SiteSettings
from myna.errors import CommandError, RateLimited
from myna.store.batch import (
    NO_LIMITS,
    ChargeRefused,
    DefaultLimits,
    Limits,
    Rate,
    RefusalReason,
)
from myna.store.database import Transaction
from myna.store.queries import keys as store
from myna.store.queries.keys import OF_ACCOUNT, LimitsRow

NAMES = Limits.__struct_fields__
MOST = 1_000_000_000_000
NONE = "none"
DEFAULT = "default"
"""Written in a command for no limit, and for that of the site."""
CONCURRENT_RETRY_S = 1
"""After how long to try again where another call must end first."""
_NUMBER = re.compile(r"[1-9][0-9]{0,12}")
Given = Mapping[str, int | None]
"""New values by the names of the limits: None for the site's, 0 for none."""
_KEY = "This API key"
_ACCOUNT = "The account of this API key"
_OPEN = " has {used} calls open and may have {limit}; nothing was charged, try again when one has ended."
_MINUTE = (
    " has made the {limit} calls that it may make in a minute; nothing was charged, try again in {wait_s} s."
)
_DAY = (
    " has used {used} of the {limit} units that it may use in 24 hours, and this call costs {units};"
    " nothing was charged, try again in {span}."
)
SENTENCES = {
    (RefusalReason.CONCURRENT, True): _KEY + _OPEN,
    (RefusalReason.CONCURRENT, False): _ACCOUNT + _OPEN,
    (RefusalReason.RPM, True): _KEY + _MINUTE,
    (RefusalReason.RPM, False): _ACCOUNT + _MINUTE,
    (RefusalReason.UNITS_PER_DAY, True): _KEY + _DAY,
    (RefusalReason.UNITS_PER_DAY, False): _ACCOUNT + _DAY,
}
"""Why a charge was refused, by the limit and whether it is the key's."""


@lru_cache(maxsize=1)
def defaults_of(settings: SiteSettings) -> DefaultLimits | None:
    """The limits of the site, None without any."""
    found = DefaultLimits(
        *(Limits(*(getattr(settings, f"{of}_{name}") for name in NAMES)) for of in ("key", "account"))
    )
    return None if found.key == found.account == NO_LIMITS else found


def parsed(*, rpm: str | None, concurrent: str | None, units_per_day: str | None) -> Given:
    """The limits that a command sets: those that are not None. Raises CommandError."""
    given = {"rpm": rpm, "concurrent": concurrent, "units_per_day": units_per_day}
    return {name: _parsed(name, text) for name, text in given.items() if text is not None}


def as_texts(limits: Given) -> dict[str, str]:
    """The limits as `parsed` reads them."""
    return {name: _text(value) for name, value in limits.items()}


def of_row(row: LimitsRow) -> Given:
    """The limits of a stored row, without the site's."""
    return {name: value for name in NAMES if (value := getattr(row, name)) is not None}


def shown(row: LimitsRow) -> dict[str, str]:
    """The limits of a stored row as text, with `default` for the site's."""
    return as_texts({name: getattr(row, name) for name in NAMES})


async def put(connection: Transaction, account_id: int, limits: Given, key_id: int = OF_ACCOUNT) -> None:
    """Sets limits of a locked account, or of one of its keys. What is used of them stays."""
    if limits:
        await store.put_limits(connection, account_id, key_id, limits)


def error_of(refused: ChargeRefused, units: int) -> RateLimited:
    """The error of a charge of `units` that a limit refused."""
    reached = refused.limit
    if reached is None:
        raise AssertionError(f"{refused.why} without a limit")
    sentence = SENTENCES[refused.why, reached.of_key]
    wait_s = max(1, math.ceil(reached.reset_ms / 1000))
    headers = {"Retry-After": str(wait_s)}
    if refused.why is RefusalReason.CONCURRENT:
        headers = {"Retry-After": str(CONCURRENT_RETRY_S)}
    elif refused.why is RefusalReason.RPM:
        headers |= rate_headers(Rate(limit=reached.limit, remaining=0, reset_ms=reached.reset_ms))
    else:
        headers["x-should-retry"] = "false"
    return RateLimited(
        sentence,
        headers,
        used=reached.used,
        limit=reached.limit,
        units=units,
        wait_s=wait_s,
        span=_span(reached.reset_ms),
    )


def rate_headers(rate: Rate) -> dict[str, str]:
    """The headers of a call whose key or account may make a limited number of calls in a minute."""
    return {
        "x-ratelimit-limit-requests": str(rate.limit),
        "x-ratelimit-remaining-requests": str(max(0, rate.remaining)),
        "x-ratelimit-reset-requests": _span(rate.reset_ms),
    }


def _span(ms: int) -> str:
    """A duration as OpenAI writes it: `1h0m12s`, `1m12s` or `12s`, rounded up to seconds."""
    minutes, seconds = divmod(math.ceil(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def _parsed(name: str, text: str) -> int | None:
    if text in (NONE, DEFAULT):
        return 0 if text == NONE else None
    if not _NUMBER.fullmatch(text) or int(text) > MOST:
        raise CommandError(
            "The limit {name} must be a whole number from 1 to {most}, {none} or {default}.",
            name,
            name=name,
            most=MOST,
            none=NONE,
            default=DEFAULT,
        )
    return int(text)


def _text(value: int | None) -> str:
    return DEFAULT if value is None else str(value) if value else NONE
