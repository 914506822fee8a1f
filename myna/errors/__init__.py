"""The errors that may reach a client.

MynaError                    status  type                    when
├── InvalidRequest           400     invalid_request_error   the request can't be read or isn't allowed
│   ├── ClientDisconnected   400     invalid_request_error   before its answer; nobody gets this
│   ├── MethodNotAllowed     405     invalid_request_error
│   ├── BodyTooLarge         413     invalid_request_error
│   ├── UnsupportedEncoding  415     invalid_request_error
│   ├── BodyTooSlow          400     invalid_request_error
│   ├── RangeNotSatisfiable  416     invalid_request_error   the requested range is outside the file
│   └── NodeTooOld           426     invalid_request_error   the compute node speaks another protocol
├── Unauthorized             401     authentication_error    the key is not valid for this request
│   ├── ScopeMissing         401     authentication_error    the key lacks the scope; 403 below /openai/v1
│   └── NodeRefused          401     authentication_error    the node's token or credential is not valid
├── InsufficientQuota        402     insufficient_quota      balance, cap, storage, or chat lacks `tts`
├── Forbidden                403     permission_error        a form that no page of the site sent
├── NotFound                 404     not_found_error
│   └── ModelNotFound        404     not_found_error         no route has this name, or the key may not use it
├── StaleLease               409     conflict_error          the job is not, or no longer, this node's
├── RateLimited              429     rate_limit_error        a limit of the key, the account or the address
├── UpstreamFailed           500     upstream_error          every channel failed; the units are refunded
│   ├── RequestRefused       500     upstream_error          the channels refused the request itself
│   ├── StreamFailed         500     upstream_error          an event: a channel broke its stream
│   └── StreamUnread         500     upstream_error          an event: the client read its stream too slowly
├── InternalError            500     server_error            an unhandled exception
│   ├── CallRefunded         500     server_error            the call was refunded before its answer was kept
│   └── CallAbandoned        500     server_error            the process ended first; nothing is charged
└── Unavailable              503     service_unavailable     nothing was charged; may be retried
    ├── NoSpeechChannel
    ├── DiskFull
    ├── Overloaded
    ├── TextTooLong
    ├── TooManyBodies
    ├── ShuttingDown
    ├── DatabaseUnavailable
    └── StorageUnavailable

Outside the tree: CommitInDoubt, which closes the connection without a response. docs/accounting.md says why
each sentence about units is true when it is sent.
Outside requests: ConfigError, a wrong setting (exit 2), and CommandError, a command refused (exit 1).
"""

import math
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, ClassVar

from myna.errors import sentences
from myna.errors.sentences import SentenceError

MODEL_SHOWN_CHARS = 100
NO_RETRY = MappingProxyType({"x-should-retry": "false"})  # OpenAI's SDKs obey it


class MynaError(SentenceError):
    """An error response. The message says what to change and contains no secret; `default` is the sentence of
    a class that is raised without one. Below /openai/v1, `code` is OpenAI's word for it, `field` is the
    `param`, and `openai_status` and `openai_type` precede others."""

    default: ClassVar[str] = ""
    status: ClassVar[int] = HTTPStatus.INTERNAL_SERVER_ERROR
    type: ClassVar[str] = "server_error"
    openai_status: int = 0
    openai_type: str = ""
    code: str | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    closes: ClassVar[bool] = False
    """Whether the connection is closed after the response, since the body was not read."""

    def __init__(self, sentence: str = "", field: str = "", **values: Any) -> None:
        super().__init__(sentence or self.default, field, **values)


class InvalidRequest(MynaError):
    """The caller must change the request; the message begins with the field, if one is wrong. `wrong` is what
    follows it."""

    status, type = HTTPStatus.BAD_REQUEST, "invalid_request_error"

    def __init__(self, sentence: str, *, field: str = "", **values: Any) -> None:
        self.wrong, whole = sentence, f"{field}: {sentence}" if field else sentence
        super().__init__(whole, field=field, **values)


