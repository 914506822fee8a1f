"""Queries on one-time links, whose tokens are stored as SHA-256 only."""

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.rows import columns


class LinkRow(Struct, frozen=True):
    """A link that can be used. `account_id` is 0 for the first operator's. Time in ms."""

    purpose: str
    account_id: int
    expires_at: int


_COLUMNS = columns(LinkRow)


async def put(db: Transaction, token_hash: bytes, purpose: str, account_id: int, life_ms: int) -> None:
    """Adds a link; it replaces the account's link of this purpose."""
    await db.fetch(
        "INSERT INTO links (token_hash, purpose, account_id, created_at, expires_at)"
        " VALUES ($1, $2, $3, now_ms(), now_ms() + CAST($4 AS BIGINT))"
        " ON CONFLICT (purpose, account_id) DO UPDATE SET token_hash = excluded.token_hash,"
        " created_at = excluded.created_at, expires_at = excluded.expires_at",
        token_hash, purpose, account_id, life_ms,
    )  # fmt: skip


async def by_token(db: Queries, token_hash: bytes) -> LinkRow | None:
    """The link of this token, if it has not expired."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM links WHERE token_hash = $1 AND expires_at > now_ms()", token_hash
    )
    return LinkRow(*rows[0]) if rows else None


async def take(db: Transaction, token_hash: bytes) -> LinkRow | None:
    """Deletes the link and returns it; None if it was used or has expired. Of several transactions at once
    one gets it: the others wait for its row."""
    rows = await db.fetch(
        f"DELETE FROM links WHERE token_hash = $1 AND expires_at > now_ms() RETURNING {_COLUMNS}", token_hash
    )
    return LinkRow(*rows[0]) if rows else None


async def delete_all(db: Transaction, account_id: int) -> None:
    """Deletes the account's links; 0: those of the first operator."""
    await db.fetch("DELETE FROM links WHERE account_id = $1", account_id)


async def delete_expired(db: Transaction) -> int:
    """Deletes expired links. Returns how many."""
    return len(await db.fetch("DELETE FROM links WHERE expires_at <= now_ms() RETURNING purpose"))
