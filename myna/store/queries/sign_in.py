"""Queries on how people sign in: one-time links, passwords, second factors, failed sign-ins, identities
at the OpenID Connect provider, and sign-ins that are in progress there.

Tokens of links and recovery codes are stored as SHA-256.
"""

from collections.abc import Sequence

from msgspec import Struct, structs

from myna.store.database import Queries, Transaction
from myna.store.queries.accounts import AccountRow, same_email
from myna.store.rows import NOW, columns, fetch_only, fetch_row, fetch_value, has_row, insert_row, put_row

FORGET_MS = 3_600_000
"""Failures are forgotten after this time without another one."""
ATTEMPT_LIFE_MS = 600_000


class LinkRow(Struct, frozen=True):
    """A link that can be used. `account_id` is 0 for the first operator's. Time in ms."""

    purpose: str
    account_id: int
    expires_at: int


_LINK = columns(LinkRow)


async def put_link(db: Transaction, token_hash: bytes, purpose: str, account_id: int, life_ms: int) -> None:
    """Adds a link; it replaces the account's link of this purpose."""
    sql = """INSERT INTO links (token_hash, purpose, account_id, created_at, expires_at)
        VALUES ($1, $2, $3, now_ms(), now_ms() + CAST($4 AS BIGINT))
        ON CONFLICT (purpose, account_id) DO UPDATE SET token_hash = excluded.token_hash,
        created_at = excluded.created_at, expires_at = excluded.expires_at"""
    await db.fetch(sql, token_hash, purpose, account_id, life_ms)


async def link_by_token(db: Queries, token_hash: bytes) -> LinkRow | None:
    """The link of this token, if it has not expired."""
    sql = f"SELECT {_LINK} FROM links WHERE token_hash = $1 AND expires_at > now_ms()"
    return await fetch_row(db, LinkRow, sql, token_hash)


async def take_link(db: Transaction, token_hash: bytes) -> LinkRow | None:
    """Deletes the link and returns it; None if it was used or has expired. Of several concurrent
    transactions one gets it: the others wait for its row."""
    sql = f"DELETE FROM links WHERE token_hash = $1 AND expires_at > now_ms() RETURNING {_LINK}"
    return await fetch_row(db, LinkRow, sql, token_hash)


async def delete_links(db: Transaction, account_id: int) -> None:
    """Deletes the account's links; 0: those of the first operator."""
    await db.fetch("DELETE FROM links WHERE account_id = $1", account_id)


class Candidate(Struct, frozen=True):
    """An account that a person may mean, with the hash of its password, empty if it has none."""

    account: AccountRow
    hash: str

    def __repr__(self) -> str:
        return f"Candidate({self.account!r})"


_CANDIDATE = f"""
SELECT coalesce(p.hash, ''), {columns(AccountRow, "a")}
FROM accounts a LEFT JOIN passwords p ON p.account_id = a.id
"""


async def candidate(db: Queries, name_or_email: str) -> Candidate | None:
    """The account of this name; else the account with this e-mail address, by `same_email`, if it is the only
    one."""
    if not name_or_email.isprintable():  # no account has such a name, and PostgreSQL refuses some characters
        return None
    sql = f"{_CANDIDATE} WHERE a.name = $1 OR (a.email <> '' AND lower(a.email) = lower($1))"
    rows = await db.fetch(sql, name_or_email)
    found = [Candidate(AccountRow(*account), password_hash) for password_hash, *account in rows]
    named = [one for one in found if one.account.name == name_or_email]
    matching = named or [one for one in found if same_email(one.account.email, name_or_email)]
    return matching[0] if len(matching) == 1 else None


async def password_of(db: Queries, account_id: int) -> Candidate | None:
    """The account of this id."""
    rows = await db.fetch(f"{_CANDIDATE} WHERE a.id = $1", account_id)
    return Candidate(AccountRow(*rows[0][1:]), rows[0][0]) if rows else None


async def put_password(db: Transaction, account_id: int, password_hash: str) -> None:
    """Sets the account's password."""
    await put_row(db, "passwords", "account_id", account_id=account_id, hash=password_hash, set_at=NOW)


async def rehash(db: Transaction, account_id: int, before: str, after: str) -> None:
    """Replaces the hash of an unchanged password."""
    sql = "UPDATE passwords SET hash = $3 WHERE account_id = $1 AND hash = $2"
    await db.fetch(sql, account_id, before, after)


async def an_operator_can_sign_in(db: Queries) -> bool:
    """Whether an enabled account of an operator has a password."""
    sql = """SELECT 1 FROM accounts a JOIN passwords p ON p.account_id = a.id
        WHERE a.operator = 1 AND a.disabled_at = 0 LIMIT 1"""
    return await has_row(db, sql)


