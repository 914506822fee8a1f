"""Every error that may reach a caller, drawn as a tree. No framework in here.

MynaError                     status  type                    when
├── InvalidRequest            400     invalid_request_error   the request can't be read or isn't allowed
│   ├── MethodNotAllowed      405     invalid_request_error
│   ├── BodyTooLarge          413     invalid_request_error
│   ├── BodyTooSlow           400     invalid_request_error
│   ├── RangeNotSatisfiable   416     invalid_request_error   the part of a file that is asked for isn't there
│   └── NodeTooOld            426     invalid_request_error   the compute node speaks another protocol
├── Unauthorized              401     authentication_error    the key does not open this door
│   └── NodeRefused           401     authentication_error    the compute node isn't let in
├── InsufficientUnits         402     insufficient_quota      the balance is below the price
├── SpeechNotInScope          402     insufficient_quota      speech by chat on a key without `tts`
├── NotFound                  404     not_found_error
├── Stale                     409     conflict_error          the job is not, or no longer, this node's
├── UpstreamFailed            500     upstream_error          every channel failed; the units are back
├── ServerFault               500     server_error            a fault of ours
│   ├── CallLost              500     server_error            the call was refunded before its answer was kept
│   └── CallGivenUp           500     server_error            the process ended first; the units are back
└── Unavailable               503     service_unavailable     nothing was charged; may be retried at once
    ├── NoSpeechChannel
    ├── Overloaded
    ├── ShuttingDown
    └── DatabaseAway

Outside the tree: AnswerUnknown, which ends a connection without an answer.
Outside requests: ConfigError, a wrong setting (exit 2), and CommandError, a command refused (exit 1).
"""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import ClassVar


class MynaError(Exception):
    """An answer that isn't a success. The message says what to change and carries no secret."""

    status: ClassVar[int] = HTTPStatus.INTERNAL_SERVER_ERROR
    type: ClassVar[str] = "server_error"
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(MynaError):
    """The caller must change the request; the message names the field."""

    status, type = HTTPStatus.BAD_REQUEST, "invalid_request_error"


class MethodNotAllowed(InvalidRequest):
    """The path exists; the method doesn't. `allow` goes into the Allow header."""

    status = HTTPStatus.METHOD_NOT_ALLOWED

    def __init__(self, method: str, allow: str) -> None:
        super().__init__(f"{method} isn't offered here; use {allow}.")
        self.headers = {"Allow": allow}


class BodyTooLarge(InvalidRequest):
    """The body is over `limit_bytes`; the connection is closed behind the answer."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"The body is over the limit of {limit_bytes} bytes; send a smaller one.")


class BodyTooSlow(InvalidRequest):
    """The body didn't arrive whole in time; the connection is closed behind the answer."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The body didn't arrive whole within {seconds:g} s; send it faster.")


class RangeNotSatisfiable(InvalidRequest):
    """The part that is asked for begins behind the end of the file, which has `size` bytes."""

    status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE

    def __init__(self, size: int) -> None:
        super().__init__(f"Range: the file has {size} bytes; ask for some of these, or for all of it.")
        self.headers = {"Content-Range": f"bytes */{size}"}


class NodeTooOld(InvalidRequest):
    """The compute node speaks another protocol than the site, whose number is `wanted`."""

    status = HTTPStatus.UPGRADE_REQUIRED

    def __init__(self, wanted: int) -> None:
        super().__init__(
            f"The node speaks another protocol than the site, which speaks {wanted}: install the same version"
            " of Myna on both."
        )
        self.headers = {"Upgrade": f"myna-farm/{wanted}", "Connection": "upgrade"}


class Unauthorized(MynaError):
    """The key doesn't open this door."""

    status, type = HTTPStatus.UNAUTHORIZED, "authentication_error"
    headers = MappingProxyType({"WWW-Authenticate": "Bearer"})


class NodeRefused(Unauthorized):
    """The compute node isn't let in: its token or credential opens nothing."""


class InsufficientUnits(MynaError):
    """The account has `balance` units; this call costs `units`."""

    status, type = HTTPStatus.PAYMENT_REQUIRED, "insufficient_quota"

    def __init__(self, balance: int, units: int) -> None:
        super().__init__(
            f"The account has {balance} units and this call costs {units}; ask the operator for more."
        )


class SpeechNotInScope(MynaError):
    """A chat instruction asked for speech; the key has no `tts` scope."""

    status, type = HTTPStatus.PAYMENT_REQUIRED, "insufficient_quota"

    def __init__(self) -> None:
        super().__init__(
            "The instruction asks for speech, and this key lacks the tts scope; use a key that has it."
        )


class NotFound(MynaError):
    """Nothing here for this caller."""

    status, type = HTTPStatus.NOT_FOUND, "not_found_error"


class Stale(MynaError):
    """The job is somebody else's by now, or over; what the node has of it is of no use."""

    status, type = HTTPStatus.CONFLICT, "conflict_error"

    def __init__(self) -> None:
        super().__init__("The node doesn't hold this job, or no longer does: drop what it has of it.")


class UpstreamFailed(MynaError):
    """Every channel failed; the units went back."""

    type = "upstream_error"


class ServerFault(MynaError):
    """A fault of ours; the log has it under the request's id."""


class CallLost(ServerFault):
    """The call's deadline passed and its units went back before the answer was kept."""

    def __init__(self) -> None:
        super().__init__("The call took longer than its deadline and was refunded; try again.")


class CallGivenUp(ServerFault):
    """The process ended before the call could; its units are back."""

    def __init__(self) -> None:
        super().__init__("The service is shutting down; the call was given up and its units are back.")


class Unavailable(MynaError):
    """Nothing was charged; the call may be retried at once."""

    status, type = HTTPStatus.SERVICE_UNAVAILABLE, "service_unavailable"
    headers = MappingProxyType({"Retry-After": "0"})


class NoSpeechChannel(Unavailable):
    """Neither a site channel nor a compute node can speak this now."""


class Overloaded(Unavailable):
    """More calls are waiting than the operator allows."""

    def __init__(self) -> None:
        super().__init__("The service has more calls waiting than it takes; nothing was charged, try again.")


class ShuttingDown(Unavailable):
    """The process takes no more calls."""

    def __init__(self) -> None:
        super().__init__("The service is shutting down; nothing was charged, try again.")


class DatabaseAway(Unavailable):
    """The database doesn't answer; nothing was started."""

    def __init__(self) -> None:
        super().__init__("The database is away; nothing was charged, try again.")


class AnswerUnknown(Exception):
    """Whether the call was kept isn't known, so neither success nor refund can be promised: no answer."""


class ConfigError(Exception):
    """A setting is wrong; one line says which, and the process ends with 2 before anything starts."""


class CommandError(Exception):
    """A command can't be carried out; one line on stderr says why, exit 1."""
