"""Queries on API keys, with their caps, limits and last refusals. A key is stored as SHA-256 only.

The batch charges caps and counts towards limits; here they are set, renewed and read. A transaction that
changes one has locked the key's account, as the batch has.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from myna.store.database import Queries, Transaction
from myna.store.queries import accounts
from myna.store.rows import (
    NOW,
    columns,
    fetch_map,
    fetch_only,
    fetch_row,
    fetch_rows,
    fetch_value,
    insert_row,
    parameters,
    put_row,
)
from myna.store.states import OPEN

OF_ACCOUNT = 0
"""In place of a key's id: the limits of the account."""


class KeyRow(Struct, frozen=True):
    """A key with the state of its account. Times in ms, 0 for never. `internal` is 1 for the account's key
    without a plain key, which only the site uses."""

    id: int
    account_id: int
    name: str
    masked: str
    scopes: int
    created_at: int
    expires_at: int
    revoked_at: int
    internal: int
    account_disabled_at: int


class KeyUsage(Struct, frozen=True):
    """A key's calls, delivered calls, and units charged less units refunded. Open calls are included, except
    in an audit."""

    calls: int = 0
    ok_calls: int = 0
    cost: int = 0


class KeySnapshot(Struct, frozen=True):
    """A key at the time `now` in ms, with its account's balance and the version of the configuration."""

    key: KeyRow
    now: int
    config_version: int
    balance: int


_COLUMNS = columns(KeyRow, "k", account_disabled_at="a.disabled_at")
_KEYS = f"SELECT {_COLUMNS} FROM keys k JOIN accounts a ON a.id = k.account_id"


async def by_hash(db: Queries, key_hash: bytes) -> KeySnapshot | None:
    """The key with this SHA-256, in any state."""
    sql = f"""SELECT now_ms(), s.version, a.balance, {_COLUMNS} FROM keys k
        JOIN accounts a ON a.id = k.account_id CROSS JOIN site s WHERE k.hash = $1"""
    rows = await db.fetch(sql, key_hash)
    if not rows:
        return None
    now, version, balance, *key = rows[0]
    return KeySnapshot(key=KeyRow(*key), now=now, config_version=version, balance=balance)


async def usage(db: Queries, key_id: int) -> KeyUsage:
    """What the key has used. Ended calls come from counters, open ones from `calls`."""
    return (await usage_of(db, [key_id]))[key_id]


async def usage_of(db: Queries, key_ids: Sequence[int]) -> dict[int, KeyUsage]:
    """What each of these keys has used, as `usage`."""
    if not key_ids:
        return {}
    sql = f"""SELECT key_id, sum(calls), sum(ok_calls), sum(cost) FROM (
        SELECT key_id, calls, ok_calls, cost FROM key_usage WHERE key_id IN ({parameters(key_ids)})
        UNION ALL SELECT key_id, 1, 0, units FROM calls WHERE {OPEN} AND key_id IN ({parameters(key_ids)})
        ) u GROUP BY key_id"""
    rows = await db.fetch(sql, *key_ids)
    found = {int(key_id): KeyUsage(*map(int, counters)) for key_id, *counters in rows}
    return {key_id: found.get(key_id, KeyUsage()) for key_id in key_ids}


async def page(db: Queries, account_id: int, before: int, limit: int) -> list[KeyRow]:
    """The keys of an account with ids below `before`, newest first, without the internal one."""
    sql = f"""SELECT {_COLUMNS} FROM keys k JOIN accounts a ON a.id = k.account_id
        WHERE k.account_id = $1 AND k.id < $2 AND k.internal = 0 ORDER BY k.id DESC LIMIT $3"""
    return await fetch_rows(db, KeyRow, sql, account_id, before, limit)


async def of_account_by_id(db: Queries, account_id: int, key_id: int) -> KeyRow | None:
    """The key of this id, if it is one of the account. It may be the internal one."""
    return await fetch_row(db, KeyRow, f"{_KEYS} WHERE k.account_id = $1 AND k.id = $2", account_id, key_id)


async def of_account(db: Queries, account_id: int) -> list[KeyRow]:
    """All keys of an account, oldest first, with the internal one."""
    return await fetch_rows(db, KeyRow, f"{_KEYS} WHERE k.account_id = $1 ORDER BY k.id", account_id)


