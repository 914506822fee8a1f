"""Sessions of the back office.

A session is a random token in a cookie and a row. It ends 12 hours after it was last used, 7 days after it
began, when its account is disabled, and when the password is changed. An account has at most SESSIONS_MAX;
one more ends the oldest.

pending ──second factor──► signed in ──close, expiry, change of the password──► ended
   └── PENDING_MS ──► ended

An account with a second factor begins with a pending session, which `find` does not return.
"""

import hashlib
import logging
import secrets
from typing import Final

from msgspec import Struct

from myna.accounts.sign_in import passwords
from myna.accounts.throttle import SignInRefused
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import accounts
from myna.store.queries import sessions as store
from myna.store.queries.accounts import AccountRow
from myna.store.queries.sessions import LiveSession
from myna.store.queries.sign_in import has_second_factor, password_of
from myna.store.transaction_queue import transactions_of

log = logging.getLogger(__name__)

SEEN_EVERY_MS: Final = 60_000
"""The last use of a session is recorded at most once in this interval."""
STEP_UP_MS: Final = 600_000
"""For how long a password that was entered allows what needs one."""
SESSIONS_MAX: Final = 50
USER_AGENT_MAX_CHARS = 200
SESSION_PREFIX: Final = "mynasession_"
LINK_PREFIX: Final = "mynalink_"
OIDC_PREFIX: Final = "mynaoidc_"
"""By its prefix a token is masked in logs."""
TOKEN_BYTES: Final = 32


def new_token(prefix: str) -> str:
    """A new token: 256 random bits, of which only the SHA-256 is stored."""
    return prefix + secrets.token_hex(TOKEN_BYTES)


def hash_of(token: str) -> bytes:
    """The SHA-256 of a token."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


class Session(Struct, frozen=True):
    """A session of a person who is signed in. Times in Unix ms. `verified_at` is when the password was last
    entered, or the provider last authenticated the person for a confirmation; 0 for never. `stepped_up` is
    whether that is recent enough for what needs a password. `second_factor` is whether the session began with
    one. `language` is the account's choice: `zh`, `en`, or empty."""

    id: int
    token_hash: bytes
    account: AccountRow
    created_at: int
    seen_at: int
    verified_at: int
    stepped_up: bool
    second_factor: bool
    language: str


async def sign_in(db: Database, name_or_email: str, plain: str, address: str, user_agent: str) -> str:
    """Opens a session for a name, or an e-mail address, and its password. Returns the token. The session is
    pending if the account has a second factor. Raises SignInRefused.

    A password that is changed between its verification and the session is refused: else someone who knows the
    old one could sign in after the change has ended all sessions.
    """
    found = await passwords.verify(db, name_or_email, plain, address)

    async def work(connection: Transaction) -> str:
        await accounts.lock(connection, found.account.id)
        current = await password_of(connection, found.account.id)
        if current is None or current.hash != found.hash:
            raise SignInRefused
        return await open_in(connection, found.account.id, address, user_agent)

    return await db.transaction(work)


async def open(db: Database, account_id: int, address: str, user_agent: str) -> str:  # noqa: A001
    """Opens a session for a person whose password was just set. Returns the token. The session is pending if
    the account has a second factor. Raises SignInRefused if the account is disabled."""

    async def work(connection: Transaction) -> str:
        await accounts.lock(connection, account_id)
        return await open_in(connection, account_id, address, user_agent)

    return await db.transaction(work)


async def open_in(
    connection: Transaction, account_id: int, address: str, user_agent: str, *, by_password: bool = True
) -> str:
    """Opens a session in a transaction that has locked the account. One that began without a password allows
    nothing that needs a recent one."""
    found = await password_of(connection, account_id)
    if found is None or found.account.disabled_at:
        raise SignInRefused
    token = new_token(SESSION_PREFIX)
    pending = await has_second_factor(connection, account_id)
    await store.insert(
        connection,
        account_id,
        hash_of(token),
        pending=pending,
        verified=by_password,
        address=address,
        user_agent=_printable(user_agent),
    )
    await store.delete_oldest(connection, account_id, SESSIONS_MAX)
    log.info("account %d signed in from %s%s", account_id, address, ", pending" if pending else "")
    return token


async def find(db: Database, token: str) -> Session | None:
    """The session of this token; None if there is none, if it is pending or has ended. Records its use."""
    found = await store.live(db, hash_of(token), pending=False)
    if found is None:
        return None
    row = found.session
    if found.now - row.seen_at >= SEEN_EVERY_MS:
        with transactions_of(f"account {found.account.id}"):
            await db.transaction(lambda connection: store.see(connection, row.token_hash))
    return Session(
        id=row.id,
        token_hash=row.token_hash,
        account=found.account,
        created_at=row.created_at,
        seen_at=row.seen_at,
        verified_at=row.verified_at,
        stepped_up=found.now - row.verified_at < STEP_UP_MS,
        second_factor=bool(row.second_factor),
        language=found.language,
    )


async def is_open(db: Queries, session: Session) -> bool:
    """Whether the session has not ended, with the same token and rights. This does not count as its use."""
    found = await store.live(db, session.token_hash, pending=False)
    return found is not None and found.account.operator == session.account.operator


async def find_pending(db: Queries, token: str) -> LiveSession | None:
    """The session of this token that waits for the second factor."""
    return await store.live(db, hash_of(token), pending=True)


async def verified(db: Database, session: Session) -> str:
    """Records that the password was entered now. Returns the session's new token, which replaces the old one
    in the cookie. Raises SignInRefused if the session has ended."""
    token = new_token(SESSION_PREFIX)
    if not await db.transaction(
        lambda connection: store.verify(connection, session.token_hash, hash_of(token))
    ):
        raise SignInRefused
    return token


async def close(db: Database, session: Session) -> None:
    """Ends the session."""
    await db.transaction(lambda connection: store.delete(connection, session.token_hash))


def _printable(user_agent: str) -> str:
    return "".join(char for char in user_agent if char.isprintable())[:USER_AGENT_MAX_CHARS]
