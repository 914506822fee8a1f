"""Queries on identities at the OpenID Connect provider, and on sign-ins that are under way there."""

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.rows import columns


class IdentityRow(Struct, frozen=True):
    """Who an account is at a provider. `linked_at` in ms."""

    account_id: int
    issuer: str
    subject: str
    linked_at: int


class AttemptRow(Struct, frozen=True):
    """A sign-in that a browser began. `session_id` is 0 without a session. `created_at` in ms."""

    nonce: str
    verifier: str
    purpose: str
    session_id: int
    target: str
    created_at: int

    def __repr__(self) -> str:
        return f"AttemptRow({self.purpose!r})"


_IDENTITY = columns(IdentityRow)
_ATTEMPT = columns(AttemptRow)


async def of_account(db: Queries, account_id: int) -> IdentityRow | None:
    """The identity that is linked to the account."""
    rows = await db.fetch(f"SELECT {_IDENTITY} FROM oidc_identities WHERE account_id = $1", account_id)
    return IdentityRow(*rows[0]) if rows else None


async def by_subject(db: Queries, issuer: str, subject: str) -> IdentityRow | None:
    """The identity of this subject, if it is linked to an account."""
    rows = await db.fetch(
        f"SELECT {_IDENTITY} FROM oidc_identities WHERE issuer = $1 AND subject = $2", issuer, subject
    )
    return IdentityRow(*rows[0]) if rows else None


async def link(db: Transaction, account_id: int, issuer: str, subject: str) -> bool:
    """Links the subject to an account that has no identity; False if it is linked to another one."""
    rows = await db.fetch(
        "INSERT INTO oidc_identities (account_id, issuer, subject, linked_at) VALUES ($1, $2, $3, now_ms())"
        " ON CONFLICT (issuer, subject) DO NOTHING RETURNING account_id",
        account_id, issuer, subject,
    )  # fmt: skip
    return bool(rows)


async def unlink(db: Transaction, account_id: int) -> bool:
    """Removes the account's identity; False if it has none."""
    rows = await db.fetch(
        "DELETE FROM oidc_identities WHERE account_id = $1 RETURNING account_id", account_id
    )
    return bool(rows)


async def keep_unlinked(db: Transaction, account_id: int) -> None:
    """From now on no e-mail address links the account."""
    await db.fetch(
        "INSERT INTO oidc_unlinked (account_id) VALUES ($1) ON CONFLICT (account_id) DO NOTHING", account_id
    )


async def was_unlinked(db: Queries, account_id: int) -> bool:
    """Whether the account had an identity that was removed."""
    return bool(await db.fetch("SELECT 1 FROM oidc_unlinked WHERE account_id = $1", account_id))


async def begin(
    db: Transaction, state_hash: bytes, browser_hash: bytes, attempt: AttemptRow, network: str
) -> None:
    """Adds an attempt that begins now."""
    await db.fetch(
        "INSERT INTO oidc_attempts (state_hash, browser_hash, nonce, verifier, purpose, session_id, target,"
        " network, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now_ms())",
        state_hash, browser_hash, attempt.nonce, attempt.verifier, attempt.purpose, attempt.session_id,
        attempt.target, network,
    )  # fmt: skip


async def take(db: Transaction, state_hash: bytes, browser_hash: bytes, life_ms: int) -> AttemptRow | None:
    """Deletes the attempt and returns it; None if it was used, has expired or is another browser's. Of
    several concurrent transactions one gets it."""
    rows = await db.fetch(
        "DELETE FROM oidc_attempts WHERE state_hash = $1 AND browser_hash = $2"
        f" AND created_at > now_ms() - CAST($3 AS BIGINT) RETURNING {_ATTEMPT}",
        state_hash, browser_hash, life_ms,
    )  # fmt: skip
    return AttemptRow(*rows[0]) if rows else None


async def delete_oldest(db: Transaction, network: str, kept: int) -> None:
    """Deletes the oldest attempts of a network so that `kept` remain."""
    await db.fetch(
        "DELETE FROM oidc_attempts WHERE state_hash IN (SELECT state_hash FROM oidc_attempts"
        " WHERE network = $1 ORDER BY created_at DESC LIMIT 1000 OFFSET $2)",
        network, kept,
    )  # fmt: skip


async def delete_expired(db: Transaction, life_ms: int) -> int:
    """Deletes expired attempts. Returns how many."""
    rows = await db.fetch(
        "DELETE FROM oidc_attempts WHERE created_at <= now_ms() - CAST($1 AS BIGINT) RETURNING purpose",
        life_ms,
    )  # fmt: skip
    return len(rows)
