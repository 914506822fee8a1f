"""Queries on API keys. A key is stored as SHA-256 only."""

from collections.abc import Sequence

from msgspec import Struct

from myna.store.columns import columns
from myna.store.database import Queries, Transaction
from myna.store.queries import accounts
from myna.store.states import OPEN


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
    """A key's calls, open ones included; its delivered calls; units charged less units refunded."""

    calls: int
    ok_calls: int
    cost: int


class KeySnapshot(Struct, frozen=True):
    """A key at the time `now` in ms, with its account's balance and the version of the configuration."""

    key: KeyRow
    now: int
    config_version: int
    balance: int


_COLUMNS = columns(KeyRow, "k", account_disabled_at="a.disabled_at")


async def by_hash(db: Queries, key_hash: bytes) -> KeySnapshot | None:
    """The key with this SHA-256, in any state."""
    rows = await db.fetch(
        f"SELECT now_ms(), s.version, a.balance, {_COLUMNS} FROM keys k"
        " JOIN accounts a ON a.id = k.account_id CROSS JOIN site s WHERE k.hash = $1",
        key_hash,
    )
    if not rows:
        return None
    now, version, balance, *key = rows[0]
    return KeySnapshot(key=KeyRow(*key), now=now, config_version=version, balance=balance)


async def usage(db: Queries, key_id: int) -> KeyUsage:
    """What the key has used. Ended calls come from counters, open ones from `calls`."""
    ((calls, ok_calls, cost),) = await db.fetch(
        "SELECT coalesce(u.calls, 0) + o.calls, coalesce(u.ok_calls, 0), coalesce(u.cost, 0) + o.cost FROM"
        " (SELECT count(*) AS calls, CAST(coalesce(sum(units), 0) AS BIGINT) AS cost FROM calls"
        f"  WHERE {OPEN} AND key_id = $1) o LEFT JOIN key_usage u ON u.key_id = $1",
        key_id,
    )
    return KeyUsage(int(calls), int(ok_calls), int(cost))


PAST_ALL = 2**63 - 1
"""Above every id."""


async def usage_of(db: Queries, key_ids: Sequence[int]) -> dict[int, KeyUsage]:
    """What each of these keys has used, as `usage`."""
    if not key_ids:
        return {}
    placeholders = ", ".join(f"${number}" for number in range(1, len(key_ids) + 1))
    rows = await db.fetch(
        f"SELECT key_id, sum(calls), sum(ok_calls), sum(cost) FROM"
        f" (SELECT key_id, calls, ok_calls, cost FROM key_usage WHERE key_id IN ({placeholders})"
        f" UNION ALL SELECT key_id, 1, 0, units FROM calls WHERE {OPEN} AND key_id IN ({placeholders})) u"
        " GROUP BY key_id",
        *key_ids,
    )
    found = {int(key_id): KeyUsage(*map(int, counters)) for key_id, *counters in rows}
    return {key_id: found.get(key_id, KeyUsage(0, 0, 0)) for key_id in key_ids}


async def page(db: Queries, account_id: int, before: int, limit: int) -> list[KeyRow]:
    """The keys of an account with ids below `before`, newest first, without the internal one."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM keys k JOIN accounts a ON a.id = k.account_id"
        " WHERE k.account_id = $1 AND k.id < $2 AND k.internal = 0 ORDER BY k.id DESC LIMIT $3",
        account_id, before, limit,
    )  # fmt: skip
    return [KeyRow(*row) for row in rows]


async def of_account_by_id(db: Queries, account_id: int, key_id: int) -> KeyRow | None:
    """The key of this id, if it is one of the account. It may be the internal one."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM keys k JOIN accounts a ON a.id = k.account_id"
        " WHERE k.account_id = $1 AND k.id = $2",
        account_id, key_id,
    )  # fmt: skip
    return KeyRow(*rows[0]) if rows else None


async def of_account(db: Queries, account_id: int) -> list[KeyRow]:
    """All keys of an account, oldest first, with the internal one."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM keys k JOIN accounts a ON a.id = k.account_id"
        " WHERE k.account_id = $1 ORDER BY k.id",
        account_id,
    )
    return [KeyRow(*row) for row in rows]


async def of_name(db: Queries, name: str) -> list[tuple[int, str]]:
    """The id and the account of each key of this name that is not revoked, without internal ones."""
    rows = await db.fetch(
        "SELECT k.id, a.name FROM keys k JOIN accounts a ON a.id = k.account_id"
        " WHERE k.name = $1 AND k.revoked_at = 0 AND k.internal = 0 ORDER BY k.id",
        name,
    )
    return [(int(key_id), str(account)) for key_id, account in rows]


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
    ((key_id, expires_at),) = await db.fetch(
        "INSERT INTO keys (account_id, name, hash, masked, scopes, created_at, expires_at)"
        " VALUES ($1, $2, $3, $4, $5, now_ms(),"
        " CASE WHEN CAST($6 AS BIGINT) = 0 THEN 0 ELSE now_ms() + CAST($6 AS BIGINT) END)"
        " RETURNING id, expires_at",
        account_id, name, key_hash, masked, scopes, life_ms,
    )  # fmt: skip
    return int(key_id), int(expires_at)


async def internal_hash(db: Queries, account_id: int) -> bytes | None:
    """The hash of the account's internal key, None before its first use."""
    rows = await db.fetch("SELECT hash FROM keys WHERE account_id = $1 AND internal = 1", account_id)
    return bytes(rows[0][0]) if rows else None


async def insert_internal(db: Transaction, account_id: int, name: str, key_hash: bytes, scopes: int) -> None:
    """Adds the account's internal key. The account must be locked, and have none."""
    await db.fetch(
        "INSERT INTO keys (account_id, name, hash, masked, scopes, created_at, expires_at, internal)"
        " VALUES ($1, $2, $3, '', $4, now_ms(), 0, 1)",
        account_id, name, key_hash, scopes,
    )  # fmt: skip


async def rename(db: Transaction, key_id: int, name: str) -> None:
    """Renames a key."""
    await db.fetch("UPDATE keys SET name = $2 WHERE id = $1", key_id, name)


async def expire(db: Transaction, key_id: int, life_ms: int) -> int:
    """Lets a key expire after `life_ms`, unless it expires before. Returns when it expires, in ms."""
    rows = await db.fetch(
        "UPDATE keys SET expires_at = CASE WHEN expires_at > 0 AND expires_at < now_ms() + CAST($2 AS BIGINT)"
        " THEN expires_at ELSE now_ms() + CAST($2 AS BIGINT) END WHERE id = $1 RETURNING expires_at",
        key_id, life_ms,
    )  # fmt: skip
    return int(rows[0][0])


async def locked(db: Transaction, key_id: int, account_id: int | None) -> KeyRow | None:
    """The key of this id, of any account or of this one, unless it is internal. Locks its account, so that no
    charge runs until the transaction ends."""
    owner = await db.fetch("SELECT account_id FROM keys WHERE id = $1 AND internal = 0", key_id)
    if not owner or account_id not in (None, owner[0][0]):
        return None
    await accounts.lock(db, owner[0][0])
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM keys k JOIN accounts a ON a.id = k.account_id WHERE k.id = $1", key_id
    )
    return KeyRow(*rows[0])


async def revoke(db: Transaction, key_id: int) -> None:
    """Revokes a key whose account is locked. A revoked key keeps the time of its first revocation."""
    await db.fetch("UPDATE keys SET revoked_at = now_ms() WHERE id = $1 AND revoked_at = 0", key_id)