class SecondFactorRow(Struct, frozen=True):
    """A second factor as of `now`. Times in ms; `confirmed_at` is 0 while it isn't used yet."""

    now: int
    account_id: int
    secret: str
    confirmed_at: int
    created_at: int

    def __repr__(self) -> str:
        return f"SecondFactorRow(account_id={self.account_id})"


_SECOND_FACTOR = columns(SecondFactorRow, now="now_ms()")


async def second_factor_of(db: Queries, account_id: int) -> SecondFactorRow | None:
    """The account's second factor, also an unconfirmed one."""
    sql = f"SELECT {_SECOND_FACTOR} FROM second_factors WHERE account_id = $1"
    return await fetch_row(db, SecondFactorRow, sql, account_id)


async def has_second_factor(db: Queries, account_id: int) -> bool:
    """Whether the account has a confirmed second factor."""
    sql = "SELECT 1 FROM second_factors WHERE account_id = $1 AND confirmed_at > 0"
    return await has_row(db, sql, account_id)


async def begin_second_factor(db: Transaction, account_id: int, secret: str) -> bool:
    """Stores the secret of a second factor that is to be confirmed; False if a confirmed one exists."""
    sql = """INSERT INTO second_factors (account_id, secret, created_at) VALUES ($1, $2, now_ms())
        ON CONFLICT (account_id) DO UPDATE SET secret = excluded.secret, created_at = excluded.created_at,
        last_step = 0 WHERE second_factors.confirmed_at = 0 RETURNING account_id"""
    return await has_row(db, sql, account_id, secret)


async def confirm_second_factor(db: Transaction, account_id: int, secret: str, step: int) -> bool:
    """Confirms the second factor with this secret; False if there is no such one to confirm."""
    sql = """UPDATE second_factors SET confirmed_at = now_ms(), last_step = $3
        WHERE account_id = $1 AND secret = $2 AND confirmed_at = 0 RETURNING account_id"""
    return await has_row(db, sql, account_id, secret, step)


async def use_step(db: Transaction, account_id: int, step: int) -> bool:
    """Uses the code of a time step; False if that of this or of a later step was used already."""
    sql = """UPDATE second_factors SET last_step = $2
        WHERE account_id = $1 AND confirmed_at > 0 AND last_step < $2 RETURNING account_id"""
    return await has_row(db, sql, account_id, step)


async def remove_second_factor(db: Transaction, account_id: int) -> bool:
    """Removes the account's second factor and its recovery codes; False if it has no confirmed one."""
    await db.fetch("DELETE FROM recovery_codes WHERE account_id = $1", account_id)
    sql = "DELETE FROM second_factors WHERE account_id = $1 RETURNING confirmed_at"
    return bool(await fetch_value(db, int, sql, account_id))


async def replace_codes(db: Transaction, account_id: int, hashes: Sequence[bytes]) -> None:
    """Replaces the account's recovery codes."""
    await db.fetch("DELETE FROM recovery_codes WHERE account_id = $1", account_id)
    for code_hash in hashes:
        await insert_row(db, "recovery_codes", code_hash=code_hash, account_id=account_id)


async def use_code(db: Transaction, account_id: int, code_hash: bytes) -> bool:
    """Uses a recovery code of the account; False if it has no such code left."""
    sql = "DELETE FROM recovery_codes WHERE code_hash = $1 AND account_id = $2 RETURNING account_id"
    return await has_row(db, sql, code_hash, account_id)


async def codes_left(db: Queries, account_id: int) -> int:
    """How many recovery codes the account has left."""
    return await fetch_only(db, int, "SELECT count(*) FROM recovery_codes WHERE account_id = $1", account_id)


async def blocked_ms(db: Queries, subject: bytes) -> int:
    """For how many ms the subject is blocked; 0 if it isn't."""
    sql = """SELECT blocked_until - now_ms() FROM sign_in_failures
        WHERE subject = $1 AND blocked_until > now_ms()"""
    return await fetch_value(db, int, sql, subject) or 0


async def count_failure(db: Transaction, subject: bytes) -> int | None:
    """Counts an attempt as a failure and locks the subject. Returns the failures in a row; None, and nothing
    is counted, if the subject is blocked. After FORGET_MS without a failure the count restarts."""
    sql = f"""INSERT INTO sign_in_failures AS f (subject, failures, blocked_until, failed_at)
        VALUES ($1, 1, 0, now_ms()) ON CONFLICT (subject) DO UPDATE SET failed_at = now_ms(),
        failures = CASE WHEN f.failed_at <= now_ms() - {FORGET_MS} THEN 1 ELSE f.failures + 1 END
        WHERE f.blocked_until <= now_ms() RETURNING failures"""
    return await fetch_value(db, int, sql, subject)


