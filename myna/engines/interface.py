"""The interface of all speech engines: `Engine`, its requests, results and errors.

The site's speech channels and the compute nodes use the same engines. `registry.py` lists them.

Its errors are EngineFailed and the classes below it. After one, no file is left at the path. Messages contain
no text, path or secret, so they may be logged and shown.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, Self

import msgspec

from myna.engines.pool.admission import Admission
from myna.engines.text.notation import flat
from myna.lib.sandbox import AllowedPaths
from myna.wire.failures import NO_ERROR, Meaning, ServerError

SPEED_MIN = 0.25
SPEED_MAX = 4.0
STREAM_RATE_HZ = 24_000
"""The samples a second of sound that an engine returns part by part."""
SOUND_MAX_S = 3600.0
"""Upper limit of the sound of one text, for all engines and requests."""


class EngineVoice(msgspec.Struct, frozen=True):
    """A voice of the catalogue: `gender` is female, male or neutral, `language` a BCP-47 code like zh-CN."""

    voice_id: str
    name: str
    gender: str
    language: str


class VoiceReference(msgspec.Struct, frozen=True):
    """A voice to clone: a mono wav of 16 bits, its transcript, and its language, like zh-CN."""

    wav: Path
    transcript: str
    language: str


class Utterance(msgspec.Struct, frozen=True):
    """A text to speak, in the notation of `text/notation.py`. `speed` is relative to the voice's normal
    speed, 0.25 to 4. The engine fails at more than `sound_max_s` seconds of sound. The voice of a
    `reference` replaces `voice_id`."""

    text: str
    voice_id: str
    speed: float
    sound_max_s: float = SOUND_MAX_S
    language: str = ""
    reference: VoiceReference | None = None

    @property
    def encodable(self) -> str:
        """The text without lone surrogates, which UTF-8 can't encode."""
        return self.text.encode(errors="ignore").decode()

    @property
    def flat(self) -> str:
        """The text for an engine that does not read the notation."""
        return flat(self.encodable)

    def check_speed(self) -> None:
        """Raises UnsupportedUtterance for a speed out of range."""
        if not SPEED_MIN <= self.speed <= SPEED_MAX:
            raise UnsupportedUtterance(f"The speed must be from {SPEED_MIN} to {SPEED_MAX}.")


class WordTime(msgspec.Struct, frozen=True, array_like=True):
    """A word of a text, with the marks and spaces after it, and when it is spoken, in seconds."""

    text: str
    begin_s: float
    end_s: float


class SoundPart(msgspec.Struct, frozen=True):
    """A part of the sound of a text: mono PCM of 16 bits, or bytes of a server's mp3; the time that a process
    worked on it; and its words with their times in the whole sound, if the engine knows them."""

    pcm: bytes
    work_s: float
    mp3: bytes = b""
    words: Sequence[WordTime] = ()


SoundParts = AsyncGenerator[SoundPart, None]


class Client(msgspec.Struct, frozen=True):
    """The client of a call. An engine without a queue reads only `disconnected` and `relay`.

    The queue is fair over `queue_key`. `sound_s` is the estimate for which the call acquired its slot, 0
    without a slot. `disconnected` returns when the client has disconnected, and `progress` is called with the
    fraction that is done, 0 to 1: see `Pool.run`. `unspoken` is called, before the first sound, with
    what of the text is not spoken and how often. The sound passes through `relay` on its way to the file. If
    the parts are PCM, the file has STREAM_RATE_HZ then.
    """

    queue_key: Hashable = None
    sound_s: float = 0.0
    disconnected: Callable[[], Awaitable[None]] | None = None
    progress: Callable[[float], None] | None = None
    unspoken: Callable[[Mapping[str, int]], None] | None = None
    relay: Callable[[SoundParts], SoundParts] | None = None


NO_CLIENT: Final = Client()
"""A call that waits until its deadline."""


class SpeechResult(msgspec.Struct, frozen=True):
    """A finished audio file: its length in seconds, its size and its SHA-256 (32 bytes). `work_s` is the time
    that a process worked on it, 0 if unknown."""

    seconds: float
    size_bytes: int
    sha256: bytes
    work_s: float = 0.0