async def of_name(db: Queries, name: str) -> dict[int, str]:
    """The account of each key of this name that is not revoked, by the key's id, without internal ones."""
    sql = """SELECT k.id, a.name FROM keys k JOIN accounts a ON a.id = k.account_id
        WHERE k.name = $1 AND k.revoked_at = 0 AND k.internal = 0 ORDER BY k.id"""
    return await fetch_map(db, int, str, sql, name)


async def insert(
    db: Transaction,
    account_id: int,
    *,
    name: str,
    key_hash: bytes,
    masked: str,
    scopes: int,
    life_ms: int,
) -> tuple[int, int]:
    """Adds a key; `life_ms` is 0 for no expiry. Returns its id and when it expires (ms, 0 for never)."""
    sql = """INSERT INTO keys (account_id, name, hash, masked, scopes, created_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, now_ms(),
        CASE WHEN CAST($6 AS BIGINT) = 0 THEN 0 ELSE now_ms() + CAST($6 AS BIGINT) END)
        RETURNING id, expires_at"""
    ((key_id, expires_at),) = await db.fetch(sql, account_id, name, key_hash, masked, scopes, life_ms)
    return key_id, expires_at


async def internal_hash(db: Queries, account_id: int) -> bytes | None:
    """The hash of the account's internal key, None before its first use."""
    sql = "SELECT hash FROM keys WHERE account_id = $1 AND internal = 1"
    return await fetch_value(db, bytes, sql, account_id)


async def insert_internal(db: Transaction, account_id: int, name: str, key_hash: bytes, scopes: int) -> None:
    """Adds the account's internal key. The account must be locked, and have none."""
    fixed = {"masked": "", "created_at": NOW, "expires_at": 0, "internal": 1}
    await insert_row(db, "keys", account_id=account_id, name=name, hash=key_hash, scopes=scopes, **fixed)


async def rename(db: Transaction, key_id: int, name: str) -> None:
    """Renames a key."""
    await db.fetch("UPDATE keys SET name = $2 WHERE id = $1", key_id, name)


async def expire(db: Transaction, key_id: int, life_ms: int) -> int:
    """Lets a key expire after `life_ms`, unless it expires before. Returns when it expires, in ms."""
    sql = """UPDATE keys SET expires_at =
        CASE WHEN expires_at > 0 AND expires_at < now_ms() + CAST($2 AS BIGINT) THEN expires_at
        ELSE now_ms() + CAST($2 AS BIGINT) END WHERE id = $1 RETURNING expires_at"""
    return await fetch_only(db, int, sql, key_id, life_ms)


async def locked(db: Transaction, key_id: int, account_id: int | None) -> KeyRow | None:
    """The key of this id, of any account or of this one, unless it is internal. Locks its account, so that no
    charge runs until the transaction ends."""
    sql = "SELECT account_id FROM keys WHERE id = $1 AND internal = 0"
    owner = await fetch_value(db, int, sql, key_id)
    if owner is None or account_id not in (None, owner):
        return None
    await accounts.lock(db, owner)
    return await of_account_by_id(db, owner, key_id)


async def revoke(db: Transaction, key_id: int) -> None:
    """Revokes a key whose account is locked. A revoked key keeps the time of its first revocation."""
    await db.fetch("UPDATE keys SET revoked_at = now_ms() WHERE id = $1 AND revoked_at = 0", key_id)


class CapRow(Struct, frozen=True):
    """The cap of a key: its units in each period, the present period, and what is used in it. Times in ms."""

    key_id: int
    units: int
    period: str
    starts_at: int
    ends_at: int
    used: int


_CAPS = f"SELECT {columns(CapRow, 'p')} FROM key_caps p JOIN keys k ON k.id = p.key_id WHERE k.capped = 1"


async def cap_of(db: Queries, key_id: int) -> CapRow | None:
    """The cap of a key, if it has one."""
    return await fetch_row(db, CapRow, f"{_CAPS} AND k.id = $1", key_id)


async def caps_of_account(db: Queries, account_id: int) -> list[CapRow]:
    """The caps of an account's keys."""
    return await fetch_rows(db, CapRow, f"{_CAPS} AND k.account_id = $1", account_id)


