"""What a compute node and the site say to each other: JSON under `/farm/v1`, audio as plain bodies.

Every request carries `Myna-Farm: 1`, the protocol's number, and all but a join `Authorization: Bearer` with
the node's credential. An answer that isn't a success has the envelope of /v1. Times are seconds that
something may last, never moments: the clocks of two machines are not compared.

    join        a token, once                          -> the node's credential
    hello       what the node can do                   -> how often it should be heard
    lease       how many jobs it would take            -> jobs, as soon as there are some (long poll)
    beat        what it holds and how far it is        -> what it should drop
    reference   GET …/reference?sha256=SHA256          -> the wav that a job it holds refers to
    complete    POST …/complete, the mp3 as the body   -> kept, or 409: somebody else has the job now
    fail        why                                    -> noted
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

PROTOCOL = 1
PROTOCOL_HEADER = "myna-farm"
PREFIX = "/farm/v1"

POLL_MAX_S = 25.0
"""The longest that `lease` waits for a job."""
TRIES_MAX = 3
SLOTS_MAX = 64
VOICES_MAX = 500
AUDIO_MAX_BYTES = 64 * 2**20

JobKind = Literal["task", "clone"]
"""A `task` speaks somebody's order; a `clone` speaks the preview of a new voice."""
Number = Annotated[int, Meta(ge=0, le=2**53)]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
CLONE_PREFIX = "clone-"
"""How the id of an account's own voice begins, and no public voice's."""
VoiceId = Annotated[str, Meta(pattern=rf"^(?!{CLONE_PREFIX})[A-Za-z0-9][A-Za-z0-9._-]{{0,99}}\Z")]
Label = Annotated[str, Meta(min_length=1, max_length=100)]
Language = Annotated[str, Meta(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*\Z", max_length=20)]
Reason = Annotated[str, Meta(max_length=300)]


class Join(Struct, frozen=True):
    """The token that the operator handed out; it works once and for an hour."""

    token: Annotated[str, Meta(max_length=200)]
    version: Annotated[str, Meta(max_length=50)] = ""


class Joined(Struct, frozen=True):
    """The node's own credential, told this once, and the name the operator gave it."""

    credential: str
    name: str


class NodeVoice(Struct, frozen=True):
    """A voice that the node can speak."""

    voice_id: VoiceId
    name: Label
    gender: Literal["female", "male", "neutral"]
    language: Language


class Hello(Struct, frozen=True):
    """What the node can do from now on. `chars_per_s` is what one job reached when the node tried itself; 0
    where it didn't. With `leaving` it takes no more jobs and is offline at once."""

    voices: Annotated[list[NodeVoice], Meta(max_length=VOICES_MAX)]
    clones: Annotated[list[Language], Meta(max_length=50)]
    slots: Annotated[int, Meta(ge=1, le=SLOTS_MAX)]
    chars_per_s: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    version: Annotated[str, Meta(max_length=50)] = ""
    leaving: bool = False


class Welcome(Struct, frozen=True):
    """How long a lease lasts without a beat, and how often to beat."""

    name: str
    lease_s: float
    beat_s: float
    poll_max_s: float


class Lease(Struct, frozen=True):
    """Asks for up to `jobs` jobs, waiting up to `wait_s` for the first. `references` are those the node
    keeps a copy of."""

    jobs: Annotated[int, Meta(ge=1, le=SLOTS_MAX)]
    wait_s: Annotated[float, Meta(ge=0, le=POLL_MAX_S)]
    references: Annotated[list[Sha256], Meta(max_length=10_000)] = []


class Reference(Struct, frozen=True):
    """The voice to speak in: a mono wav by its SHA-256 and size, and what is said in it."""

    sha256: Sha256
    size_bytes: int
    transcript: str
    language: str


class Job(Struct, frozen=True):
    """Work for the node. `(kind, id, epoch, token)` is what it shows for it; `lease_s` is left of the
    lease. With a `reference` the voice is that one's, else `voice_id` is one of the node's own."""

    kind: JobKind
    id: int
    epoch: int
    token: str
    lease_s: float
    text: str
    voice_id: str
    speed: float
    reference: Reference | None = None


class Leased(Struct, frozen=True):
    """Jobs, perhaps none; `forget` names references that the node must delete its copies of."""

    jobs: list[Job]
    forget: list[str]


class Held(Struct, frozen=True):
    """A job that the node shows to be its own."""

    kind: JobKind
    id: Number
    epoch: Number
    token: Annotated[str, Meta(max_length=100)]


class Beat(Struct, frozen=True):
    """A held job, and how much of it is done, from 0 to 1."""

    held: Held
    progress: Annotated[float, Meta(ge=0, le=1)] = 0.0


class Beats(Struct, frozen=True):
    """All that the node holds, also none."""

    beats: Annotated[list[Beat], Meta(max_length=SLOTS_MAX)]


class BeatsHeard(Struct, frozen=True):
    """Whose leases go on for `lease_s`, or to the end of the job's call if that comes sooner; `cancel` are
    those to drop: they are somebody else's or over."""

    lease_s: float
    cancel: list[Held]


class Failure(Struct, frozen=True):
    """The job can't be done here: `final` if no node could; `handed_back` if it was hardly tried, because the
    node goes."""

    held: Held
    reason: Reason
    final: bool = False
    handed_back: bool = False


class Done(Struct, frozen=True):
    """The audio, or the failure, is noted. The same audio sent again gives the same answer."""

    ok: int = 1


# `complete` sends the job in headers, since its body is the audio.
JOB_HEADER = "myna-job"
"""`KIND ID EPOCH TOKEN`, separated by single spaces."""
SHA256_HEADER = "myna-sha256"