async def block_sign_in(db: Transaction, subject: bytes, block_ms: int) -> None:
    """Blocks the subject for `block_ms` from now on."""
    sql = "UPDATE sign_in_failures SET blocked_until = now_ms() + CAST($2 AS BIGINT) WHERE subject = $1"
    await db.fetch(sql, subject, block_ms)


async def clear_failures(db: Transaction, subject: bytes) -> None:
    """Forgets the subject's failures."""
    await db.fetch("DELETE FROM sign_in_failures WHERE subject = $1", subject)


async def uncount_failure(db: Transaction, subject: bytes) -> None:
    """Takes back one failure, and its block."""
    await db.fetch("DELETE FROM sign_in_failures WHERE subject = $1 AND failures <= 1", subject)
    sql = "UPDATE sign_in_failures SET failures = failures - 1, blocked_until = 0 WHERE subject = $1"
    await db.fetch(sql, subject)


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


async def identity_of(db: Queries, account_id: int) -> IdentityRow | None:
    """The identity that is linked to the account."""
    sql = f"SELECT {_IDENTITY} FROM oidc_identities WHERE account_id = $1"
    return await fetch_row(db, IdentityRow, sql, account_id)


async def identity_by_subject(db: Queries, issuer: str, subject: str) -> IdentityRow | None:
    """The identity of this subject, if it is linked to an account."""
    sql = f"SELECT {_IDENTITY} FROM oidc_identities WHERE issuer = $1 AND subject = $2"
    return await fetch_row(db, IdentityRow, sql, issuer, subject)


async def link_identity(db: Transaction, account_id: int, issuer: str, subject: str) -> bool:
    """Links the subject to an account that has no identity; False if it is linked to another one."""
    sql = """INSERT INTO oidc_identities (account_id, issuer, subject, linked_at)
        VALUES ($1, $2, $3, now_ms()) ON CONFLICT (issuer, subject) DO NOTHING RETURNING account_id"""
    return await has_row(db, sql, account_id, issuer, subject)


async def unlink_identity(db: Transaction, account_id: int) -> bool:
    """Removes the account's identity; False if it has none."""
    sql = "DELETE FROM oidc_identities WHERE account_id = $1 RETURNING account_id"
    return await has_row(db, sql, account_id)


async def mark_unlinked(db: Transaction, account_id: int) -> None:
    """From now on no e-mail address links the account."""
    await put_row(db, "oidc_unlinked", "account_id", account_id=account_id)


async def was_unlinked(db: Queries, account_id: int) -> bool:
    """Whether the account had an identity that was removed."""
    return await has_row(db, "SELECT 1 FROM oidc_unlinked WHERE account_id = $1", account_id)


async def begin_attempt(
    db: Transaction, state_hash: bytes, browser_hash: bytes, attempt: AttemptRow, network: str
) -> None:
    """Adds an attempt that begins now."""
    values = structs.asdict(attempt) | {"created_at": NOW, "network": network}
    await insert_row(db, "oidc_attempts", state_hash=state_hash, browser_hash=browser_hash, **values)


async def take_attempt(db: Transaction, state_hash: bytes, browser_hash: bytes) -> AttemptRow | None:
    """Deletes the attempt and returns it; None if it was used, has expired or is another browser's. Of
    several concurrent transactions one gets it."""
    sql = f"""DELETE FROM oidc_attempts WHERE state_hash = $1 AND browser_hash = $2
        AND created_at > now_ms() - {ATTEMPT_LIFE_MS} RETURNING {_ATTEMPT}"""
    return await fetch_row(db, AttemptRow, sql, state_hash, browser_hash)


async def delete_oldest_attempts(db: Transaction, network: str, kept: int) -> None:
    """Deletes the oldest attempts of a network so that `kept` remain."""
    sql = """DELETE FROM oidc_attempts WHERE state_hash IN (SELECT state_hash FROM oidc_attempts
        WHERE network = $1 ORDER BY created_at DESC LIMIT 1000 OFFSET $2)"""
    await db.fetch(sql, network, kept)


async def delete_expired(db: Transaction) -> None:
    """Deletes expired links and attempts, and the counts without a failure for FORGET_MS."""
    await db.fetch("DELETE FROM links WHERE expires_at <= now_ms()")
    await db.fetch(f"DELETE FROM oidc_attempts WHERE created_at <= now_ms() - {ATTEMPT_LIFE_MS}")
    await db.fetch(f"DELETE FROM sign_in_failures WHERE failed_at <= now_ms() - {FORGET_MS}")
