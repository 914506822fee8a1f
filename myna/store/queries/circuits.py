"""Queries on the circuit breakers of channels, as the serving processes reported them.

Each process has its circuits in memory; the row has the last report. It is for the operator: no call depends
on it.
"""

from typing import Literal

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.rows import columns

State = Literal["closed", "open", "half-open"]


class CircuitRow(Struct, frozen=True):
    """`half-open`: the cooldown is over, and no call has succeeded since. `error` opened the circuit last, at
    `error_at` (milliseconds); "" and 0 where it never opened. Calls are admitted from `open_until`
    (milliseconds), 0 for a closed circuit."""

    state: State = "closed"
    error: str = ""
    error_at: int = 0
    open_until: int = 0


_STATE = "CASE WHEN open_until = 0 THEN 'closed' WHEN open_until > now_ms() THEN 'open' ELSE 'half-open' END"


async def load(db: Queries) -> dict[str, CircuitRow]:
    """The circuits that ever opened, by channel name."""
    rows = await db.fetch(f"SELECT channel, {columns(CircuitRow, state=_STATE)} FROM circuits")
    return {str(channel): CircuitRow(*row) for channel, *row in rows}


async def record_open(db: Transaction, channel: str, open_ms: int, error: str) -> None:
    """Records that the channel's circuit opened for `open_ms` after `error`."""
    await db.fetch(
        "INSERT INTO circuits (channel, open_until, error, error_at)"
        " VALUES ($1, now_ms() + $2, $3, now_ms()) ON CONFLICT (channel) DO UPDATE"
        " SET open_until = excluded.open_until, error = excluded.error, error_at = excluded.error_at",
        channel, open_ms, error,
    )  # fmt: skip


async def record_closed(db: Transaction, channel: str) -> None:
    """Records that the channel's circuit closed. Its last error is kept."""
    await db.fetch("UPDATE circuits SET open_until = 0 WHERE channel = $1", channel)
