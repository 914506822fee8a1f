"""Queries on the outbox: ledger entries and ended calls that are not folded yet. See `billing/rollup.py`."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from myna.store.batch import CallState
from myna.store.database import Queries, Row, Transaction

P = TypeVar("P")
Place = tuple[int, bytes, int]
"""Where an entry is in the ledger of its account: time in ms, call id, kind."""


class NewEntry(Struct, frozen=True, gc=False):
    """A ledger entry to be folded; `key_id` is 0 for a grant and a code."""

    account_id: int
    at: int
    call_id: bytes
    kind: int
    key_id: int
    units: int

    @property
    def place(self) -> Place:
        return self.at, self.call_id, self.kind


class EndedCall(Struct, frozen=True, gc=False):
    """A call that ended in `hour`, open for `ms`. `units` is 0 if it was refunded."""

    account_id: int
    hour: int
    kind: int
    ok: int
    units: int
    ms: int
    channel: str
    key_id: int


class Pending(Struct, frozen=True):
    """Rows of the outbox."""

    entries: list[NewEntry]
    ends: list[EndedCall]


class _Ends(Struct, frozen=True, array_like=True):
    """The calls of one batch that ended, as columns, all in `hour`. `units` are those charged."""

    hour: int = 0
    accounts: list[int] = []
    keys: list[int] = []
    kinds: list[int] = []
    states: list[CallState] = []
    units: list[int] = []
    ms: list[int] = []
    channels: list[str] = []

    def calls(self) -> Iterator[EndedCall]:
        columns = (self.accounts, self.keys, self.kinds, self.states, self.units, self.ms, self.channels)
        for account_id, key_id, kind, state, units, ms, channel in zip(*columns, strict=True):
            kept = state == CallState.KEPT
            yield EndedCall(account_id, self.hour, kind, int(kept), units if kept else 0, ms, channel, key_id)


def counted(ends: Iterable[EndedCall], place: Callable[[EndedCall], P]) -> dict[P, list[int]]:
    """The calls, those delivered, their units and the milliseconds of all, summed by their place."""
    found: defaultdict[P, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for end in ends:
        counters = found[place(end)]
        counters[0] += 1
        counters[1] += end.ok
        counters[2] += end.units
        counters[3] += end.ms
    return found


_entries_decoder = msgspec.json.Decoder(list[tuple[str, int, int, int, int]])
_ends_decoder = msgspec.json.Decoder(_Ends)


async def take(db: Transaction, limit: int) -> Pending:
    """Deletes the oldest rows of the outbox and returns them: so many that they have `limit` entries and ends
    or a little more."""
    sql = """DELETE FROM outbox WHERE id IN (
        SELECT id FROM (
            SELECT id, sum(size) OVER (ORDER BY id) - size AS before
            FROM (SELECT id, size FROM outbox ORDER BY id LIMIT CAST($1 AS BIGINT)) AS oldest
        ) AS counted WHERE before < CAST($1 AS BIGINT)
        ) RETURNING at, entries, ended"""
    return _decoded(await db.fetch(sql, limit))


async def pending(db: Queries) -> Pending:
    """All of the outbox."""
    return _decoded(await db.fetch("SELECT at, entries, ended FROM outbox"))


async def pending_ends(db: Queries) -> list[EndedCall]:
    """The calls of the outbox."""
    return _ended(row[0] for row in await db.fetch("SELECT ended FROM outbox WHERE ended <> '[]'"))


def _decoded(rows: Sequence[Row]) -> Pending:
    entries = [
        NewEntry(account, at, bytes.fromhex(call), kind, key, units)
        for at, texts, _ in rows
        for call, kind, account, key, units in _entries_decoder.decode(texts)
    ]
    return Pending(entries, _ended(texts for _, _, texts in rows))


def _ended(texts: Iterable[str]) -> list[EndedCall]:
    return [end for text in texts for end in _ends_decoder.decode(text).calls()]
