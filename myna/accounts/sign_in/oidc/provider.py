"""The provider: the settings of sign-in by OpenID Connect, and requests for its metadata (OpenID Connect
Discovery 1.0), its keys, and the ID token for a code.

Every request has a deadline and a limit on its answer; redirects are not followed.
"""

import base64
import re
import stat
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote_plus, urlencode

import msgspec
from msgspec import Struct

from myna.errors import ConfigError
from myna.http.client import ClientResponse, HttpClient, RequestFailed
from myna.lib.aio import Cached
from myna.lib.net import is_secure
from myna.settings import Settings

T = TypeVar("T")
Key = Mapping[str, object]

DEADLINE_S: Final = 10.0
"""For each request."""
ANSWER_MAX_BYTES: Final = 256 * 1024
KEPT_S: Final = 3600.0
"""How long metadata and keys are used."""
AGAIN_S: Final = 60.0
"""Keys are fetched again for an unknown key id at most once in this interval."""
FAILED_S: Final = 5.0
"""How long a failed request is not repeated."""
_WELL_KNOWN = "/.well-known/openid-configuration"
_ERROR = re.compile(r"[a-z_]{1,40}")
CALLBACK_PATH: Final = "/office/sign-in/oidc/callback"
SECRET_MAX_BYTES: Final = 4096


class Failure(StrEnum):
    """The reason of a refusal, as the page says it."""

    PROVIDER = (
        "The sign-in provider does not answer as it should. Nothing was changed. Try again later, or use your"
        " password."
    )
    NOT_VALID = (
        "The provider's answer failed a check, so nothing was changed. Begin again; if it happens again, ask"
        " the operator."
    )
    EXPIRED = (
        "This sign-in was used already, is older than ten minutes, or began in another browser. Begin again."
    )
    CANCELLED = "The provider ended the sign-in, or you cancelled it there. Nothing was changed."
    TOO_MANY = "Too many sign-ins began at your address. Try again in a minute."
    NOT_LINKED = (
        "No account is linked to you at the provider. Sign in with your password and link it on its page, or"
        " ask the operator."
    )
    OTHER_IDENTITY = "At the provider you are signed in as another person than the linked one."


class OidcRefused(Exception):
    """Nothing was signed in or changed. `str()` is the detail for the log, without secrets."""

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure


class Client(Struct, frozen=True):
    """This site as the provider knows it. `secret` is empty for a public client."""

    issuer: str
    client_id: str
    secret: str
    name: str
    scopes: str
    link_by_email: bool
    redirect_uri: str

    def __repr__(self) -> str:
        return f"Client({self.issuer!r}, {self.client_id!r})"


def client_of(settings: Settings) -> Client | None:
    """None without an issuer. Raises ConfigError if the extra is missing or the file of the secret can't be
    used."""
    if not settings.oidc_issuer:
        return None
    try:
        from joserfc import jwk, jws  # noqa: F401  at startup: it takes 0.2 s, which would delay streams
    except ImportError:
        raise ConfigError("MYNA_OIDC_ISSUER: needs Myna's extra 'oidc', which isn't installed.") from None
    file = settings.oidc_client_secret_file
    return Client(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        secret=_secret_in(Path(file)) if file else settings.oidc_client_secret,
        name=settings.oidc_name,
        scopes=settings.oidc_scopes,
        link_by_email=settings.oidc_link_by_email == "on",
        redirect_uri=settings.base_url + CALLBACK_PATH,
    )


