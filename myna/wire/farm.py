"""The protocol between compute nodes and the service: JSON under `/farm/v1`, audio as plain bodies.

Each request has the header `Myna-Farm: 1`, the version of the protocol. Each request but a join has
`Authorization: Bearer` with the node's credential. Errors have the envelope of /v1. Times are durations in
seconds, so the clocks of two machines are never compared.

Both sides refuse fields that they don't know. Whoever adds one raises PROTOCOL, and older nodes are refused
by a sentence that says so; or it is left out for nodes of a version without it, as `language` of a job is.

    join        a join token                           -> the node's credential
    hello       the node's capabilities                -> the intervals of leases, heartbeats and polls
    lease       the number of free slots               -> jobs, as soon as there are any (long poll)
    beat        the leases and the progress of jobs    -> the leases that have ended
    reference   GET …/reference?sha256=SHA256          -> the wav of a leased job
    complete    POST …/complete, the mp3 as the body   -> 200, or 409: the lease has ended
    fail        the reason                             -> 200, or 409
"""

import re
from typing import Annotated, Literal, Self

from msgspec import Meta, Struct, field

PROTOCOL = 1
PROTOCOL_HEADER = "myna-farm"
PREFIX = "/farm/v1"

POLL_MAX_S = 25.0
"""The longest time that a long poll waits for a job."""
TRIES_MAX = 3
SLOTS_MAX = 64
VOICES_MAX = 500
AUDIO_MAX_BYTES = 64 * 2**20