class ClientDisconnected(InvalidRequest):
    """The client disconnected before a part of its answer was sent. Only the access log shows it."""

    def __init__(self) -> None:
        super().__init__("The client disconnected before its answer; the units were refunded.")


class MethodNotAllowed(InvalidRequest):
    """The path has no such method. `allow` is the value of the Allow header."""

    status = HTTPStatus.METHOD_NOT_ALLOWED

    def __init__(self, method: str, allow: str) -> None:
        super().__init__("{method} isn't offered here; use {allow}.", method=method, allow=allow)
        self.headers = {"Allow": allow}


class BodyTooLarge(InvalidRequest):
    """The body is over `limit_bytes`."""

    closes = True
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(sentences.TOO_LARGE, limit_bytes=limit_bytes)


class UnsupportedEncoding(InvalidRequest):
    """The body is compressed."""

    closes = True
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE

    def __init__(self, encoding: str) -> None:
        super().__init__(sentences.COMPRESSED, field="Content-Encoding", encoding=encoding[:40])


class BodyTooSlow(InvalidRequest):
    """The body didn't arrive completely in time."""

    closes = True

    def __init__(self, seconds: float) -> None:
        super().__init__(sentences.TOO_SLOW, seconds=seconds)


class RangeNotSatisfiable(InvalidRequest):
    """The requested range begins after the end of the file, which has `size` bytes."""

    status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE

    def __init__(self, size: int) -> None:
        super().__init__(
            "the file has {size} bytes; ask for some of these, or for all of it.", field="Range", size=size
        )
        self.headers = {"Content-Range": f"bytes */{size}"}


class NodeTooOld(InvalidRequest):
    """The compute node speaks another protocol than the site, whose number is `wanted`."""

    status = HTTPStatus.UPGRADE_REQUIRED

    def __init__(self, wanted: int) -> None:
        super().__init__(sentences.NODE_TOO_OLD, wanted=wanted)
        self.headers = {"Upgrade": f"myna-farm/{wanted}", "Connection": "upgrade"}


class Unauthorized(MynaError):
    """The key is not valid for this request."""

    status, type = HTTPStatus.UNAUTHORIZED, "authentication_error"
    code = "invalid_api_key"
    headers = MappingProxyType({"WWW-Authenticate": "Bearer"})


class ScopeMissing(Unauthorized):
    """The key lacks the scope of the endpoint."""

    openai_status = HTTPStatus.FORBIDDEN
    code = "missing_scope"


class NodeRefused(Unauthorized):
    """The token or credential of the compute node is not valid."""


class InsufficientQuota(MynaError):
    """The account's balance, the key's cap, the account's storage or the key's scope does not cover this."""

    status, type, code = HTTPStatus.PAYMENT_REQUIRED, "insufficient_quota", "insufficient_quota"


class Forbidden(MynaError):
    """The back office does not accept this form."""

    status, type = HTTPStatus.FORBIDDEN, "permission_error"


class NotFound(MynaError):
    """There is no such object for this caller."""

    status, type = HTTPStatus.NOT_FOUND, "not_found_error"
    code = "not_found"


class ModelNotFound(NotFound):
    """No route for this use has the name `model`, or the key is limited to others, or `why`. That is told to
    keys alone that may use the `route`, if there is one."""

    code = "model_not_found"

    def __init__(self, model: str, why: str = "", route: str = "") -> None:
        named = {"model": model[:MODEL_SHOWN_CHARS]} if route or not why else {}
        super().__init__(sentences.NO_MODEL if named else why, **named)
        self.model, self.why, self.route = model, why, route


class StaleLease(MynaError):
    """The node's lease of the job has expired, or the job has ended. The node discards its work."""

    status, type = HTTPStatus.CONFLICT, "conflict_error"

    default = "The node doesn't have the lease of this job, or no longer has it: discard the job."


