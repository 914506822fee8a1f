"""Runs a use case of the API for an account holder, who pays as for a call of the API.

The charge, its refund and the limits are those of the API. The form of a page sends a random `once`, which is
the idempotency key of the run: a form that is sent again gets the stored answer, and costs nothing.
"""

import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from myna.accounts import keys
from myna.accounts.keys import Scope, UnverifiedCaller
from myna.errors import CommitInDoubt, MynaError
from myna.lib.telemetry import logs
from myna.lib.telemetry.requests import RequestDetails
from myna.office.messages import N_
from myna.office.visit import Visit
from myna.office.web_security import security_headers
from myna.store.batch import IdempotencyKey
from myna.store.queries import accounts

ONCE_MAX_CHARS = 64
CHARGED_ONCE = "its `once` is the idempotency key of the call"
CALL_HEADER = "X-Myna-Call"
IN_DOUBT = N_(
    "Whether this call was charged is not known yet. Its page says so within a minute, and a call that failed"
    " is refunded."
)

Disconnected = Callable[[], Awaitable[None]]
Work = Callable[[UnverifiedCaller, Disconnected], Awaitable[str | bytes]]
"""Answers as the API does: returns JSON, raises MynaError."""


class Run(Struct, frozen=True, kw_only=True):
    """How a run ended. `answer` is the JSON of the API, or `error` its message. `call_id` is in hex, "" if no
    call was charged; it is the first call's if the answer is `stored`. `units` were charged and not refunded,
    `balance` is the account's afterwards. `waited_ms` is how long the visitor waited for the answer, and
    `first_ms` for its first part, 0 if it came whole. `stopped`: the visitor ended it."""

    answer: bytes = b""
    error: str = ""
    status: int = 200
    in_doubt: bool = False
    stored: bool = False
    call_id: str
    units: int
    balance: int
    waited_ms: float
    first_ms: float = 0.0
    stopped: bool = False
    request_id: str

    @property
    def refunded(self) -> bool:
        """Whether a call was charged and its units were returned."""
        return bool(self.error and self.call_id and not self.units and not self.in_doubt)


def stream_headers(https: bool, details: RequestDetails) -> dict[str, str]:
    """The headers of a streamed response: the security headers of a page, and the call's id in hex."""
    return {**security_headers(https), CALL_HEADER: details.call_id.hex()}


def new_once() -> str:
    """A random value for a form."""
    return secrets.token_hex(16)


async def run(visit: Visit, scope: Scope, once: str, body: bytes, work: Work) -> Run:
    """Does the work in the account's name. `body` is the request as the API would get it."""
    key_hash = await keys.try_hash(visit.db, visit.account.id)
    idempotency_key = None
    if once:
        name = hashlib.sha256(b"office\0" + once[:ONCE_MAX_CHARS].encode()).hexdigest()
        fingerprint = hashlib.sha256(visit.request.url.path.encode() + b"\0" + body).digest()
        idempotency_key = IdempotencyKey(name, fingerprint)
    started = time.perf_counter()
    answer, error, status, in_doubt = b"", "", 200, False
    details = visit.details
    try:
        caller = UnverifiedCaller(key_hash, scope, idempotency_key, details=details)
        result = await work(caller, visit.disconnected)
        answer = result.encode() if isinstance(result, str) else result
    except MynaError as failure:
        error, status = visit.said(failure), int(failure.status)
        details.failed(failure)
    except CommitInDoubt:
        error, status, in_doubt = visit.text(IN_DOUBT), 500, True
        details.error_type = "commit_in_doubt"
    waited_ms = (time.perf_counter() - started) * 1000
    account = await accounts.by_id(visit.db, visit.account.id)
    return Run(
        answer=answer,
        error=error,
        status=status,
        in_doubt=in_doubt,
        stored=bool(details.replay_of),
        call_id=details.replay_of or details.call_id.hex(),
        units=details.units,
        balance=account.balance if account else 0,
        waited_ms=waited_ms,
        request_id=logs.request_id.get(),
    )
