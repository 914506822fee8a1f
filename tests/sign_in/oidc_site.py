"""Books of a site with a provider, and the flow as its pages drive it."""

import time

from msgspec import structs

from myna.accounts.sign_in import sessions
from myna.accounts.sign_in.oidc import identities
from myna.accounts.sign_in.oidc.flow import Answer, Finished, Oidc, Purpose
from myna.accounts.sign_in.oidc.identities import Identity
from myna.accounts.sign_in.oidc.provider import CALLBACK_PATH, Client
from myna.actions.accounts import SetIdentity
from myna.http.client import HttpClient
from myna.settings import Settings
from myna.store.queries.accounts import AccountRow
from tests.rig.actors import perform
from tests.rig.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider
from tests.sign_in.conftest import ADDRESS, BROWSER
from tests.store.books import Books

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
        found = await sessions.find(self.books.db, token)
        assert found is not None
        return found


def seconds_ago(seconds: float) -> int:
    """A time in Unix s."""
    return int(time.time() - seconds)
