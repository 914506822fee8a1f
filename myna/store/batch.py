"""The operations of a batch: charges, which open calls, and ends, which keep or refund them.

A call is *open*, then *kept* or *refunded*, exactly once. It has no other states.
"""

from enum import IntEnum, StrEnum

from msgspec import Struct

IDEMPOTENCY_KEY_LIFE_MS = 24 * 3600 * 1000
"""An idempotency key is kept for a day."""
STORED_ANSWER_MAX_BYTES = 128 * 1024
"""A larger answer is not stored for retries. The longest answers of language models are smaller."""
REPORT_QUERY_MAX_MS = 200
"""How long a query of a report may take. It shares the disk and the cores with the calls."""
MINUTE_MS = 60_000
DAY_MS = 86_400_000
"""The windows of the limits of keys and accounts. The same numbers are in `routines.postgresql.sql`."""


class CallState(IntEnum):
    """`calls.state`."""

    OPEN = 0
    KEPT = 1
    REFUNDED = 2


class EntryKind(IntEnum):
    """`ledger.kind`. Each call has at most one entry of a kind."""

    CHARGE = 0
    REFUND = 1
    GRANT = 2
    REDEEM = 3
    """the units of a code"""


class TaskStatus(IntEnum):
    """`tasks.status`, as the API shows it. COMPLETED and FAILED are final. See `states.py`."""

    QUEUED = 0
    PROCESSING = 1
    COMPLETED = 2
    FAILED = 3


class NewTask(Struct, frozen=True):
    """The speech task that a charge creates: QUEUED waits for a node and has the call's deadline; PROCESSING
    is done by the site at once, without a lease. Without `language` the text is in the voice's."""

    text: str
    voice_id: str
    speed: float
    status: TaskStatus
    language: str = ""


class IdempotencyKey(Struct, frozen=True):
    """An `Idempotency-Key` and the SHA-256 of its request's path and body."""

    key: str
    fingerprint: bytes


TASK_PLACEHOLDER = "\x02"
"""The placeholder in a draft for the task's id."""
AUDIO_PLACEHOLDER = "\x01"
"""The placeholder in a draft for the name of the audio. JSON has no bare control characters, so no answer
contains either placeholder."""
NOT_STORED = ""
"""Stored instead of an answer that is too large. No answer is empty."""


def to_store(answer: str) -> str:
    """The answer, or NOT_STORED if it is too large."""
    return answer if len(answer.encode()) <= STORED_ANSWER_MAX_BYTES else NOT_STORED


class Limits(Struct, frozen=True):
    """The limits of a key or an account, 0 for none: calls in a minute, open calls, units in a day."""

    rpm: int = 0
    concurrent: int = 0
    units_per_day: int = 0


NO_LIMITS = Limits()


class DefaultLimits(Struct, frozen=True):
    """The limits of the site, for keys and for accounts that have none set."""

    key: Limits = NO_LIMITS
    account: Limits = NO_LIMITS


class Charge(Struct, frozen=True):
    """Opens the call `call_id` and charges its units, if the key and the balance allow it.

    `scope` is the endpoint's scope (without it the refusal is KEY), `pays` the scope whose rate is charged
    (without it the refusal is RATE). `config_version` is the configuration that the caller used; the refusal
    is STALE if it has changed since.

    `draft` is the answer to store for the idempotency key when a node does the work: stored at once if only
    the task's id is missing, else when the task completes. `request_id` is the HTTP request's id. `route` is
    the name of the model's route, which the key must be allowed to use. `default_limits` are those of the
    configuration, None without any.
    """

    call_id: bytes
    key_hash: bytes
    scope: int
    pays: int
    units: int
    deadline_ms: int
    config_version: int
    task: NewTask | None = None
    idempotency_key: IdempotencyKey | None = None
    draft: str | None = None
    request_id: str = ""
    route: str = ""
    default_limits: DefaultLimits | None = None


class Audio(Struct, frozen=True):
    """A finished audio file: its name in the store, size and SHA-256."""

    name: str
    size_bytes: int
    sha256: bytes


class End(Struct, frozen=True):
    """Moves an open call to KEPT or REFUNDED, and its task with it.

    A keep may have the `answer` to store for the call's idempotency key, see `to_store`, and the `audio` of
    its task; a refund deletes the idempotency key. `reason` is why the call is refunded, or why the answer of
    a kept one is incomplete; empty for a complete answer. `channel` is the upstream channel that answered or
    was tried last, and `usage` what is known of its answer: see `RequestDetails.usage`.
    """

    call_id: bytes
    state: CallState
    answer: str | None = None
    audio: Audio | None = None
    reason: str = ""
    channel: str = ""
    usage: str = ""


class EndOutcome(StrEnum):
    """DONE: the call has the state, now or before. LOST: it ended otherwise or does not exist. BUSY:
    locked."""

    DONE = "done"
    LOST = "lost"
    BUSY = "busy"


class RefusalReason(StrEnum):
    """Why nothing was charged."""

    KEY = "key"
    """unknown, revoked, expired, its account disabled, or without the endpoint's scope"""
    STALE = "stale"
    """the configuration has changed: reload it and decide again"""
    REUSED = "reused"
    """this idempotency key was used with another path or body"""
    ROUTE = "route"
    """the key is limited to other routes"""
    PENDING = "pending"
    """the first call of this idempotency key is still open"""
    RATE = "rate"
    """the key lacks the scope whose rate is charged"""
    UNITS = "units"
    """the balance doesn't cover it"""
    CAP = "cap"
    """the key's cap doesn't cover it in the present period"""
    PERIOD = "period"
    """the period of the key's cap is over: renew the cap and decide again"""
    RPM = "rpm"
    """the key or the account has made the calls of the present minute"""
    CONCURRENT = "concurrent"
    """the key or the account has as many open calls as it may"""
    UNITS_PER_DAY = "units_per_day"
    """the units that the key or the account may use in a day don't cover it"""
    BUSY = "busy"
    """another session has locked the account: retry"""


class Rate(Struct, frozen=True):
    """A limit of calls in a minute: how many of them are left, and how long until all are, in ms."""

    limit: int
    remaining: int
    reset_ms: int


class LimitReached(Struct, frozen=True):
    """The limit that refused a charge: of the key or else of the account; what is used of it; and how long
    until it is not used any more, in ms, 0 if that depends on open calls."""

    of_key: bool
    limit: int
    used: int
    reset_ms: int


class Charged(Struct, frozen=True):
    """The call is open and charged. `task_id` is 0 without a task. `balance` is the account's after this
    charge, or the present one if the charge had been committed before. `rate` is the limit of calls in a
    minute of which the least is left, None without one."""

    account_id: int
    key_id: int
    balance: int
    task_id: int
    rate: Rate | None = None


class ChargeRefused(Struct, frozen=True):
    """Nothing was charged. `balance` is the account's if the reason is UNITS, `limit` what was reached if the
    reason is RPM, CONCURRENT or UNITS_PER_DAY."""

    why: RefusalReason
    balance: int = 0
    limit: LimitReached | None = None


class Replayed(Struct, frozen=True):
    """Nothing was charged: `answer` is the stored answer of the first call, or NOT_STORED."""

    answer: str


ChargeOutcome = Charged | ChargeRefused | Replayed
