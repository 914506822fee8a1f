"""Queries on failed sign-ins, by which attempts are throttled."""

from myna.store.database import Queries, Transaction


async def blocked_ms(db: Queries, subject: bytes) -> int:
    """For how many ms the subject is blocked; 0 if it isn't."""
    rows = await db.fetch(
        "SELECT blocked_until - now_ms() FROM sign_in_failures"
        " WHERE subject = $1 AND blocked_until > now_ms()",
        subject,
    )
    return int(rows[0][0]) if rows else 0


async def count(db: Transaction, subject: bytes, forget_ms: int) -> int | None:
    """Counts an attempt as a failure and locks the subject. Returns the failures in a row; None, and nothing
    is counted, if the subject is blocked. After `forget_ms` without a failure the count restarts."""
    rows = await db.fetch(
        "INSERT INTO sign_in_failures AS f (subject, failures, blocked_until, failed_at)"
        " VALUES ($1, 1, 0, now_ms()) ON CONFLICT (subject) DO UPDATE SET failures ="
        " CASE WHEN f.failed_at <= now_ms() - CAST($2 AS BIGINT) THEN 1 ELSE f.failures + 1 END,"
        " failed_at = now_ms() WHERE f.blocked_until <= now_ms() RETURNING failures",
        subject, forget_ms,
    )  # fmt: skip
    return int(rows[0][0]) if rows else None


async def block(db: Transaction, subject: bytes, block_ms: int) -> None:
    """Blocks the subject for `block_ms` from now on."""
    await db.fetch(
        "UPDATE sign_in_failures SET blocked_until = now_ms() + CAST($2 AS BIGINT) WHERE subject = $1",
        subject, block_ms,
    )  # fmt: skip


async def clear(db: Transaction, subject: bytes) -> None:
    """Forgets the subject's failures."""
    await db.fetch("DELETE FROM sign_in_failures WHERE subject = $1", subject)


async def uncount(db: Transaction, subject: bytes) -> None:
    """Takes back one failure, and its block."""
    await db.fetch("DELETE FROM sign_in_failures WHERE subject = $1 AND failures <= 1", subject)
    await db.fetch(
        "UPDATE sign_in_failures SET failures = failures - 1, blocked_until = 0 WHERE subject = $1", subject
    )


async def delete_old(db: Transaction, forget_ms: int) -> int:
    """Deletes the counts without a failure for `forget_ms`. Returns how many."""
    rows = await db.fetch(
        "DELETE FROM sign_in_failures WHERE failed_at <= now_ms() - CAST($1 AS BIGINT) RETURNING failures",
        forget_ms,
    )
    return len(rows)
