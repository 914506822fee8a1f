"""An OpenID Connect provider on the loopback that speaks the real protocol, and its faults.

It checks what it gets as strictly as a provider does: the client and its secret, the exact redirect URI, PKCE
with S256, and that a code is used once. A `Plan` changes what it answers.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwk, jws
from joserfc.errors import SecurityWarning

from tests.rig.calls import call
from tests.rig.http_server import Exchange, LoopbackServer

CLIENT_ID = "myna-site"
CLIENT_SECRET = "a:secret-of-the-tests/+%"
HANG_MAX_S = 60
WELL_KNOWN = "/realm/.well-known/openid-configuration"
DROP = object()
"""In a plan: the claim or parameter is left out."""

Key = jwk.RSAKey | jwk.ECKey | jwk.OKPKey
Signer = Callable[[dict[str, Any], bytes, Key], str]


@cache
def key_of(algorithm: str, number: int = 1) -> Key:
    """A private key for the algorithm; others by their numbers."""
    kid = f"{algorithm}-{number}"
    if algorithm == "ES256":
        return jwk.ECKey.generate_key("P-256", {"kid": kid})
    if algorithm == "EdDSA":
        return jwk.OKPKey.generate_key("Ed25519", {"kid": kid})
    return jwk.RSAKey.generate_key(2048, {"kid": kid})


def signed(header: dict[str, Any], payload: bytes, key: Key) -> str:
    """A compact JWS as a provider makes it."""
    with warnings.catch_warnings():  # joserfc prefers "Ed25519" to "EdDSA", which providers use
        warnings.simplefilter("ignore", SecurityWarning)
        return jws.serialize_compact(header, payload, key, algorithms=[header["alg"]])


def forged(header: dict[str, Any], payload: bytes, signature: bytes) -> str:
    """A compact JWS with any header and signature."""
    parts = (json.dumps(header).encode(), payload, signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@dataclass
class Plan:
    """What the provider does otherwise than it should. `bodies` and `statuses` are by path; requests for a
    path of `hanging` are answered when the provider ends."""

    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    sign: Signer = signed
    key: Key | None = None
    published: list[Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    callback: dict[str, Any] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)
    hanging: set[str] = field(default_factory=set)
    asks: bool = False
    """Whether a person has to press a button; otherwise the provider redirects at once."""


class OidcProvider(LoopbackServer):
    """The provider of one person, who is signed in there. `asked` are the paths of all requests."""

    def __init__(self) -> None:
        super().__init__()
        self.issuer = f"{self.root}/realm"
        self.plan = Plan()
        self.algorithm = "RS256"
        self.subject = "person-1"
        self.email = "person-1@example.org"
        self.authenticated_at = time.time() - 3600
        self.asked: list[str] = []
        self.sent: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._ended = threading.Event()

    def env(self, **more: str) -> dict[str, str]:
        """The settings of a site that uses this provider."""
        return {
            "MYNA_OIDC_ISSUER": self.issuer,
            "MYNA_OIDC_CLIENT_ID": CLIENT_ID,
            "MYNA_OIDC_CLIENT_SECRET": CLIENT_SECRET,
            "MYNA_OIDC_NAME": "Keystone",
            **more,
        }

    def approve(self, url: str) -> dict[str, str]:
        """Opens the address as a browser does. Returns the parameters of the callback."""
        answer = call("GET", url)
        if answer.status != 302:
            raise AssertionError(f"{answer.status} {answer.body.decode()}")
        return dict(one for one in _pairs(urlsplit(answer.headers["location"]).query).items())

    def close(self) -> None:
        self._ended.set()
        super().close()

    def answer(self, exchange: Exchange) -> None:
        parts = urlsplit(exchange.path)
        self.asked.append(parts.path)
        if parts.path in self.plan.hanging:
            self._ended.wait(HANG_MAX_S)
        if parts.path == "/realm/authorize":
            self._authorize(exchange, _pairs(parts.query))
            return
        status, found = self._document(exchange, parts.path)
        content = self.plan.bodies.get(parts.path, json.dumps(found).encode())
        exchange.send(self.plan.statuses.get(parts.path, status), content)

    def _document(self, exchange: Exchange, path: str) -> tuple[int, Any]:
        if path == WELL_KNOWN:
            return 200, self._metadata()
        if path == "/realm/keys":
            return 200, {"keys": self._published()}
        if path == "/realm/token":
            return self._token(exchange.headers.get("authorization", ""), _pairs(exchange.body().decode()))
        return 404, {}

    def _metadata(self) -> dict[str, Any]:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.root}/realm/authorize",
            "token_endpoint": f"{self.root}/realm/token",
            "jwks_uri": f"{self.root}/realm/keys",
            "authorization_response_iss_parameter_supported": True,
            "code_challenge_methods_supported": ["plain", "S256"],
        }
        return _changed(found, self.plan.metadata)

    def _published(self) -> list[Any]:
        if self.plan.published is not None:
            return self.plan.published
        return [public(key_of("ES256", 9), "ES256"), public(key_of(self.algorithm), self.algorithm)]

    def _authorize(self, exchange: Exchange, query: dict[str, str]) -> None:
        wrong = (
            query.get("response_type") != "code"
            or query.get("client_id") != CLIENT_ID
            or query.get("code_challenge_method") != "S256"
            or "openid" not in query.get("scope", "").split()
            or not query.get("redirect_uri", "").endswith("/office/sign-in/oidc/callback")
        )
        if wrong:
            exchange.send(400, b"invalid_request", "text/plain")
            return
        if self.plan.asks and "pressed" not in query:
            fields = "".join(f'<input type="hidden" name="{name}" value="{v}">' for name, v in query.items())
            button = '<button name="pressed" value="yes">Let me in</button>'
            page = f"<!doctype html><title>Keystone</title><form>{fields}{button}</form>"
            exchange.send(200, page.encode(), "text/html")
            return
        if query.get("prompt") == "login":
            self.authenticated_at = time.time()
        code = secrets.token_urlsafe(24)
        self._codes[code] = query
        answer = _changed({"code": code, "state": query["state"], "iss": self.issuer}, self.plan.callback)
        back = f"{query['redirect_uri']}?{urlencode(answer, doseq=True)}"
        exchange.send(302, headers={"Location": back})

    def _token(self, authorization: str, form: dict[str, str]) -> tuple[int, Any]:
        login = urlencode({"": CLIENT_ID})[1:] + ":" + urlencode({"": CLIENT_SECRET})[1:]
        if authorization != f"Basic {base64.b64encode(login.encode()).decode()}":
            return 401, {"error": "invalid_client"}
        query = self._codes.pop(form.get("code", ""), None)
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if (
            query is None
            or form.get("grant_type") != "authorization_code"
            or form.get("redirect_uri") != query["redirect_uri"]
            or base64.urlsafe_b64encode(challenge).rstrip(b"=").decode() != query["code_challenge"]
        ):
            return 400, {"error": "invalid_grant"}
        token = self._id_token(query["nonce"])
        self.sent.append(token)
        return 200, {"access_token": "unused", "token_type": "Bearer", "id_token": token}

    def _id_token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "nonce": nonce,
            "iat": now,
            "exp": now + 300,
            "auth_time": int(self.authenticated_at),
            "sub": self.subject,
            "email": self.email,
            "email_verified": True,
        }
        key = self.plan.key or key_of(self.algorithm)
        header = _changed({"alg": self.algorithm, "kid": key_of(self.algorithm).kid}, self.plan.header)
        return self.plan.sign(header, json.dumps(_changed(claims, self.plan.claims)).encode(), key)


def public(key: Key, algorithm: str, **more: Any) -> dict[str, Any]:
    """A key as the provider publishes it."""
    return {**key.as_dict(private=False), "use": "sig", "alg": algorithm, **more}


def _changed(found: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (found | changes).items() if value is not DROP}


def _pairs(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    """A provider for one test."""
    with OidcProvider() as made:
        yield made
