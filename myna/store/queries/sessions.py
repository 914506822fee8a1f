"""Queries on sessions of the back office, and on the forms in it that changed something. A session's token is
stored as SHA-256 only.
"""

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.queries.accounts import AccountRow
from myna.store.rows import columns, fetch_row, fetch_rows, fetch_value, has_row


class SessionRow(Struct, frozen=True):
    """A session. Times in ms; `verified_at` is when the password was last entered."""

    id: int
    token_hash: bytes
    account_id: int
    second_factor: int
    created_at: int
    seen_at: int
    verified_at: int
    address: str
    user_agent: str


class LiveSession(Struct, frozen=True):
    """A session as of `now` (ms) with its enabled account and the language that the account prefers."""

    now: int
    language: str
    session: SessionRow
    account: AccountRow


IDLE_MS = 12 * 3_600_000
LIFE_MS = 7 * 86_400_000
PENDING_MS = 600_000
"""How long a session lasts: unused, in all, and waiting for the second factor."""
_COLUMNS = columns(SessionRow, "s")
_WIDTH = len(SessionRow.__struct_fields__)
_LIVE = f"""s.seen_at > now_ms() - {IDLE_MS}
AND s.created_at > now_ms() - CASE WHEN s.pending = 1 THEN {PENDING_MS} ELSE {LIFE_MS} END"""


async def insert(
    db: Transaction,
    account_id: int,
    token_hash: bytes,
    *,
    pending: bool,
    verified: bool,
    address: str,
    user_agent: str,
) -> None:
    """Adds a session that begins now, `verified` by a password."""
    sql = """INSERT INTO sessions (token_hash, account_id, pending, created_at, seen_at, verified_at, address,
        user_agent) VALUES ($1, $2, $3, now_ms(), now_ms(), now_ms() * CAST($6 AS BIGINT), $4, $5)"""
    await db.fetch(sql, token_hash, account_id, int(pending), address, user_agent, int(verified))


async def live(db: Queries, token_hash: bytes, *, pending: bool) -> LiveSession | None:
    """The session of this token if it has not expired and its account is enabled."""
    sql = f"""SELECT now_ms(), coalesce(p.language, ''), {_COLUMNS}, {columns(AccountRow, "a")}
        FROM sessions s JOIN accounts a ON a.id = s.account_id
        LEFT JOIN preferences p ON p.account_id = s.account_id
        WHERE s.token_hash = $1 AND s.pending = $2 AND a.disabled_at = 0 AND {_LIVE}"""
    rows = await db.fetch(sql, token_hash, int(pending))
    if not rows:
        return None
    now, language, *values = rows[0]
    session, account = SessionRow(*values[:_WIDTH]), AccountRow(*values[_WIDTH:])
    return LiveSession(now=now, language=language, session=session, account=account)


async def of_account(db: Queries, account_id: int) -> list[SessionRow]:
    """The account's sessions that have not expired, the one seen last first."""
    sql = f"""SELECT {_COLUMNS} FROM sessions s WHERE s.account_id = $1 AND s.pending = 0 AND {_LIVE}
        ORDER BY s.seen_at DESC, s.id DESC"""
    return await fetch_rows(db, SessionRow, sql, account_id)


async def known_address(db: Queries, account_id: int, address: str) -> bool:
    """Whether the account has a session that began at this address."""
    sql = "SELECT 1 FROM sessions WHERE account_id = $1 AND address = $2 AND pending = 0 LIMIT 1"
    return await has_row(db, sql, account_id, address)


async def see(db: Transaction, token_hash: bytes) -> None:
    """Records that the session is used now."""
    await db.fetch("UPDATE sessions SET seen_at = now_ms() WHERE token_hash = $1", token_hash)


async def verify(db: Transaction, token_hash: bytes, new_hash: bytes) -> bool:
    """Records that the password was entered now and replaces the token; False if the session has ended."""
    sql = """UPDATE sessions SET token_hash = $2, verified_at = now_ms(), seen_at = now_ms()
        WHERE token_hash = $1 AND pending = 0 RETURNING id"""
    return await has_row(db, sql, token_hash, new_hash)


async def complete(db: Transaction, token_hash: bytes, new_hash: bytes) -> bool:
    """Makes a pending session one that is signed in, from now on and with a new token; False if it ended."""
    sql = """UPDATE sessions SET token_hash = $2, pending = 0, second_factor = 1, created_at = now_ms(),
        seen_at = now_ms(), verified_at = CASE WHEN verified_at = 0 THEN 0 ELSE now_ms() END
        WHERE token_hash = $1 AND pending = 1 RETURNING id"""
    return await has_row(db, sql, token_hash, new_hash)


