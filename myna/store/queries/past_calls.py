"""Queries that fold the calls and ledger entries from before the outbox. See `myna/billing/rollup.py`."""

from collections.abc import Iterable

from msgspec import Struct

from myna.store.batch import CallState
from myna.store.columns import columns
from myna.store.database import Queries, Transaction
from myna.store.queries.outbox import EndedCall, NewEntry
from myna.store.states import ENDED


class PastCall(Struct, frozen=True):
    """A call that ended before `counted_since`. Times in ms."""

    account_id: int
    key_id: int
    pays: int
    state: int
    units: int
    channel: str
    created_at: int
    ended_at: int


def ended(call: PastCall, hour: int) -> EndedCall:
    """The call as its batch would have written it to the outbox."""
    kept = call.state == CallState.KEPT
    return EndedCall(
        account_id=call.account_id,
        hour=hour,
        kind=call.pays,
        ok=int(kept),
        units=call.units if kept else 0,
        ms=max(call.ended_at - call.created_at, 0),
        channel=call.channel,
        key_id=call.key_id,
    )


async def past_entries(db: Queries, start: bytes, end: bytes, before: int) -> list[NewEntry]:
    """The entries with call ids from `start` on and below `end` that were made before a time."""
    rows = await db.fetch(
        "SELECT l.account_id, l.created_at, l.call_id, l.kind, coalesce(c.key_id, 0), l.units"
        " FROM ledger l LEFT JOIN calls c ON c.id = l.call_id"
        " WHERE l.call_id >= $1 AND l.call_id < $2 AND l.created_at < $3",
        start, end, before,
    )  # fmt: skip
    return [NewEntry(row[0], row[1], bytes(row[2]), *row[3:]) for row in rows]


async def past_calls(db: Queries, start: bytes, end: bytes, before: int) -> list[PastCall]:
    """The calls with ids from `start` on and below `end` that ended before a time."""
    rows = await db.fetch(
        f"SELECT {columns(PastCall)} FROM calls WHERE id >= $1 AND id < $2 AND {ENDED} AND ended_at < $3",
        start, end, before,
    )  # fmt: skip
    return [PastCall(*row) for row in rows]


async def lock_accounts(db: Transaction, account_ids: Iterable[int]) -> None:
    """Locks these accounts until the transaction ends: only then may it write the counters of their keys."""
    await db.with_rows(
        "UPDATE accounts SET balance = balance WHERE id IN (",
        [(account_id,) for account_id in sorted(set(account_ids))],
        ")",
        "bigint",
    )


async def set_last_used(db: Transaction, calls: Iterable[PastCall]) -> None:
    """Sets when the keys of these calls were used. Their accounts must be locked."""
    used: dict[int, int] = {}
    for call in calls:
        used[call.key_id] = max(used.get(call.key_id, 0), call.ended_at)
    await db.with_rows(
        "WITH used (key_id, at) AS (",
        sorted(used.items()),
        ") UPDATE key_usage SET last_used_at = used.at FROM used"
        " WHERE key_usage.key_id = used.key_id AND key_usage.last_used_at < used.at",
        "bigint", "bigint",
    )  # fmt: skip


async def filled_until(db: Transaction, position: bytes, *, all_filled: bool) -> None:
    """Records how far the books from before the outbox are folded."""
    await db.fetch("UPDATE rollup_state SET filled_until = $1, filled = $2", position, int(all_filled))