class RateLimited(MynaError):
    """A limit is reached; nothing was charged. `headers` say when to try again."""

    status, type = HTTPStatus.TOO_MANY_REQUESTS, "rate_limit_error"
    code = "rate_limit_exceeded"

    def __init__(self, sentence: str, headers: Mapping[str, str], **values: Any) -> None:
        super().__init__(sentence, **values)
        self.headers = MappingProxyType(dict(headers))


class UpstreamFailed(MynaError):
    """Every channel failed; the units were refunded. /v1 knows the status 500 alone for that."""

    type = "upstream_error"


class RequestRefused(UpstreamFailed):
    """The channels refused the request itself."""


class StreamFailed(UpstreamFailed):
    """The channel ended its stream before the answer was complete. `kept`: the units were kept, by the site
    setting `broken_stream`."""

    def __init__(self, why: str, *, kept: bool) -> None:
        super().__init__(
            "The answer is incomplete: {why}. The call was charged."
            if kept
            else "The answer is incomplete: {why}. The call was refunded.",
            why=why,
        )


class StreamUnread(UpstreamFailed):
    """The deadline of a stream passed while its client did not read it."""

    default = "The answer is incomplete: it was not read in time. The call was charged."


class InternalError(MynaError):
    """An internal error. The log has its cause under the request id."""


class CallRefunded(InternalError):
    """The call's deadline passed and its units were refunded before the answer was kept."""

    default = "The call took longer than its deadline and was refunded; try again."


class CallAbandoned(InternalError):
    """The process stopped before the call completed. The call was not charged, or was refunded."""

    default = "The service is shutting down; the call was given up and nothing is charged for it."


class Unavailable(MynaError):
    """Nothing was charged. The call may be retried at once, or after `retry_after_s` seconds if given, which
    Retry-After rounds up to at least 1."""

    status, type = HTTPStatus.SERVICE_UNAVAILABLE, "service_unavailable"
    headers = MappingProxyType({"Retry-After": "0"})

    def __init__(self, sentence: str = "", retry_after_s: float | None = None, **values: Any) -> None:
        super().__init__(sentence, **values)
        if retry_after_s is not None:
            self.headers = MappingProxyType({"Retry-After": str(max(1, math.ceil(retry_after_s)))})


class NoSpeechChannel(Unavailable):
    """No channel and no online compute node can speak the request."""


class DiskFull(Unavailable):
    """The disk has less free space than the reserve. Old audio is removed once a minute."""

    default = "The disk has no space for new audio; nothing was charged, try again later."
    headers = MappingProxyType({"Retry-After": "60"})


class Overloaded(Unavailable):
    """More calls are waiting than the operator allows."""

    default = "The service is overloaded; nothing was charged, try again."


class TextTooLong(Unavailable):
    """The text takes longer to speak than a call may take. A retry is refused too."""

    headers = NO_RETRY


class TooManyBodies(Unavailable):
    """The budget for request bodies is used up."""

    closes = True

    default = "The memory for request bodies is used up; nothing was charged, try again."


class ShuttingDown(Unavailable):
    """The process is shutting down."""

    closes = True

    default = "The service is shutting down; nothing was charged, try again."


class DatabaseUnavailable(Unavailable):
    """The database doesn't answer; nothing was started."""

    default = "The database is unavailable; nothing was charged, try again."


class StorageUnavailable(Unavailable):
    """The bucket of audio and samples doesn't answer, or refuses; the log says why."""

    default = "The storage of audio is unavailable; nothing was charged, try again."


class CommitInDoubt(Exception):
    """Whether the call was charged is unknown, so no response is sent.

    Raised if the outcome of a charge or a keep is in doubt, if a refund is late, and if a call that should be
    refunded was kept.
    """


class ConfigError(Exception):
    """A setting is invalid. The process prints the message and exits with 2 before anything starts."""


class CommandError(SentenceError):
    """A command failed. The process prints the message on stderr and exits with 1."""
