"""The authorization code flow with PKCE (OpenID Connect Core 1.0, 3.1; RFC 7636, 9207, 9700).

An attempt binds the provider's callback to the browser and, for a link, to the session that began it. The
state is in the address that the browser opens, the browser's token in a cookie; the database has the SHA-256
of both. An attempt is used once, within ten minutes, by the browser that began it.
"""

import base64
import hashlib
import re
import time
from enum import StrEnum
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct

from myna.accounts.sign_in import sessions
from myna.accounts.sign_in.oidc import id_token
from myna.accounts.sign_in.oidc.id_token import Claims, Expected, UnknownKey
from myna.accounts.sign_in.oidc.provider import Client, Failure, OidcRefused, Provider
from myna.accounts.throttle import AddressBuckets
from myna.http.client import HttpClient
from myna.lib.net import client_network
from myna.store.database import Database, Transaction
from myna.store.queries import sign_in as store
from myna.store.queries.sign_in import AttemptRow

TOKEN: Final = re.compile(sessions.OIDC_PREFIX + "[0-9a-f]{64}")
"""A state, or the token of a browser."""
OF_NETWORK_MAX: Final = 200
"""Concurrent attempts of one client network; one more replaces the oldest."""
OF_PROXY_MAX: Final = 1_000
"""The same for the loopback address, which all clients of a proxy on this machine have."""
CODE_MAX_CHARS: Final = 4096
_ERROR = re.compile(r"[a-z_]{1,40}")


class Purpose(StrEnum):
    """The purpose of an attempt."""

    SIGN_IN = "sign-in"
    LINK = "link"
    CONFIRM = "confirm"


class Answer(Struct, frozen=True):
    """The parameters of the callback; `iss` is None without one."""

    state: str = ""
    code: str = ""
    error: str = ""
    iss: str | None = None

    def __repr__(self) -> str:
        return "Answer()"


class Finished(Struct, frozen=True):
    """An attempt that the provider has confirmed."""

    purpose: Purpose
    session_id: int
    target: str
    claims: Claims


class Oidc:
    """Sign-in at the provider of the settings."""

    def __init__(self, client: Client, http_client: HttpClient) -> None:
        self.client = client
        self._provider = Provider(client, http_client)
        self._begins = AddressBuckets()

    async def begin(
        self, db: Database, purpose: Purpose, *, browser: str, session_id: int, target: str, address: str
    ) -> str:
        """Begins an attempt of the browser with this token; `target` is the page to open afterwards. Returns
        the provider's address that the browser opens. Raises OidcRefused, also if too many attempts begin at
        the address: each is a write."""
        if self._begins.wait_s(address):
            raise OidcRefused(Failure.TOO_MANY, "too many attempts began at this address")
        self._begins.take(address)
        metadata = await self._provider.metadata()
        state, nonce, verifier = (sessions.new_token(sessions.OIDC_PREFIX) for _ in range(3))
        network = client_network(address)

        async def work(connection: Transaction) -> None:
            row = AttemptRow(nonce, verifier, purpose.value, session_id, target, created_at=0)
            await store.begin_attempt(
                connection, sessions.hash_of(state), sessions.hash_of(browser), row, network
            )
            await store.delete_oldest_attempts(
                connection, network, OF_NETWORK_MAX if network else OF_PROXY_MAX
            )

        await db.transaction(work)
        challenge = hashlib.sha256(verifier.encode()).digest()
        parameters = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": self.client.redirect_uri,
            "scope": self.client.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        if purpose is Purpose.CONFIRM:
            parameters |= {"prompt": "login", "max_age": "0"}
        separator = "&" if "?" in metadata.authorization_endpoint else "?"
        return f"{metadata.authorization_endpoint}{separator}{urlencode(parameters)}"

    async def finish(self, db: Database, answer: Answer, browser: str) -> Finished:
        """Uses the attempt and checks the provider's answer. Raises OidcRefused."""
        attempt = await _used(db, answer.state, browser)
        metadata = await self._provider.metadata()
        iss_is_missing = answer.iss is None and metadata.authorization_response_iss_parameter_supported
        if iss_is_missing or answer.iss not in (None, self.client.issuer):
            raise OidcRefused(Failure.NOT_VALID, "the callback does not name the issuer")
        if answer.error:
            code = answer.error if _ERROR.fullmatch(answer.error) else "an error"
            raise OidcRefused(Failure.CANCELLED, f"the provider answered {code}")
        if not 0 < len(answer.code) <= CODE_MAX_CHARS:
            raise OidcRefused(Failure.NOT_VALID, "the callback has no code")
        token = await self._provider.exchange(answer.code, attempt.verifier)
        purpose = Purpose(attempt.purpose)
        expected = Expected(
            issuer=self.client.issuer,
            client_id=self.client.client_id,
            nonce=attempt.nonce,
            now=time.time(),
            authenticated_after=attempt.created_at / 1000 if purpose is Purpose.CONFIRM else None,
        )
        try:
            claims = id_token.verify(token, await self._provider.keys(), expected)
        except UnknownKey:  # it is looked for once among newer keys
            claims = id_token.verify(token, await self._provider.keys(newer=True), expected)
        return Finished(purpose, attempt.session_id, attempt.target, claims)


async def _used(db: Database, state: str, browser: str) -> AttemptRow:
    """The attempt, which can't be used again. Raises OidcRefused if it was used, has expired, or is another
    browser's."""
    if not (TOKEN.fullmatch(state) and TOKEN.fullmatch(browser)):  # costs no write
        raise OidcRefused(Failure.EXPIRED, "the callback has no state, or its browser no token")
    state_hash, browser_hash = sessions.hash_of(state), sessions.hash_of(browser)
    found = await db.transaction(lambda connection: store.take_attempt(connection, state_hash, browser_hash))
    if found is None:
        raise OidcRefused(Failure.EXPIRED, "no attempt of this browser has this state")
    return found