def _secret_in(path: Path) -> str:
    label = "MYNA_OIDC_CLIENT_SECRET_FILE"
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            content = file.read(SECRET_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{label}: {path} can't be read: {error.strerror}.") from None
    if mode & 0o077:
        raise ConfigError(f"{label}: {path} has the mode {mode:04o}; it must be 0600.")
    secret = content.decode("ascii", errors="replace").strip()
    if not secret or len(content) > SECRET_MAX_BYTES or not secret.isprintable() or not secret.isascii():
        raise ConfigError(f"{label}: {path} must have one line of printable ASCII.")
    return secret


class Metadata(Struct, frozen=True):
    """The fields of the provider's metadata that are used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    authorization_response_iss_parameter_supported: bool = False
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    code_challenge_methods_supported: list[str] | None = None


class _KeySet(Struct):
    keys: list[object]


class _Tokens(Struct):
    id_token: str


class _Error(Struct):
    error: str = ""


class Provider:
    """The provider of one client. Remembers metadata and keys in the memory of the process."""

    def __init__(self, client: Client, http_client: HttpClient) -> None:
        self._client = client
        self._http_client = http_client
        self._metadata = Cached(self._fetch_metadata)
        self._keys = Cached(self._fetch_keys)

    async def metadata(self) -> Metadata:
        """The metadata. Raises OidcRefused."""
        return await self._metadata.get(KEPT_S, FAILED_S)

    async def keys(self, *, newer: bool = False) -> list[Key]:
        """The keys of ID tokens; `newer` ones are fetched within limits. Raises OidcRefused."""
        return await self._keys.get(AGAIN_S if newer else KEPT_S, FAILED_S)

    async def exchange(self, code: str, verifier: str) -> str:
        """The ID token for a code, which is not checked yet. Raises OidcRefused; EXPIRED if the code was used
        or is too old, such as after a reload of the callback: then the person begins again."""
        metadata = await self.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._client.redirect_uri,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self._client.secret and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            headers["Authorization"] = _basic(self._client)
        else:
            secret = {"client_secret": self._client.secret} if self._client.secret else {}
            form |= {"client_id": self._client.client_id, **secret}
        body = urlencode(form).encode()
        answer = await self._request("POST", metadata.token_endpoint, headers, body)
        if answer.status == 400 and _error_code(answer.body) == " invalid_grant":
            raise OidcRefused(Failure.EXPIRED, "the token endpoint answered 400 invalid_grant")
        return _decoded(answer, _Tokens, "the token endpoint").id_token

    async def _fetch_metadata(self) -> Metadata:
        """Raises OidcRefused, also if the metadata is that of another issuer (mix-up) or has an address that
        is not secure."""
        address = self._client.issuer.rstrip("/") + _WELL_KNOWN
        answer = await self._request("GET", address, {"Accept": "application/json"}, None)
        found = _decoded(answer, Metadata, "the metadata")
        if found.issuer != self._client.issuer:
            raise _unusable("the metadata is of another issuer")
        for endpoint in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
            if not self._may_be_asked(endpoint):
                raise _unusable("the metadata has an address that is not an https URL")
        methods = found.code_challenge_methods_supported
        if methods is not None and "S256" not in methods:
            raise _unusable("the provider does not support PKCE with S256")
        return found

    async def _fetch_keys(self) -> list[Key]:
        metadata = await self.metadata()
        answer = await self._request("GET", metadata.jwks_uri, {"Accept": "application/json"}, None)
        published = _decoded(answer, _KeySet, "the keys").keys
        return [key for key in published if isinstance(key, dict)]

    def _may_be_asked(self, endpoint: str) -> bool:
        """Whether it is an https URL; of a provider on this machine also an http one there."""
        url, _, query = endpoint.partition("?")
        insecure = not url.startswith("https:")
        ours = insecure and not self._client.issuer.startswith("http:")
        return is_secure(url) and "@" not in url and "#" not in query and not ours

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> ClientResponse:
        try:
            return await self._http_client.request(
                method,
                url,
                headers=headers,
                body=body,
                deadline_s=DEADLINE_S,
                answer_max_bytes=ANSWER_MAX_BYTES,
            )
        except RequestFailed as error:
            raise _unusable(str(error)) from None


def _decoded(answer: ClientResponse, kind: type[T], what: str) -> T:
    """The body of a successful answer. Raises OidcRefused."""
    if answer.status != 200:
        raise _unusable(f"{what} answered {answer.status}{_error_code(answer.body)}")
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _unusable(f"{what}: the answer is malformed or incomplete") from None


def _error_code(body: bytes) -> str:
    """The code of an OAuth error such as `invalid_grant`, for the log."""
    try:
        code = msgspec.json.decode(body, type=_Error).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return f" {code}" if _ERROR.fullmatch(code) else ""


def _basic(client: Client) -> str:
    """The Authorization header (RFC 6749, 2.3.1: both parts are form-encoded first)."""
    login = f"{quote_plus(client.client_id)}:{quote_plus(client.secret)}"
    return f"Basic {base64.b64encode(login.encode()).decode()}"


def _unusable(detail: str) -> OidcRefused:
    return OidcRefused(Failure.PROVIDER, detail)
