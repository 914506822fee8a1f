"""The site as a node sees it: one method for each request of the protocol.

SiteFailed         the site didn't do what it was asked; the message is a sentence without any secret
├── SiteAway       no answer, a 5xx or no answer of this protocol: the same again may go well
└── Refused        the site understood, and won't
    ├── Unfit          400: what was said can't be taken, nor could it the next time
    ├── NotAdmitted    401: the credential isn't good, now
    ├── Lost           409: the job is somebody else's or over
    └── TooOld         426: this program speaks a protocol that the site has left behind
"""

import hashlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from myna.outbound import Answer, AnswerTooLarge, Outbound, OutboundFailed
from myna.wire.farm import (
    JOB_HEADER,
    PREFIX,
    PROTOCOL,
    PROTOCOL_HEADER,
    SHA256_HEADER,
    Beats,
    BeatsHeard,
    Done,
    Failure,
    Held,
    Hello,
    Join,
    Joined,
    Lease,
    Leased,
    Reference,
    Welcome,
)

S = TypeVar("S", bound=msgspec.Struct)

ANSWER_WAIT_S: Final = 15.0
"""For an answer that needs no work; a long poll takes this much longer than it waits."""
ANSWER_MAX_BYTES: Final = 32 * 2**20
REFERENCE_MAX_BYTES: Final = 64 * 2**20
BODY_BYTES_PER_S: Final = 16_000
"""The slowest line that a body gets through on."""
MESSAGE_MAX_CHARS: Final = 300


class SiteFailed(Exception):
    """The site didn't do what it was asked."""


class SiteAway(SiteFailed):
    """The site gave no answer that means anything."""


class Refused(SiteFailed):
    """The site understood, and won't."""


class Unfit(Refused):
    """What the node said is none of what the site takes."""


class NotAdmitted(Refused):
    """The credential isn't good: the node is disabled or removed."""


class Lost(Refused):
    """The job is somebody else's, or over."""


class TooOld(Refused):
    """The site speaks a newer protocol only."""


_REFUSALS: Final[Mapping[int, type[Refused]]] = {
    HTTPStatus.BAD_REQUEST: Unfit,
    HTTPStatus.UNAUTHORIZED: NotAdmitted,
    HTTPStatus.CONFLICT: Lost,
    HTTPStatus.UPGRADE_REQUIRED: TooOld,
}
_PASSING: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


class _Fault(msgspec.Struct):
    message: str


class _Envelope(msgspec.Struct):
    error: _Fault


class Site:
    """The site at `url`, which has no slash at its end, for a node with this credential.

    Every method raises an error of the tree above.
    """

    def __init__(self, url: str, credential: str, outbound: Outbound) -> None:
        self.url = url
        self._outbound = outbound
        self._headers = _headers({"Authorization": f"Bearer {credential}"})

    async def hello(self, hello: Hello) -> Welcome:
        """What the node can do from now on."""
        return await self._post("hello", hello, Welcome)

    async def lease(self, lease: Lease) -> Leased:
        """Some jobs, as soon as there are any; none after `lease.wait_s`."""
        return await self._post("lease", lease, Leased, lease.wait_s + ANSWER_WAIT_S)

    async def beat(self, beats: Beats, within_s: float) -> BeatsHeard:
        """What is held and how far it is; waits `within_s` seconds for the answer."""
        return await self._post("beat", beats, BeatsHeard, within_s)

    async def reference(self, reference: Reference) -> bytes:
        """The wav to speak like, whole and as announced."""
        if not 0 < reference.size_bytes <= REFERENCE_MAX_BYTES:
            raise Refused(f"The site wants a reference of {reference.size_bytes} bytes to be heard.")
        path = f"reference?sha256={reference.sha256}"
        wait_s = ANSWER_WAIT_S + reference.size_bytes / BODY_BYTES_PER_S
        wav = await self._call("GET", path, None, {}, wait_s, reference.size_bytes)
        if hashlib.sha256(wav).hexdigest() != reference.sha256:
            raise Refused("The site sent another reference than it announced.")
        return wav

    async def complete(self, held: Held, audio: bytes, sha256: str) -> None:
        """The job's mp3. Saying it again does no harm."""
        headers = {
            "Content-Type": "audio/mpeg",
            JOB_HEADER: f"{held.kind} {held.id} {held.epoch} {held.token}",
            SHA256_HEADER: sha256,
        }
        wait_s = ANSWER_WAIT_S + len(audio) / BODY_BYTES_PER_S
        _decoded(await self._call("POST", "complete", audio, headers, wait_s, ANSWER_MAX_BYTES), Done)

    async def fail(self, failure: Failure) -> None:
        """The job can't be done here."""
        await self._post("fail", failure, Done)

    async def _post(
        self, path: str, body: msgspec.Struct, answer: type[S], wait_s: float = ANSWER_WAIT_S
    ) -> S:
        packed = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"}
        return _decoded(await self._call("POST", path, packed, headers, wait_s, ANSWER_MAX_BYTES), answer)

    async def _call(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        wait_s: float,
        max_bytes: int,
    ) -> bytes:
        return await _exchange(
            self._outbound,
            method,
            f"{self.url}{PREFIX}/{path}",
            body,
            self._headers | headers,
            wait_s,
            max_bytes,
        )


async def join(url: str, token: str, version: str, outbound: Outbound) -> Joined:
    """The credential that the operator's token is good for, once. Raises as the methods of Site do."""
    headers = _headers({"Content-Type": "application/json"})
    body = msgspec.json.encode(Join(token, version))
    path = f"{url}{PREFIX}/join"
    return _decoded(
        await _exchange(outbound, "POST", path, body, headers, ANSWER_WAIT_S, ANSWER_MAX_BYTES), Joined
    )


def _headers(more: Mapping[str, str]) -> dict[str, str]:
    return {PROTOCOL_HEADER: str(PROTOCOL), **more}


async def _exchange(
    outbound: Outbound,
    method: str,
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    wait_s: float,
    max_bytes: int,
) -> bytes:
    try:
        answer = await outbound.request(
            method, url, headers=headers, body=body, deadline_s=wait_s, answer_max_bytes=max_bytes
        )
    except AnswerTooLarge as failure:
        raise Refused(str(failure)) from failure
    except OutboundFailed as failure:
        raise SiteAway(str(failure)) from failure
    if answer.status == HTTPStatus.OK:
        return answer.body
    raise _refusal(answer)


def _refusal(answer: Answer) -> SiteFailed:
    said = _sentence(answer)
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status in _PASSING:
        return SiteAway(said)
    return _REFUSALS.get(answer.status, Refused)(said)


def _sentence(answer: Answer) -> str:
    """What the site says of a refusal; where that is no envelope, it's another server that answers."""
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        elsewhere = answer.headers.get("location", "somewhere else")[:MESSAGE_MAX_CHARS]
        return f"The address leads on to {elsewhere}; a node wants the site's own."
    try:
        return msgspec.json.decode(answer.body, type=_Envelope).error.message[:MESSAGE_MAX_CHARS]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"The site answered {answer.status}, and not as a Myna service does."


def _decoded(body: bytes, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise SiteAway("The site's answer is none of this protocol.") from None