async def put_cap(db: Transaction, key_id: int, units: int, period: str) -> None:
    """Sets a cap. A new one, or one with another period, counts from now on, after it is renewed."""
    sql = """INSERT INTO key_caps (key_id, units, period, starts_at, ends_at) VALUES ($1, $2, $3, 0, 0)
        ON CONFLICT (key_id) DO UPDATE SET units = excluded.units, period = excluded.period,
        ends_at = CASE WHEN key_caps.period = excluded.period THEN key_caps.ends_at ELSE 0 END"""
    await db.fetch(sql, key_id, units, period)
    await db.fetch("UPDATE keys SET capped = 1 WHERE id = $1", key_id)


async def remove_cap(db: Transaction, key_id: int) -> None:
    """Removes a cap. Its row stays, so that the periods of a later cap begin above its own."""
    await db.fetch("UPDATE keys SET capped = 0 WHERE id = $1", key_id)
    await db.fetch("UPDATE key_caps SET ends_at = 0 WHERE key_id = $1", key_id)


async def renew_cap(db: Transaction, key_id: int, starts_at: int, ends_at: int) -> None:
    """Begins another period with nothing used. Its `starts_at` is above the last one, also if the clock or
    the time zone has changed, so that no call of an earlier period counts in it."""
    sql = """UPDATE key_caps SET used = 0, ends_at = $3,
        starts_at = CASE WHEN starts_at < $2 THEN $2 ELSE starts_at + 1 END WHERE key_id = $1"""
    await db.fetch(sql, key_id, starts_at, ends_at)


class LimitsRow(Struct, frozen=True):
    """The limits of a key or an account (None: the default of the site, 0: none), and its open calls."""

    key_id: int
    rpm: int | None = None
    concurrent: int | None = None
    units_per_day: int | None = None
    open_calls: int = 0


async def limits_of_account(db: Queries, account_id: int) -> dict[int, LimitsRow]:
    """The limits of an account, under OF_ACCOUNT, and those of its keys, by their ids."""
    rows = await db.fetch(f"SELECT {columns(LimitsRow)} FROM limits WHERE account_id = $1", account_id)
    return {int(row[0]): LimitsRow(*row) for row in rows}


async def limits_of(db: Queries, account_id: int, key_id: int) -> LimitsRow:
    """The limits of a key, or with OF_ACCOUNT those of the account."""
    return (await limits_of_account(db, account_id)).get(key_id, LimitsRow(key_id))


async def put_limits(db: Transaction, account_id: int, key_id: int, limits: Mapping[str, int | None]) -> None:
    """Sets these columns of the limits of a key, or with OF_ACCOUNT of the account."""
    await put_row(db, "limits", "account_id, key_id", account_id=account_id, key_id=key_id, **limits)
    table, number = ("keys", key_id) if key_id else ("accounts", account_id)
    sql = f"""UPDATE {table} SET limited = (SELECT count(*) FROM limits WHERE account_id = $2 AND key_id = $3
        AND (rpm IS NOT NULL OR concurrent IS NOT NULL OR units_per_day IS NOT NULL)) WHERE id = $1"""
    await db.fetch(sql, number, account_id, key_id)


class Refusal(Struct, frozen=True):
    """A request that was answered with an error; `at` in ms, by the clock of the process that refused it.
    `kind` is the error's type, `request` its method and path. `key_id` is 0 for a request without a valid
    key."""

    key_id: int
    at: int
    status: int
    kind: str
    message: str
    request: str
    request_id: str


async def put_refusal(db: Transaction, refusal: Refusal) -> None:
    """Stores the refusal, unless the key has a later one."""
    values = structs.asdict(refusal)
    changes = ", ".join(f"{name} = excluded.{name}" for name in values)
    unless_later = f"ON CONFLICT (key_id) DO UPDATE SET {changes} WHERE key_refusals.at <= excluded.at"
    await insert_row(db, "key_refusals", unless_later, **values)


async def last_refusal(db: Queries, account_id: int, key_id: int) -> Refusal | None:
    """The last refused request of this key of the account."""
    sql = f"""SELECT {columns(Refusal, "r")} FROM key_refusals r JOIN keys k ON k.id = r.key_id
        WHERE k.account_id = $1 AND r.key_id = $2"""
    return await fetch_row(db, Refusal, sql, account_id, key_id)
