"""Queries on API keys. The plain key is never here: only its SHA-256."""

from msgspec import Struct

from myna.store import accounts
from myna.store.database import Connection, Reader


class KeyRow(Struct, frozen=True):
    """A key with the state of its account. Times in ms, 0 for never."""

    id: int
    account_id: int
    name: str
    masked: str
    scopes: int
    created_at: int
    expires_at: int
    revoked_at: int
    account_disabled_at: int


class Usage(Struct, frozen=True):
    """Calls of a key, open ones too; those of them that were delivered; units charged less units refunded."""

    calls: int
    ok_calls: int
    cost: int


class Presented(Struct, frozen=True):
    """A key as it stands at the moment it is shown, beside the version of the site's configuration."""

    key: KeyRow
    now: int
    config_version: int


_COLUMNS = """k.id, k.account_id, k.name, k.masked, k.scopes, k.created_at, k.expires_at, k.revoked_at,
    a.disabled_at"""


async def by_hash(db: Reader, key_hash: bytes) -> Presented | None:
    """The key with this SHA-256, whatever its state."""
    rows = await db.fetch(
        f"SELECT now_ms(), s.version, {_COLUMNS} FROM keys k"
        " JOIN accounts a ON a.id = k.account_id CROSS JOIN site s WHERE k.hash = $1",
        key_hash,
    )
    return Presented(KeyRow(*rows[0][2:]), rows[0][0], rows[0][1]) if rows else None


async def usage(db: Reader, key_id: int) -> Usage:
    """What the key used until now: calls that ended are counted, open ones are looked up."""
    ((calls, ok_calls, cost),) = await db.fetch(
        "SELECT coalesce(u.calls, 0) + o.calls, coalesce(u.ok_calls, 0), coalesce(u.cost, 0) + o.cost FROM"
        " (SELECT count(*) AS calls, CAST(coalesce(sum(units), 0) AS BIGINT) AS cost FROM calls"
        "  WHERE state = 0 AND key_id = $1) o LEFT JOIN key_usage u ON u.key_id = $1",
        key_id,
    )
    return Usage(int(calls), int(ok_calls), int(cost))


async def of_account(db: Reader, account_id: int) -> list[KeyRow]:
    """All keys of an account, oldest first."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM keys k JOIN accounts a ON a.id = k.account_id"
        " WHERE k.account_id = $1 ORDER BY k.id",
        account_id,
    )
    return [KeyRow(*row) for row in rows]


async def insert(
    db: Connection, account_id: int, name: str, key_hash: bytes, masked: str, scopes: int, life_ms: int
) -> tuple[int, int]:
    """A new key; `life_ms` 0 for no end. Returns its id and when it expires (ms, 0 for never)."""
    ((key_id, expires_at),) = await db.fetch(
        "INSERT INTO keys (account_id, name, hash, masked, scopes, created_at, expires_at)"
        " VALUES ($1, $2, $3, $4, $5, now_ms(),"
        " CASE WHEN CAST($6 AS BIGINT) = 0 THEN 0 ELSE now_ms() + CAST($6 AS BIGINT) END)"
        " RETURNING id, expires_at",
        account_id, name, key_hash, masked, scopes, life_ms,
    )  # fmt: skip
    return int(key_id), int(expires_at)


async def revoke(db: Connection, key_id: int) -> bool:
    """Locks the key's account, so that no charge is in between; False if there is no such key.

    A key that was revoked before stays revoked since then.
    """
    owner = await db.fetch("SELECT account_id FROM keys WHERE id = $1", key_id)
    if not owner:
        return False
    await accounts.lock(db, owner[0][0])
    await db.fetch("UPDATE keys SET revoked_at = now_ms() WHERE id = $1 AND revoked_at = 0", key_id)
    return True
