"""The client of /farm/v1: one method for each request of the protocol.

ServerFailed               a request failed; the message is a sentence without secrets
├── ServerUnavailable      no answer, a 5xx or an answer of another protocol: a retry may succeed
└── RequestRefused         a 4xx or a redirect: a retry would fail as well
    ├── ReportRefused      400: the service does not accept the values sent
    ├── CredentialRefused  401: the credential is not valid now
    ├── LeaseLost          409: the job has ended or is leased to another node
    └── ProtocolTooOld     426: the service requires a newer protocol

Also the node's credentials, retries with exponential backoff and jitter, and a log line for each outage
instead of each failure.
"""

import hashlib
import logging
import random
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from myna.errors import CommandError
from myna.http.client import AnswerTooLarge, ClientResponse, HttpClient, RequestFailed
from myna.lib.files import write_atomically
from myna.lib.net import is_base_url, is_loopback
from myna.wire.farm import (
    JOB_HEADER,
    PREFIX,
    PROTOCOL,
    PROTOCOL_HEADER,
    SHA256_HEADER,
    Done,
    Failure,
    Heartbeats,
    HeartbeatsAnswer,
    Hello,
    JobReference,
    Join,
    Joined,
    Lease,
    Leased,
    LeaseProof,
    Welcome,
)

S = TypeVar("S", bound=msgspec.Struct)

ANSWER_WAIT_S: Final = 15.0
"""Timeout of a request. For a long poll it is added to the time that the poll waits."""
ANSWER_MAX_BYTES: Final = 32 * 2**20
REFERENCE_MAX_BYTES: Final = 64 * 2**20
BODY_BYTES_PER_S: Final = 16_000
"""The slowest connection that can transfer a body in time."""
MESSAGE_MAX_CHARS: Final = 300
_RETRYABLE: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
RETRY_FIRST_S: Final = 0.5
RETRY_MAX_S: Final = 15.0
log = logging.getLogger(__name__)


class ServerFailed(Exception):
    """A request failed."""


class ServerUnavailable(ServerFailed):
    """No answer, a 5xx or an answer of another protocol."""


class RequestRefused(ServerFailed):
    """The service refused the request."""


class ReportRefused(RequestRefused):
    """The service does not accept the values sent."""


class CredentialRefused(RequestRefused):
    """The credential is not valid: the node is disabled or removed."""


class LeaseLost(RequestRefused):
    """The job has ended or is leased to another node."""


class ProtocolTooOld(RequestRefused):
    """The service requires a newer protocol."""


_REFUSALS: Final[Mapping[int, type[RequestRefused]]] = {
    HTTPStatus.BAD_REQUEST: ReportRefused,
    HTTPStatus.UNAUTHORIZED: CredentialRefused,
    HTTPStatus.CONFLICT: LeaseLost,
    HTTPStatus.UPGRADE_REQUIRED: ProtocolTooOld,
}


class Credentials(msgspec.Struct, frozen=True):
    """The service's address, the node's name there, and its credential, in one file of the data folder. Only
    the owner can read the file: the command sets the process's umask."""

    url: str
    name: str
    credential: str

    @staticmethod
    def path(folder: Path) -> Path:
        """Where they are stored."""
        return folder / "node.json"

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The credentials in the folder. Raises CommandError."""
        path = cls.path(folder)
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            raise CommandError(f"There is no {path}: run 'myna node join URL TOKEN' first.") from None
        except OSError as error:
            raise CommandError(f"{path} can't be read: {error.strerror}.") from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise CommandError(f"{path} isn't whole: join again, with --again and a new token.") from None

    def store(self, folder: Path) -> None:
        """Writes the file atomically. Raises OSError."""
        content = msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"
        write_atomically(self.path(folder), content)


def site_url(given: str) -> str:
    """The service's address without a trailing slash. Raises CommandError if it is not valid."""
    url = given.rstrip("/")
    if not is_base_url(url) or "@" in url or urlsplit(url).path:
        raise CommandError(
            "URL must be the service's own address, with a port or without, and no path: https://HOST."
        )
    return url


def is_unencrypted(url: str) -> bool:
    """Whether requests to this address cross a network without TLS."""
    return urlsplit(url).scheme == "http" and not is_loopback(url)


class _ErrorBody(msgspec.Struct):
    message: str


class _Envelope(msgspec.Struct):
    error: _ErrorBody