JobKind = Literal["task", "clone"]
"""A `task` speaks the text of a call; a `clone` speaks the preview of a cloned voice."""
LeaseKey = tuple[JobKind, int, int]
"""Kind, id and epoch of a job."""
Number = Annotated[int, Meta(ge=0, le=2**53)]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
CLONE_PREFIX = "clone-"
"""The prefix of the ids of cloned voices. No public voice has it."""
VoiceId = Annotated[str, Meta(pattern=rf"^(?!{CLONE_PREFIX})[A-Za-z0-9][A-Za-z0-9._-]{{0,99}}\Z")]
Label = Annotated[str, Meta(min_length=1, max_length=100)]
Language = Annotated[str, Meta(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*\Z", max_length=20)]
Reason = Annotated[str, Meta(max_length=300)]
_JOB = re.compile(r"(task|clone) ([0-9]{1,16}) ([0-9]{1,16}) ([!-~]{1,100})")


class Join(Struct, frozen=True, forbid_unknown_fields=True):
    """A join token from the operator. It is valid once, for an hour."""

    token: Annotated[str, Meta(max_length=200)]
    version: Annotated[str, Meta(max_length=50)] = ""


class Joined(Struct, frozen=True, forbid_unknown_fields=True):
    """The node's credential, which is not shown again, and the name that the operator gave the node."""

    credential: str
    name: str


class NodeVoice(Struct, frozen=True, forbid_unknown_fields=True):
    """A voice of the node."""

    voice_id: VoiceId
    name: Label
    gender: Literal["female", "male", "neutral"]
    language: Language


class Hello(Struct, frozen=True, forbid_unknown_fields=True):
    """The node's capabilities, which replace the former ones. `chars_per_s` is the measured speed of one job,
    0 if unknown, else at least 0.1. With `shutting_down` the node takes no more jobs and is offline at
    once."""

    voices: Annotated[list[NodeVoice], Meta(max_length=VOICES_MAX)]
    clones: Annotated[list[Language], Meta(max_length=50)]
    slots: Annotated[int, Meta(ge=1, le=SLOTS_MAX)]
    chars_per_s: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    version: Annotated[str, Meta(max_length=50)] = ""
    shutting_down: bool = field(default=False, name="leaving")

    def __post_init__(self) -> None:
        if 0 < self.chars_per_s < 0.1:
            raise ValueError("chars_per_s: expected 0, or at least 0.1")


class Welcome(Struct, frozen=True, forbid_unknown_fields=True):
    """The lifetime of a lease without a heartbeat, the interval of heartbeats, and the longest poll."""

    name: str
    lease_s: float
    beat_s: float
    poll_max_s: float


class Lease(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for up to `jobs` jobs, which waits up to `wait_s` seconds for the first one. `references` are
    the SHA-256 of the copies that the node has."""

    jobs: Annotated[int, Meta(ge=1, le=SLOTS_MAX)]
    wait_s: Annotated[float, Meta(ge=0, le=POLL_MAX_S)]
    references: Annotated[list[Sha256], Meta(max_length=10_000)] = []


class JobReference(Struct, frozen=True, forbid_unknown_fields=True):
    """The sample of a cloned voice: a mono wav by its SHA-256 and size, and its transcript."""

    sha256: Sha256
    size_bytes: int
    transcript: str
    language: str


class LeaseProof(Struct, frozen=True, forbid_unknown_fields=True):
    """Proves that the node has the lease of a job."""

    kind: JobKind
    id: Number
    epoch: Number
    token: Annotated[str, Meta(max_length=100)]

    @property
    def key(self) -> LeaseKey:
        """The lease without its proof."""
        return self.kind, self.id, self.epoch

    @property
    def header(self) -> str:
        """The value of JOB_HEADER."""
        return f"{self.kind} {self.id} {self.epoch} {self.token}"

    @classmethod
    def from_header(cls, text: str) -> Self | None:
        """None for another text."""
        found = _JOB.fullmatch(text)
        if found is None:
            return None
        kind: JobKind = "task" if found[1] == "task" else "clone"
        return cls(kind=kind, id=int(found[2]), epoch=int(found[3]), token=found[4])


class Job(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A leased job. `(kind, id, epoch, token)` prove the lease, which lasts another `lease_s` seconds. With a
    `reference` the node clones that voice, else `voice_id` is a voice of the node. Without `language` the
    text is in the voice's."""

    kind: JobKind
    id: int
    epoch: int
    token: str
    lease_s: float
    text: str
    voice_id: str
    speed: float
    reference: JobReference | None = None
    language: str = ""

    @property
    def lease(self) -> LeaseProof:
        return LeaseProof(kind=self.kind, id=self.id, epoch=self.epoch, token=self.token)


class Leased(Struct, frozen=True, forbid_unknown_fields=True):
    """The leased jobs, if any. `forget` lists the references whose copies the node must delete."""

    jobs: list[Job]
    forget: list[str]


class Heartbeat(Struct, frozen=True, forbid_unknown_fields=True):
    """A leased job and its progress from 0 to 1."""

    lease: LeaseProof = field(name="held")
    progress: Annotated[float, Meta(ge=0, le=1)] = 0.0


class Heartbeats(Struct, frozen=True, forbid_unknown_fields=True):
    """All leased jobs of the node, perhaps none."""

    beats: Annotated[list[Heartbeat], Meta(max_length=SLOTS_MAX)]


class HeartbeatsAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """The leases last another `lease_s` seconds, or until the node's share of the time to the deadline of
    their call ends, if that is earlier. Those in `cancel` have ended: the node drops the jobs."""

    lease_s: float
    cancel: list[LeaseProof]


class Failure(Struct, frozen=True, forbid_unknown_fields=True):
    """The job failed on this node. `final`: it would fail on all nodes, in this node's opinion.
    `returned`: the node shuts down before it finished the job."""

    lease: LeaseProof = field(name="held")
    reason: Reason
    final: bool = False
    returned: bool = field(default=False, name="handed_back")


class Done(Struct, frozen=True, forbid_unknown_fields=True):
    """The audio or the failure is recorded. The same audio sent again gets the same answer."""

    ok: int = 1


# `complete` sends the job in headers, since its body is the audio.
JOB_HEADER = "myna-job"
"""`KIND ID EPOCH TOKEN`, separated by single spaces."""
SHA256_HEADER = "myna-sha256"
