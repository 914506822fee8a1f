"""Queries of the reports, and for the operator on the history of units and calls.

Those of reports are searches by account or by hour in an index; none counts or skips rows. The tables and
what is not folded yet are read in one snapshot, so that nothing lags: see `billing/rollup.py`.

Those of calls have no index: every call would have to write it, and it would rarely be read. Each query scans
the calls, newest first.
"""

from collections.abc import Iterable, Sequence
from operator import add, attrgetter

from msgspec import Struct

from myna.store.batch import EntryKind
from myna.store.database import Queries
from myna.store.queries import outbox
from myna.store.queries.outbox import Place
from myna.store.queries.rollup import EntryRow
from myna.store.rows import columns, fetch_map, fetch_row, fetch_rows, fetch_value, parameters

LAST_PLACE = (2**62, b"\xff" * 16, 9)
"""Above the place of every entry."""


class UsageRow(Struct, frozen=True):
    """What a key used at the rate of a scope (`kind`: 1 chat, 2 tts) in an hour or day `at`: Unix ms of the
    hour's start, or days since 1970-01-01. `ms` is the sum of the calls' durations in milliseconds."""

    at: int
    key_id: int
    kind: int
    calls: int
    ok_calls: int
    units: int
    ms: int


class SiteHourRow(Struct, frozen=True):
    """Calls of the site that ended in an hour (Unix ms of its start), by channel, scope that paid and the
    number of binary digits of their milliseconds."""

    hour: int
    channel: str
    kind: int
    bucket: int
    calls: int
    ok_calls: int
    units: int


class AccountUsage(Struct, frozen=True):
    """Calls of an account that ended, those delivered, and the units of the delivered ones."""

    account: str
    calls: int
    ok_calls: int
    units: int


_ENTRY = columns(EntryRow)
_BELOW = "entries WHERE account_id = $1 AND at >= $2 AND at <= $3 AND (at, call_id, kind) < ($3, $4, $5)"
_NEWEST_FIRST = "ORDER BY at DESC, call_id DESC, kind DESC"


async def waiting(db: Queries, account_id: int) -> list[UsageRow]:
    """The account's calls that are in the outbox, each a row."""
    return [
        UsageRow(one.hour, one.key_id, one.kind, 1, one.ok, one.units, one.ms)
        for one in await outbox.pending_ends(db)
        if one.account_id == account_id
    ]


async def hours(
    db: Queries,
    account_id: int,
    start: int,
    end: int,
    unfolded: Iterable[UsageRow],
    key_id: int | None = None,
) -> list[UsageRow]:
    """Usage (of one key, or of all) in the hours from `start` on and before `end`, in Unix ms, then the
    `unfolded` rows of the same hours."""
    of_key, key_ids = ("", ()) if key_id is None else (" AND key_id = $4", (key_id,))
    sql = f"""SELECT {columns(UsageRow, at="hour")} FROM usage_hours
        WHERE account_id = $1 AND hour >= $2 AND hour < $3{of_key}"""
    return [
        *await fetch_rows(db, UsageRow, sql, account_id, start, end, *key_ids),
        *(row for row in unfolded if key_id in (None, row.key_id) and start <= row.at < end),
    ]


async def days(db: Queries, account_id: int, first: int, past: int) -> list[UsageRow]:
    """Usage on the days from `first` on and before `past`, oldest first, as far as they were written."""
    sql = f"""SELECT {columns(UsageRow, at="day")} FROM usage_days
        WHERE account_id = $1 AND day >= $2 AND day < $3 ORDER BY day, key_id, kind"""
    return await fetch_rows(db, UsageRow, sql, account_id, first, past)


async def oldest_stale(db: Queries, account_id: int, before: int) -> int | None:
    """The account's oldest day before `before` whose hours have changed since it was written."""
    sql = "SELECT min(day) FROM stale_days WHERE day < $1 AND account_id = $2"
    return await fetch_value(db, int, sql, before, account_id)


async def page(
    db: Queries, account_id: int, before: Place, start: int, kind: int | None, limit: int
) -> list[EntryRow]:
    """The account's newest entries below the place `before` and not older than `start` (ms), newest first."""
    # The literal beside the parameter allows the partial index.
    of_kind = "" if kind is None else " AND kind = $7" + (" AND kind <> 0" if kind else "")
    found = f"{_BELOW}{of_kind} {_NEWEST_FIRST} LIMIT $6"
    sql = f"SELECT {_ENTRY} FROM {found}"
    if kind:  # the places first: SQLite uses the index of such entries only if it has all that is read
        sql = (
            f"SELECT {columns(EntryRow, 'e')} FROM (SELECT at, call_id, kind FROM {found}) AS found"
            " JOIN entries e ON e.account_id = $1 AND e.at = found.at AND e.call_id = found.call_id"
            " AND e.kind = found.kind ORDER BY e.at DESC, e.call_id DESC, e.kind DESC"
        )
    kinds = () if kind is None else (kind,)
    return await fetch_rows(db, EntryRow, sql, account_id, start, *before, limit, *kinds)


async def site_hours(db: Queries, start: int, end: int) -> list[SiteHourRow]:
    """The site's calls in the hours from `start` on and before `end`, in Unix ms, oldest first."""
    sql = f"""SELECT {columns(SiteHourRow)} FROM site_hours WHERE hour >= $1 AND hour < $2
        ORDER BY hour, channel, kind, bucket"""
    return await fetch_rows(db, SiteHourRow, sql, start, end)