class ServerClient:
    """The service at `url`, without a trailing slash, for the node with this credential; "" before it has
    joined.

    Each method raises ServerFailed.
    """

    def __init__(self, url: str, credential: str, http_client: HttpClient) -> None:
        self.url = url
        self._http_client = http_client
        self._headers = {PROTOCOL_HEADER: str(PROTOCOL)}
        if credential:
            self._headers["Authorization"] = f"Bearer {credential}"

    async def join(self, token: str, version: str) -> Joined:
        """Exchanges a join token for a credential."""
        return await self._post("join", Join(token, version), Joined)

    async def hello(self, hello: Hello) -> Welcome:
        """Reports the capabilities of the node."""
        return await self._post("hello", hello, Welcome)

    async def lease(self, lease: Lease) -> Leased:
        """Leases jobs, as soon as there are any; none after `lease.wait_s` seconds."""
        return await self._post("lease", lease, Leased, lease.wait_s + ANSWER_WAIT_S)

    async def beat(self, beats: Heartbeats, within_s: float) -> HeartbeatsAnswer:
        """Extends the leases. Waits `within_s` seconds for the answer."""
        return await self._post("beat", beats, HeartbeatsAnswer, within_s)

    async def reference(self, reference: JobReference) -> bytes:
        """Fetches the wav of a cloned voice. Checks its size and its SHA-256."""
        if not 0 < reference.size_bytes <= REFERENCE_MAX_BYTES:
            raise RequestRefused(
                f"The service's reference has an invalid size: {reference.size_bytes} bytes."
            )
        path = f"reference?sha256={reference.sha256}"
        wait_s = ANSWER_WAIT_S + reference.size_bytes / BODY_BYTES_PER_S
        wav = await self._call("GET", path, None, {}, wait_s, reference.size_bytes)
        if hashlib.sha256(wav).hexdigest() != reference.sha256:
            raise RequestRefused("The SHA-256 of the service's reference is wrong.")
        return wav

    async def complete(self, lease: LeaseProof, audio: bytes, sha256: str) -> None:
        """Uploads the job's mp3. Idempotent."""
        headers = {
            "Content-Type": "audio/mpeg",
            JOB_HEADER: lease.header,
            SHA256_HEADER: sha256,
        }
        wait_s = ANSWER_WAIT_S + len(audio) / BODY_BYTES_PER_S
        _decoded(await self._call("POST", "complete", audio, headers, wait_s, ANSWER_MAX_BYTES), Done)

    async def fail(self, failure: Failure) -> None:
        """Reports that the job failed."""
        await self._post("fail", failure, Done)

    async def _post(
        self, path: str, body: msgspec.Struct, answer: type[S], wait_s: float = ANSWER_WAIT_S
    ) -> S:
        content = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"}
        return _decoded(await self._call("POST", path, content, headers, wait_s, ANSWER_MAX_BYTES), answer)

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        wait_s: float,
        max_bytes: int,
    ) -> bytes:
        try:
            answer = await self._http_client.request(
                method,
                f"{self.url}{PREFIX}/{path}",
                headers=self._headers | headers,
                body=body,
                deadline_s=wait_s,
                answer_max_bytes=max_bytes,
            )
        except AnswerTooLarge as failure:
            raise RequestRefused(str(failure)) from failure
        except RequestFailed as failure:
            raise ServerUnavailable(str(failure)) from failure
        if answer.status == HTTPStatus.OK:
            return answer.body
        raise _refusal(answer)


def _refusal(answer: ClientResponse) -> ServerFailed:
    message = _message(answer)
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status in _RETRYABLE:
        return ServerUnavailable(message)
    return _REFUSALS.get(answer.status, RequestRefused)(message)


def _message(answer: ClientResponse) -> str:
    """The message of an error answer. Without the envelope, another server than a Myna service answered."""
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        location = answer.headers.get("location", "another address")[:MESSAGE_MAX_CHARS]
        return f"The address redirects to {location}; use the service's own address."
    try:
        return msgspec.json.decode(answer.body, type=_Envelope).error.message[:MESSAGE_MAX_CHARS]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"The server answered {answer.status}, and not as a Myna service does."


def _decoded(body: bytes, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ServerUnavailable("The service's answer does not follow this protocol.") from None


class OutageLog:
    """Logs the outages of the service. An outage lasts while any Backoff fails."""

    def __init__(self) -> None:
        self._failing: set[Backoff] = set()
        self._logged: set[type[ServerFailed]] = set()
        self._since = 0.0

    def failed(self, backoff: "Backoff", error: ServerFailed) -> None:
        """Logs the first error of each class in an outage."""
        if not self._failing:
            self._since = time.monotonic()
        self._failing.add(backoff)
        if type(error) not in self._logged:
            log.warning("the service: %s Trying again.", error)
            self._logged.add(type(error))

    def ended(self, backoff: "Backoff", *, succeeded: bool) -> None:
        """The Backoff succeeded, or its caller stopped trying."""
        if backoff not in self._failing:
            return
        self._failing.remove(backoff)
        if self._failing:
            return
        self._logged.clear()
        if succeeded:
            log.info("the service: it answers again, after %.1f s", time.monotonic() - self._since)


class Backoff:
    """The pauses between the tries of one operation. They double up to RETRY_MAX_S."""

    def __init__(self, outages: OutageLog) -> None:
        self._outages = outages
        self._pause_s = RETRY_FIRST_S

    def failed(self, error: ServerFailed, pause_s: float | None = None) -> float:
        """The seconds to wait before the next try: 50 to 100 % of the pause, so that nodes do not retry at
        the same moment. `pause_s` replaces the pause."""
        self._outages.failed(self, error)
        max_pause_s = pause_s or self._pause_s
        self._pause_s = min(2 * self._pause_s, RETRY_MAX_S)
        return max_pause_s * random.uniform(0.5, 1.0)  # noqa: S311  no secret

    def succeeded(self) -> None:
        """Resets the pause."""
        self._pause_s = RETRY_FIRST_S
        self._outages.ended(self, succeeded=True)

    def stopped(self) -> None:
        """The operation is not tried any more, or has succeeded."""
        self._outages.ended(self, succeeded=False)
