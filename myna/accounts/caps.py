"""Caps of keys: the units that a key may use in a day, a week or a month of the site's time zone.

A charge takes from the cap and a refund gives back, in the transaction of the batch. A refund after the end
of the period in which its call was charged changes nothing. The first charge after the end of a period is
refused by the batch, renews the cap and is sent again.
"""

import re
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from myna.accounts.accounts import UNITS_MAX
from myna.errors import CommandError, InsufficientQuota, MynaError, Unauthorized, sentences
from myna.lib import times
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import keys as key_store
from myna.store.queries.keys import CapRow

_CAP = re.compile(r"([1-9][0-9]{0,15})/(day|week|month)")


class Period(StrEnum):
    """How often a cap renews. A week begins on Monday."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class Cap(Struct, frozen=True):
    """A cap of `units` in each period."""

    units: int
    period: Period

    def __str__(self) -> str:
        return f"{self.units}/{self.period}"


def parsed(text: str) -> Cap:
    """The cap of a text such as `1000/month`. Raises CommandError."""
    match = _CAP.fullmatch(text)
    if not match or int(match[1]) > UNITS_MAX:
        raise CommandError(
            "{text!r} is not a cap: write units from 1 to {units_max} and day, week or month,"
            " such as 1000/month.",
            "cap_units",
            text=text,
            units_max=UNITS_MAX,
        )
    return Cap(int(match[1]), Period(match[2]))


def of_row(row: CapRow) -> Cap:
    """The cap of a stored row."""
    return Cap(row.units, Period(row.period))


def used(row: CapRow, now: int) -> int:
    """The units used in the period of `now` (Unix milliseconds)."""
    return row.used if now < row.ends_at else 0


def bounds(period: Period, now: int, zone: str) -> tuple[int, int]:
    """The start and the end of the period of `now` in a time zone, all in Unix milliseconds."""
    today = times.day_of(zone, now)
    if period is Period.DAY:
        return times.day_start(zone, today), times.day_start(zone, today + 1)
    if period is Period.WEEK:
        monday = today - (today + times.EPOCH.weekday()) % 7
        return times.day_start(zone, monday), times.day_start(zone, monday + 7)
    day = times.EPOCH + timedelta(days=today)
    return (
        times.month_start(zone, day.year, day.month),
        times.month_start(zone, day.year, day.month + 1),
    )


async def put(connection: Transaction, key_id: int, cap: Cap | None) -> None:
    """Sets or, with None, removes the cap of a key whose account is locked. A new cap counts from now on."""
    if cap is None:
        await key_store.remove_cap(connection, key_id)
    else:
        await key_store.put_cap(connection, key_id, cap.units, cap.period)


async def renew(db: Database, key_hash: bytes, zone: str) -> None:
    """Begins the present period of a key's cap, unless another process has."""

    async def work(connection: Transaction) -> None:
        found = await key_store.by_hash(connection, key_hash)
        if found is None or await key_store.locked(connection, found.key.id, None) is None:
            return
        cap = await key_store.cap_of(connection, found.key.id)
        ((now,),) = await connection.fetch("SELECT now_ms()")
        if cap is not None and cap.ends_at <= now:
            await key_store.renew_cap(connection, cap.key_id, *bounds(Period(cap.period), now, zone))

    await db.transaction(work)


async def refusal(db: Queries, key_id: int, cost: int, zone: str) -> MynaError:
    """The error of a charge that the cap of a key refused."""
    cap = await key_store.cap_of(db, key_id)
    if cap is None:
        return Unauthorized("This API key was changed in this moment; try again.")
    renews_at = datetime.fromtimestamp(cap.ends_at // 1000, times.zone_of(zone)).isoformat()
    return InsufficientQuota(
        sentences.CAP_REACHED,
        used=cap.used,
        units=cap.units,
        period=cap.period,
        renews_at=renews_at,
        cost=cost,
    )
