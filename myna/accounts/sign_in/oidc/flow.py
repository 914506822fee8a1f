"""The authorization code flow with PKCE (OpenID Connect Core 1.0, 3.1; RFC 7636, 9207, 9700)."""

import base64
import hashlib
import re
import time
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct

from myna.accounts.key_throttle import AddressBuckets
from myna.accounts.sign_in.oidc import attempts, id_token
from myna.accounts.sign_in.oidc.attempts import Purpose
from myna.accounts.sign_in.oidc.client import Client
from myna.accounts.sign_in.oidc.id_token import Claims, Expected, UnknownKey
from myna.accounts.sign_in.oidc.provider import Provider
from myna.accounts.sign_in.oidc.refusal import Failure, OidcRefused
from myna.http.client import HttpClient
from myna.store.database import Database
from myna.store.queries.sign_in import AttemptRow

CODE_MAX_CHARS: Final = 4096
_ERROR = re.compile(r"[a-z_]{1,40}")


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
        """Begins an attempt. Returns the provider's address that the browser opens. Raises OidcRefused, also
        if too many attempts begin at the address: each is a write."""
        if self._begins.wait_s(address):
            raise OidcRefused(Failure.TOO_MANY, "too many attempts began at this address")
        self._begins.take(address)
        metadata = await self._provider.metadata()
        begun = await attempts.begin(
            db, purpose, browser=browser, session_id=session_id, target=target, address=address
        )
        challenge = hashlib.sha256(begun.row.verifier.encode()).digest()
        parameters = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": self.client.redirect_uri,
            "scope": self.client.scopes,
            "state": begun.state,
            "nonce": begun.row.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        if purpose is Purpose.CONFIRM:
            parameters |= {"prompt": "login", "max_age": "0"}
        separator = "&" if "?" in metadata.authorization_endpoint else "?"
        return f"{metadata.authorization_endpoint}{separator}{urlencode(parameters)}"

    async def finish(self, db: Database, answer: Answer, browser: str) -> Finished:
        """Uses the attempt and checks the provider's answer. Raises OidcRefused."""
        attempt = await attempts.take(db, answer.state, browser)
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
        return Finished(
            purpose=Purpose(attempt.purpose),
            session_id=attempt.session_id,
            target=attempt.target,
            claims=await self._verified(token, self._expected(attempt)),
        )

    def _expected(self, attempt: AttemptRow) -> Expected:
        again = attempt.purpose == Purpose.CONFIRM
        return Expected(
            issuer=self.client.issuer,
            client_id=self.client.client_id,
            nonce=attempt.nonce,
            now=time.time(),
            authenticated_after=attempt.created_at / 1000 if again else None,
        )

    async def _verified(self, token: str, expected: Expected) -> Claims:
        """The claims; a key that isn't known is looked for once among newer keys."""
        keys = await self._provider.keys()
        try:
            return id_token.verify(token, keys, expected)
        except UnknownKey:
            return id_token.verify(token, await self._provider.keys(newer=True), expected)