async def mark_second_factor(db: Transaction, token_hash: bytes) -> bool:
    """Records that the person of this session gave a second factor; False if the session has ended."""
    sql = "UPDATE sessions SET second_factor = 1 WHERE token_hash = $1 AND pending = 0 RETURNING id"
    return await has_row(db, sql, token_hash)


async def delete(db: Transaction, token_hash: bytes) -> None:
    """Ends the session of this token."""
    await db.fetch("DELETE FROM sessions WHERE token_hash = $1", token_hash)


async def delete_one(db: Transaction, account_id: int, session_id: int) -> bool:
    """Ends a session of the account; False if it has no such session."""
    sql = "DELETE FROM sessions WHERE account_id = $1 AND id = $2 RETURNING id"
    return await has_row(db, sql, account_id, session_id)


async def delete_all(db: Transaction, account_id: int, *, but: bytes = b"") -> int:
    """Ends the account's sessions, pending ones included, except that of the token `but`. Returns how many
    there were."""
    sql = "DELETE FROM sessions WHERE account_id = $1 AND token_hash <> $2 RETURNING id"
    return len(await db.fetch(sql, account_id, but))


async def delete_oldest(db: Transaction, account_id: int, kept: int) -> None:
    """Ends the account's oldest sessions so that `kept` remain, of pending ones and of others."""
    for pending in (0, 1):
        sql = """DELETE FROM sessions WHERE id IN (SELECT id FROM sessions
            WHERE account_id = $1 AND pending = $2 ORDER BY id DESC LIMIT 1000 OFFSET $3)"""
        await db.fetch(sql, account_id, pending, kept)


class SubmissionRow(Struct, frozen=True):
    """A form that changed something. `attempt` names the request that did, `answer` is its sealed response,
    None while it has none, or no longer."""

    attempt: bytes
    answer: bytes | None
    age_ms: int


FORM_ANSWER_LIFE_MS = 600_000
"""How long a response is stored, for a form that is sent again and for a page that was not shown yet."""


async def claim_form(db: Transaction, once_hash: bytes, attempt: bytes) -> bool:
    """Records that this attempt changes something; False if another one did. Of several transactions at the
    same time the others wait for the end of the first one."""
    sql = """INSERT INTO form_submissions (once_hash, attempt, created_at) VALUES ($1, $2, now_ms())
        ON CONFLICT (once_hash) DO NOTHING RETURNING attempt"""
    if await has_row(db, sql, once_hash, attempt):
        return True
    found = await submission(db, once_hash)
    return found is not None and found.attempt == attempt


async def submission(db: Queries, once_hash: bytes) -> SubmissionRow | None:
    """The submission of this form."""
    sql = "SELECT attempt, answer, now_ms() - created_at FROM form_submissions WHERE once_hash = $1"
    return await fetch_row(db, SubmissionRow, sql, once_hash)


async def put_form_answer(db: Transaction, once_hash: bytes, attempt: bytes, answer: bytes) -> None:
    """Stores the response of the attempt that made the change."""
    sql = "UPDATE form_submissions SET answer = $3 WHERE once_hash = $1 AND attempt = $2"
    await db.fetch(sql, once_hash, attempt, answer)


async def show_form_answer(db: Transaction, once_hash: bytes) -> bytes | None:
    """The response whose page is to be shown; None if it was shown already."""
    sql = """UPDATE form_submissions SET shown = 1 WHERE once_hash = $1 AND shown = 0 AND answer IS NOT NULL
        RETURNING answer"""
    return await fetch_value(db, bytes, sql, once_hash)


async def show_form_answer_again(db: Transaction, once_hash: bytes) -> None:
    """Lets the page of the response be shown, to the browser that sent the form again."""
    await db.fetch("UPDATE form_submissions SET shown = 0 WHERE once_hash = $1", once_hash)


async def delete_expired(db: Transaction) -> None:
    """Deletes expired sessions, the responses of forms that were sent a while ago, and what is known of forms
    whose pages have outlived their sessions."""
    await db.fetch(f"DELETE FROM sessions AS s WHERE NOT ({_LIVE})")
    old = f"created_at <= now_ms() - {FORM_ANSWER_LIFE_MS}"
    await db.fetch(f"UPDATE form_submissions SET answer = NULL WHERE answer IS NOT NULL AND {old}")
    await db.fetch(f"DELETE FROM form_submissions WHERE created_at <= now_ms() - {LIFE_MS}")
