"""People who sign in, and a provider's site, on books that no audit reads: nothing here touches a ledger. The
hashes of passwords cost little."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterable
from pathlib import Path
from typing import TypeVar

import argon2
import pytest
from msgspec import structs

from myna.accounts.activity import Actor
from myna.accounts.sign_in import passwords, sessions
from myna.accounts.sign_in.oidc import identities
from myna.accounts.sign_in.oidc.flow import Answer, Finished, Oidc, Purpose
from myna.accounts.sign_in.oidc.identities import Identity
from myna.accounts.sign_in.oidc.provider import CALLBACK_PATH, Client, Failure, OidcRefused
from myna.actions.accounts import AddAccount, SetIdentity, SetPassword
from myna.http.client import HttpClient
from myna.settings import Settings
from myna.store.queries.accounts import AccountRow
from tests.rig.actors import perform
from tests.rig.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider
from tests.store.books import Books, books_of

FAST = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
REAL = passwords.HASHER
REAL_DUMMY = passwords.DUMMY_HASH


@pytest.fixture(autouse=True)
def fast_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "HASHER", FAST)
    monkeypatch.setattr(passwords, "DUMMY_HASH", f"$argon2id$v=19$m=8,t=1,p=1${'A' * 22}${'A' * 43}")


@pytest.fixture
def real_hashes(fast_hashes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test of the parameters themselves."""
    monkeypatch.setattr(passwords, "HASHER", REAL)
    monkeypatch.setattr(passwords, "DUMMY_HASH", REAL_DUMMY)


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database file with the schema."""
    folder = tmp_path_factory.mktemp("empty")

    async def make() -> None:
        async with books_of("", folder):
            pass

    asyncio.run(make())
    return (folder / "myna.sqlite").read_bytes()


@pytest.fixture
async def books(database_url: str, tmp_path: Path, empty_sqlite: bytes) -> AsyncIterator[Books]:
    made = Books(database_url, tmp_path)
    if not database_url:
        file = tmp_path / "myna.sqlite"
        file.touch(0o600)
        file.write_bytes(empty_sqlite)
    made.db = await made.open_again()
    yield made
    await made.db.close()


T = TypeVar("T")

PASSWORD = "plum anchor velvet 47"
OTHER_PASSWORD = "quiet lantern over 9 hills"
ADDRESS = "192.0.2.7"
ELSEWHERE = "198.51.100.9"
BROWSER = "Firefox"
OPERATOR = Actor(account_id=0, name="root", address="")


async def person(
    books: Books, name: str = "ann", *, email: str = "", operator: bool = False, password: str = PASSWORD
) -> AccountRow:
    """An account; with the empty password one that can't sign in."""
    account = await perform(books.db, AddAccount(name=name, email=email, operator=operator))
    if password:
        await set_password(books, name, password)
    return account


async def set_password(books: Books, name: str, password: str, by: Actor = OPERATOR) -> None:
    """Sets the password of an account, as its page does."""
    hashed = await passwords.new_hash(password, name=name, email="")
    await perform(books.db, SetPassword(name=name, password_hash=hashed), by=by)


async def signed_in(books: Books, name: str = "ann", address: str = ADDRESS) -> str:
    """The token of a new session, which is pending if the account has a second factor."""
    return await sessions.sign_in(books.db, name, PASSWORD, address, BROWSER)


async def session_of(books: Books, token: str) -> sessions.Session:
    """The session, which must not be pending."""
    session = await sessions.find(books.db, token)
    assert session is not None
    return session


async def at_once(work: Iterable[Awaitable[T]]) -> tuple[list[T], list[BaseException]]:
    """The results and the errors of work that runs at the same time."""
    done: list[T] = []
    failed: list[BaseException] = []
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            failed.append(result)
        else:
            done.append(result)
    return done, failed


async def failure_of(work: Awaitable[object]) -> Failure:
    """Why a sign-in by the provider is refused."""
    with pytest.raises(OidcRefused) as refused:
        await work
    return refused.value.failure


COOKIE = "mynaoidc_" + "b" * 64


CLIENT = Client(
    issuer="",
    client_id=CLIENT_ID,
    secret=CLIENT_SECRET,
    name="Keystone",
    scopes="openid email",
    link_by_email=False,
    redirect_uri=f"https://ai.example.org{CALLBACK_PATH}",
)


class OidcSite:
    """The flow on books, with a real HTTP client. `client` has the settings."""

    def __init__(self, books: Books, provider: OidcProvider, http_client: HttpClient) -> None:
        self.books = books
        self.provider = provider
        self.client = structs.replace(CLIENT, issuer=provider.issuer)
        self.oidc = Oidc(self.client, http_client)

    async def begin(self, purpose: Purpose = Purpose.SIGN_IN, browser: str = COOKIE) -> str:
        """The address at the provider."""
        return await self.oidc.begin(
            self.books.db, purpose, browser=browser, session_id=0, target="", address=ADDRESS
        )

    async def answer(self, purpose: Purpose = Purpose.SIGN_IN) -> Answer:
        """What the provider adds to the callback for a new attempt."""
        return Answer(**self.provider.approve(await self.begin(purpose)))

    async def finish(self, answer: Answer, browser: str = COOKIE) -> Finished:
        return await self.oidc.finish(self.books.db, answer, browser)

    async def whole(self, purpose: Purpose = Purpose.SIGN_IN) -> Finished:
        """An attempt from its beginning to its end."""
        return await self.finish(await self.answer(purpose))

    def identity(self) -> Identity:
        return Identity(self.provider.issuer, self.provider.subject)

    async def link(
        self, account: AccountRow, subject: str = "", *, issuer: str = "", session: bytes = b""
    ) -> None:
        """Links the account to the provider's person, or to this subject."""
        action = SetIdentity(name=account.name, subject=subject or self.provider.subject, session=session)
        await perform(self.books.db, action, settings=Settings(oidc_issuer=issuer or self.provider.issuer))

    async def unlink(self, account: AccountRow, own: sessions.Session | None = None) -> None:
        """Removes the link as an operator does, or as the account's holder in this session."""
        action = SetIdentity(name=account.name, remove=True, session=own.token_hash if own else b"")
        await perform(self.books.db, action, owner_id=account.id if own else None)

    async def sign_in(self, email: str = "") -> str:
        """The token of a session of the provider's person."""
        return await identities.sign_in(
            self.books.db, self.identity(), email=email, address=ADDRESS, user_agent=BROWSER
        )

    async def session(self, token: str) -> sessions.Session:
        return await session_of(self.books, token)


def seconds_ago(seconds: float) -> int:
    """A time in Unix s."""
    return int(time.time() - seconds)


@pytest.fixture
async def http_client() -> AsyncIterator[HttpClient]:
    client = HttpClient(connections_max=4)
    yield client
    await client.close()


@pytest.fixture
def site(books: Books, provider: OidcProvider, http_client: HttpClient) -> OidcSite:
    return OidcSite(books, provider, http_client)
