"""Which account an identity at the provider may sign in to.

An identity is the pair of issuer and subject. An e-mail address can link an identity to an account once, if
the settings allow it; it never identifies anyone afterwards.
"""

from msgspec import Struct

from myna.accounts import activity
from myna.accounts.activity import Actor
from myna.accounts.sign_in import sessions
from myna.accounts.sign_in.oidc.provider import Failure, OidcRefused
from myna.accounts.sign_in.sessions import Session
from myna.accounts.throttle import SignInRefused
from myna.errors import CommandError
from myna.store.database import Database, Transaction
from myna.store.queries import accounts
from myna.store.queries import sessions as session_store
from myna.store.queries import sign_in as store


class Identity(Struct, frozen=True):
    """A person at a provider."""

    issuer: str
    subject: str


async def sign_in(db: Database, identity: Identity, *, email: str, address: str, user_agent: str) -> str:
    """Opens a session for the linked account. Returns the token. The session is pending if the account has a
    second factor, and allows nothing that needs a recent password. Raises OidcRefused.

    `email` is a verified address that may link the identity to the only account that has it, "" for none.
    """

    async def work(connection: Transaction) -> str:
        account_id = await _account_of(connection, identity)
        if account_id is None and email:
            account_id = await _linked_by_email(connection, identity, email, address)
        if account_id is None:
            raise OidcRefused(Failure.NOT_LINKED, "no account is linked to the identity")
        try:
            return await sessions.open_in(connection, account_id, address, user_agent, by_password=False)
        except SignInRefused:
            raise OidcRefused(Failure.NOT_LINKED, f"account {account_id} is disabled") from None

    return await db.transaction(work)


async def link(connection: Transaction, account_id: int, identity: Identity, *, session: bytes) -> None:
    """Links the identity to a locked account. In place of another identity, it ends the account's sessions
    but that of the token hash `session`. Raises CommandError if it is linked to another account."""
    if await store.unlink_identity(connection, account_id):
        await session_store.delete_all(connection, account_id, but=session)
    if not await store.link_identity(connection, account_id, identity.issuer, identity.subject):
        raise CommandError("This identity is linked to another account. Unlink it there first.")


async def unlink(connection: Transaction, account_id: int, *, session: bytes) -> None:
    """Unlinks the identity of a locked account, and ends its sessions but that of the token hash `session`.
    Raises CommandError if it has none."""
    if not await store.unlink_identity(connection, account_id):
        raise CommandError("The account is not linked.")
    await store.mark_unlinked(connection, account_id)
    await session_store.delete_all(connection, account_id, but=session)


async def confirm(db: Database, session: Session, identity: Identity) -> str:
    """Records that the person of this session was authenticated now. Returns the session's new token. Raises
    OidcRefused if the identity is not the account's."""
    found = await store.identity_of(db, session.account.id)
    if found is None or (found.issuer, found.subject) != (identity.issuer, identity.subject):
        raise OidcRefused(Failure.OTHER_IDENTITY, f"account {session.account.id} has another identity")
    try:
        return await sessions.verified(db, session)
    except SignInRefused:
        raise OidcRefused(Failure.EXPIRED, "the session has ended") from None


async def _account_of(connection: Transaction, identity: Identity) -> int | None:
    """The account of the identity, locked. The link is read again under the lock."""
    found = await store.identity_by_subject(connection, identity.issuer, identity.subject)
    if found is None:
        return None
    await accounts.lock(connection, found.account_id)
    current = await store.identity_by_subject(connection, identity.issuer, identity.subject)
    return current.account_id if current and current.account_id == found.account_id else None


async def _linked_by_email(
    connection: Transaction, identity: Identity, email: str, address: str
) -> int | None:
    """Links the only account with this address, unless it has an identity. Returns it, locked."""
    found = await accounts.by_email(connection, email) if email.isprintable() else []
    if len(found) != 1 or found[0].disabled_at:
        return None
    account = found[0]
    await accounts.lock(connection, account.id)
    if await store.identity_of(connection, account.id) or await store.was_unlinked(connection, account.id):
        return None
    await link(connection, account.id, identity, session=b"")
    by = Actor(account_id=account.id, name=account.name, address=address)  # a part of the sign-in: no action
    words = activity.words("account", "oidc", account.name, subject=identity.subject)
    await activity.record(connection, by, words, account.id)
    return account.id
