"""Queries of the reports. All are searches by account or by hour in an index; none counts or skips rows.

The tables and what is not folded yet are read in one snapshot, so that nothing lags: see `billing/rollup.py`.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from myna.store.database import Queries
from myna.store.queries import outbox
from myna.store.queries.outbox import Place
from myna.store.queries.rollup import EntryRow, entry_row
from myna.store.rows import columns

LAST_PLACE = (2**62, b"\xff" * 16, 9)
"""Above the place of every entry."""
SCANNED_MAX = 5_000
"""Entries that a page reads for those of one key, which have no index."""


class UsageRow(Struct, frozen=True):
    """What a key used at a rate in an hour or day `at`: Unix ms of the hour's start, or days since
    1970-01-01. `kind` is the scope that paid; `ms` the sum of the calls' durations in milliseconds."""

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


class Details(Struct, frozen=True):
    """What an entry's page shows beside it."""

    memo: str
    request_id: str
    route: str


_ENTRY = columns(EntryRow)
_BELOW = "entries WHERE account_id = $1 AND at >= $2 AND at <= $3 AND (at, call_id, kind) < ($3, $4, $5)"
_NEWEST_FIRST = "ORDER BY at DESC, call_id DESC, kind DESC"


async def waiting(db: Queries, account_id: int) -> list[UsageRow]:
    """The account's calls that are in the outbox, each a row. Those with key 0 are in its hours already."""
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
    `unfolded` rows of the same hours that are not counted in them."""
    of_key, parameters = ("", ()) if key_id is None else (" AND key_id = $4", (key_id,))
    rows = await db.fetch(
        f"SELECT {columns(UsageRow, at='hour')} FROM usage_hours"
        f" WHERE account_id = $1 AND hour >= $2 AND hour < $3{of_key}",
        account_id, start, end, *parameters,
    )  # fmt: skip
    return [
        *(UsageRow(*row) for row in rows),
        *(row for row in unfolded if row.key_id and key_id in (None, row.key_id) and start <= row.at < end),
    ]


async def days(db: Queries, account_id: int, first: int, past: int) -> list[UsageRow]:
    """Usage on the days from `first` on and before `past`, oldest first, as far as they were written."""
    rows = await db.fetch(
        f"SELECT {columns(UsageRow, at='day')} FROM usage_days"
        " WHERE account_id = $1 AND day >= $2 AND day < $3 ORDER BY day, key_id, kind",
        account_id, first, past,
    )  # fmt: skip
    return [UsageRow(*row) for row in rows]


async def oldest_stale(db: Queries, account_id: int, before: int) -> int | None:
    """The account's oldest day before `before` whose hours have changed since it was written."""
    ((day,),) = await db.fetch(
        "SELECT min(day) FROM stale_days WHERE day < $1 AND account_id = $2", before, account_id
    )
    return None if day is None else int(day)


async def page(
    db: Queries, account_id: int, before: Place, start: int, kind: int | None, limit: int
) -> list[EntryRow]:
    """The account's newest entries below the place `before` and not older than `start` (ms), newest first."""
    found = f"{_BELOW}{_only(kind, 7)} {_NEWEST_FIRST} LIMIT $6"
    sql = f"SELECT {_ENTRY} FROM {found}"
    if kind:  # the places first: SQLite uses the index of such entries only if it has all that is read
        sql = (
            f"SELECT {columns(EntryRow, 'e')} FROM (SELECT at, call_id, kind FROM {found}) AS found"
            " JOIN entries e ON e.account_id = $1 AND e.at = found.at AND e.call_id = found.call_id"
            " AND e.kind = found.kind ORDER BY e.at DESC, e.call_id DESC, e.kind DESC"
        )
    rows = await db.fetch(sql, account_id, start, *before, limit, *_kinds(kind))
    return [entry_row(row) for row in rows]


async def page_of_key(
    db: Queries, account_id: int, before: Place, start: int, kind: int | None, key_id: int, limit: int
) -> tuple[list[EntryRow], Place | None]:
    """As `page`, of one key. It reads SCANNED_MAX entries at most and returns the place where to go on if
    there are more."""
    scanned = f"(SELECT {_ENTRY} FROM {_BELOW} {_NEWEST_FIRST} LIMIT {SCANNED_MAX}) AS scanned"
    rows = await db.fetch(
        f"SELECT {_ENTRY} FROM {scanned} WHERE key_id = $6{_only(kind, 8)} {_NEWEST_FIRST} LIMIT $7",
        account_id, start, *before, key_id, limit, *_kinds(kind),
    )  # fmt: skip
    found = [entry_row(row) for row in rows]
    if len(found) == limit:
        return found, found[-1].place
    oldest = await db.fetch(
        f"SELECT {_ENTRY} FROM {scanned} ORDER BY at, call_id, kind LIMIT 1", account_id, start, *before
    )
    if not oldest:
        return found, None
    end = entry_row(oldest[0]).place
    return found, end if await page(db, account_id, end, start, None, 1) else None


def _only(kind: int | None, number: int) -> str:
    """A condition on the parameter of this number. The literal beside it allows the partial index."""
    if kind is None:
        return ""
    return f" AND kind = ${number}" + (" AND kind <> 0" if kind else "")


def _kinds(kind: int | None) -> tuple[int, ...]:
    return () if kind is None else (kind,)


async def site_hours(db: Queries, start: int, end: int) -> list[SiteHourRow]:
    """The site's calls in the hours from `start` on and before `end`, in Unix ms, oldest first."""
    rows = await db.fetch(
        f"SELECT {columns(SiteHourRow)} FROM site_hours WHERE hour >= $1 AND hour < $2"
        " ORDER BY hour, channel, kind, bucket",
        start, end,
    )  # fmt: skip
    return [SiteHourRow(*row) for row in rows]


async def last_used(db: Queries, account_id: int) -> dict[int, int]:
    """When a call of each key of the account last ended, in Unix ms."""
    rows = await db.fetch(
        "SELECT u.key_id, u.last_used_at FROM keys k JOIN key_usage u ON u.key_id = k.id"
        " WHERE k.account_id = $1 AND u.last_used_at > 0",
        account_id,
    )
    return {int(key_id): int(at) for key_id, at in rows}


async def details(db: Queries, call_ids: Sequence[bytes]) -> dict[tuple[bytes, int], Details]:
    """Memo, request and route of the ledger entries of these calls, by call id and kind."""
    if not call_ids:
        return {}
    placeholders = ", ".join(f"${number}" for number in range(1, len(call_ids) + 1))
    rows = await db.fetch(
        "SELECT l.call_id, l.kind, l.memo, coalesce(c.request_id, ''), coalesce(c.route, '') FROM ledger l"
        f" LEFT JOIN calls c ON c.id = l.call_id WHERE l.call_id IN ({placeholders})",
        *call_ids,
    )
    return {(bytes(row[0]), int(row[1])): Details(*row[2:]) for row in rows}
