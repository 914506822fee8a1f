"""What a batch of the call path is made of: charges that open calls, and ends that keep or refund them.

A call is *open*, then *kept* or *refunded*, exactly once; nothing else ever happens to it.
"""

from enum import IntEnum, StrEnum

from msgspec import Struct


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


class TaskStatus(IntEnum):
    """`tasks.status`, as the wire shows it. COMPLETED and FAILED are final."""

    QUEUED = 0
    PROCESSING = 1
    COMPLETED = 2
    FAILED = 3


class NewTask(Struct, frozen=True):
    """The speech job that is ordered with a charge. One that waits for a node (QUEUED) has the call's
    deadline; one that is worked on at once (PROCESSING) is nobody's lease."""

    text: str
    voice_id: str
    speed: float
    status: TaskStatus


class Reservation(Struct, frozen=True):
    """An `Idempotency-Key` and the SHA-256 of the path and the body it came with."""

    key: str
    fingerprint: bytes


TASK_MARK = "\x02"
"""Stands in a draft for the id of the task."""
AUDIO_MARK = "\x01"
"""Stands in a draft for the name of the audio. JSON holds no bare control character, so neither mark can be
part of an answer."""


class Charge(Struct, frozen=True):
    """Opens the call `call_id` and takes its units, if the key and the balance allow it.

    `scope` is what the endpoint asks for (else the key is refused), `pays` the rate that is charged (else
    the quota is). `config_version` is what the caller decided under: another one now refuses as STALE.

    `draft` is the answer to store under the reservation where a node will do the work: at once, if all it
    lacks is the task's id, else when the task completes.
    """

    call_id: bytes
    key_hash: bytes
    scope: int
    pays: int
    units: int
    deadline_ms: int
    config_version: int
    task: NewTask | None = None
    reservation: Reservation | None = None
    draft: str | None = None


class Audio(Struct, frozen=True):
    """A finished audio file: its name in the store, size and SHA-256."""

    name: str
    size_bytes: int
    sha256: bytes


class End(Struct, frozen=True):
    """Moves an open call to KEPT or REFUNDED, and its task with it.

    A keep may bring the `answer` to store under the call's reservation and the `audio` of its task; a refund
    drops the reservation.
    """

    call_id: bytes
    state: CallState
    answer: str | None = None
    audio: Audio | None = None
    reason: str = ""


class EndOutcome(StrEnum):
    """DONE: the call is in the wanted state (now or already). LOST: it ended otherwise, or isn't there."""

    DONE = "done"
    LOST = "lost"
    BUSY = "busy"


class Refusal(StrEnum):
    """Why nothing was charged."""

    KEY = "key"
    """unknown, revoked, expired, its account disabled, or without the endpoint's scope"""
    STALE = "stale"
    """the site's configuration changed since it was read: read it again and decide anew"""
    REUSED = "reused"
    """this Idempotency-Key came with another path or body before"""
    PENDING = "pending"
    """the first call under this Idempotency-Key is still open"""
    RATE = "rate"
    """the key lacks the scope whose rate is charged"""
    UNITS = "units"
    """the balance doesn't cover it"""
    BUSY = "busy"
    """somebody else holds the account's row: to be tried again"""


class Charged(Struct, frozen=True):
    """The call is open and paid. `task_id` is 0 where no task was ordered."""

    account_id: int
    task_id: int


class Refused(Struct, frozen=True):
    """Nothing was charged. `balance` is the account's where the units didn't suffice."""

    why: Refusal
    balance: int = 0


class Replayed(Struct, frozen=True):
    """Nothing was charged: this is the stored answer of the first call."""

    answer: str


ChargeOutcome = Charged | Refused | Replayed