class Engine(Protocol):
    """Speaks texts as mp3 files. It is used by one event loop, from `start` to `close`."""

    @property
    def label(self) -> str:
        """Its name in errors and in the output of `node check`."""

    @property
    def voices(self) -> tuple[EngineVoice, ...]:
        """Its voices, the default one first; none if it only clones. Those it has to look up are missing
        before `start`."""

    @property
    def clones(self) -> tuple[str, ...]:
        """The languages, like zh, in which it can clone a voice."""

    @property
    def blends(self) -> bool:
        """Whether an utterance's voice may also be a recipe of its voices: see `voices.py`."""

    @property
    def admission(self) -> Admission | None:
        """The slots of its queue. None if texts never wait in this process, as with a server."""

    def up(self) -> bool:
        """Whether it can speak now."""

    def full(self) -> bool:
        """Whether its queue is full."""

    async def start(self, files: AllowedPaths | None = None) -> None:
        """Returns when it can speak. Its processes may open its own files and `files` only; without `files`
        all. Raises EngineFailed, and then no process runs."""

    async def speak(
        self, utterance: Utterance, path: Path, deadline_s: float, client: Client = NO_CLIENT
    ) -> SpeechResult:
        """Writes the utterance as a mono mp3 to `path`, durably, within `deadline_s` seconds, waiting
        included. `path` is used by this call only. Raises EngineFailed. On failure and cancellation the
        work ends, and the file is removed."""

    async def close(self) -> None:
        """Ends its processes and connections; jobs that wait or run fail. May be called twice."""


class StreamingEngine(Engine, Protocol):
    """An engine that returns the sound of a text part by part, while it speaks the rest."""

    def sound(self, utterance: Utterance, deadline_s: float, client: Client = NO_CLIENT) -> SoundParts:
        """The parts in the order of the text, pauses included, at STREAM_RATE_HZ. Raises EngineFailed, also
        after parts were yielded. When the generator has been closed, no work continues. `speak` passes the
        parts through the client's `relay`."""


class EngineLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of an engine: it speaks at most `processes` texts at a time, each for `job_deadline_s` seconds
    from its start. At most `queue_max` wait; an account has at most `account_max` slots."""

    processes: int
    queue_max: int
    job_deadline_s: float
    account_max: int = 64


class EngineFailed(Exception):
    """The engine made no audio."""

    def without_frames(self) -> Self:
        """This failure without its traceback and its causes, for an object that keeps it: their frames have
        that object, which would be a cycle."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class EngineBusy(EngineFailed):
    """The queue is full; the job was not started."""


class NoConnection(EngineBusy):
    """This process has no place, or no file, for one more connection to the speech server."""


class ServerBusy(EngineBusy):
    """The speech server has reached a limit of its own. `retry_after_s`: when it says to try again."""

    def __init__(self, why: str, retry_after_s: int | None) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s


class ServerUnusable(EngineFailed):
    """The speech server refuses the key of this service, or says that its quota is used up: only the operator
    can change what is the `meaning` of its error."""

    def __init__(self, why: str, meaning: Meaning) -> None:
        super().__init__(why)
        self.meaning = meaning


class EngineUnavailable(EngineFailed):
    """No process of the engine runs, or it is closing."""


class EngineTimedOut(EngineFailed):
    """The deadline passed before the audio was finished."""


class EngineCrashed(EngineFailed):
    """The process died during the job."""


class CallerDisconnected(EngineFailed):
    """The client disconnected while the job waited; it was not started."""


class NothingSpoken(EngineFailed):
    """The text makes no sound in this voice."""


class UtteranceRefused(EngineFailed):
    """The engine refused this text, voice or speed; others may work. `server_error` is that of a server, as
    far as the caller may see it."""

    def __init__(self, why: str, server_error: ServerError = NO_ERROR) -> None:
        super().__init__(why)
        self.server_error = server_error


class UnsupportedUtterance(EngineFailed):
    """The engine has no such voice, or the speed is out of its range."""


class SoundTooLong(EngineFailed):
    """The text makes more sound than the limit."""


class SampleRefused(EngineFailed):
    """The recording can't be a voice sample; the message says what to change."""


class LanguageUnknown(EngineFailed):
    """The model transcribes no such language; the message says what to send."""


class NoAudio(EngineFailed):
    """The file is not an mp3 with sound."""


FAILURES: Final = {error.__name__: error for error in EngineFailed.__subclasses__()}
"""The failures that another process can report, by name."""
_SAMPLE_BYTES = 2


def bounded(write: Callable[[bytes], None], rate_hz: int, sound_max_s: float) -> Callable[[bytes], None]:
    """`write` for 16-bit mono PCM that raises SoundTooLong past `sound_max_s` seconds."""
    left_bytes = int(sound_max_s * rate_hz) * _SAMPLE_BYTES

    def write_bounded(pcm: bytes) -> None:
        nonlocal left_bytes
        left_bytes -= len(pcm)
        if left_bytes < 0:
            raise SoundTooLong("The text makes more sound than the limit.")
        write(pcm)

    return write_bounded