async def usage_by_account(db: Queries, start: int, limit: int) -> list[AccountUsage]:
    """What the accounts used in the hours that began after `start` (ms), the most units first. Reads all
    hours since then."""
    waiting = (one for one in await outbox.pending_ends(db) if one.hour > start)
    found = outbox.counted(waiting, attrgetter("account_id"))
    sums = ", ".join(f"CAST(sum({one}) AS BIGINT)" for one in ("calls", "ok_calls", "units", "ms"))
    sql = f"SELECT account_id, {sums} FROM usage_hours WHERE hour > $1 GROUP BY account_id"
    for account_id, *folded in await db.fetch(sql, start):
        found[account_id] = list(map(add, folded, found.get(account_id, [0] * len(folded))))
    most = sorted(found, key=lambda account_id: found[account_id][2], reverse=True)[:limit]
    if not most:
        return []
    sql = f"SELECT id, name FROM accounts WHERE id IN ({parameters(most)})"
    names = await fetch_map(db, int, str, sql, *most)
    return [AccountUsage(names[account_id], *found[account_id][:3]) for account_id in most]


async def last_used(db: Queries, account_id: int) -> dict[int, int]:
    """When a call of each key of the account last ended, in Unix ms."""
    sql = """SELECT u.key_id, u.last_used_at FROM keys k JOIN key_usage u ON u.key_id = k.id
        WHERE k.account_id = $1 AND u.last_used_at > 0"""
    return await fetch_map(db, int, int, sql, account_id)


async def details(db: Queries, call_ids: Sequence[bytes]) -> dict[tuple[bytes, int], tuple[str, str, str]]:
    """Memo, request and route of the ledger entries of these calls, by call id and kind."""
    if not call_ids:
        return {}
    sql = f"""SELECT l.call_id, l.kind, l.memo, coalesce(c.request_id, ''), coalesce(c.route, '')
        FROM ledger l LEFT JOIN calls c ON c.id = l.call_id WHERE l.call_id IN ({parameters(call_ids)})"""
    rows = await db.fetch(sql, *call_ids)
    return {(bytes(row[0]), row[1]): (row[2], row[3], row[4]) for row in rows}


CALL_ID_MAX = b"\xff" * 16
"""Above every call id."""


class CallEntry(Struct, frozen=True):
    """A ledger entry of a call. Time in ms."""

    kind: int
    created_at: int
    units: int


class CallRow(Struct, frozen=True):
    """A call. `reason` is why it was refunded, or why the answer of a kept one is incomplete; else empty.
    `task_id` is 0 if it has no task. Times in ms, 0 for never."""

    id: bytes
    account: str
    key_id: int
    state: int
    pays: int
    units: int
    route: str
    channel: str
    reason: str
    usage: str
    request_id: str
    task_id: int
    created_at: int
    deadline: int
    ended_at: int


_CALLS = f"""
SELECT {columns(CallRow, "c", account="a.name", task_id="coalesce(t.id, 0)")}
FROM calls AS c JOIN accounts AS a ON a.id = c.account_id LEFT JOIN tasks AS t ON t.call_id = c.id
"""


async def place_of(db: Queries, account_id: int, call_id: bytes, kind: EntryKind) -> Place | None:
    """The place of an entry of the account."""
    sql = "SELECT created_at FROM ledger WHERE call_id = $1 AND kind = $2 AND account_id = $3"
    created_at = await fetch_value(db, int, sql, call_id, int(kind), account_id)
    return None if created_at is None else (created_at, call_id, int(kind))


async def call(db: Queries, call_id: bytes) -> list[CallRow]:
    """The call of this id, if there is one."""
    return await fetch_rows(db, CallRow, f"{_CALLS} WHERE c.id = $1", call_id)


async def call_of_account(db: Queries, account_id: int, call_id: bytes) -> CallRow | None:
    """The call of this id, if it is the account's."""
    sql = f"{_CALLS} WHERE c.id = $1 AND c.account_id = $2"
    return await fetch_row(db, CallRow, sql, call_id, account_id)


async def entries_of_call(db: Queries, call_id: bytes) -> list[CallEntry]:
    """The charge of a call, and its refund if it has one."""
    sql = f"SELECT {columns(CallEntry)} FROM ledger WHERE call_id = $1 ORDER BY kind"
    return await fetch_rows(db, CallEntry, sql, call_id)


async def calls_of_request(
    db: Queries, request_id: str, before: bytes, limit: int, after: bytes = b""
) -> list[CallRow]:
    """The calls of requests with this id that are older than `before` and not older than `after`, newest
    first."""
    sql = f"{_CALLS} WHERE c.request_id = $1 AND c.id < $2 AND c.id >= $3 ORDER BY c.id DESC LIMIT $4"
    return await fetch_rows(db, CallRow, sql, request_id, before, after, limit)


async def calls_of_account(db: Queries, account_id: int, before: bytes, limit: int) -> list[CallRow]:
    """The account's calls that are older than `before`, newest first."""
    sql = f"{_CALLS} WHERE c.account_id = $1 AND c.id < $2 ORDER BY c.id DESC LIMIT $3"
    return await fetch_rows(db, CallRow, sql, account_id, before, limit)
