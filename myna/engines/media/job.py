"""The jobs of the media child, and their results. A module that both processes import.

Paths in jobs are absolute, encoded by `os.fsencode`.
"""

from enum import StrEnum
from typing import Final

import msgspec

from myna.engines.interface import SOUND_MAX_S
from myna.wire.openai import SpeechFormat

SAMPLE_MIN_S, SAMPLE_MAX_S = 3.0, 60.0
VOICE_MIN_S: Final = 2.0
"""Minimum voice in a sample, without its pauses."""
SAMPLE_MAX_BYTES: Final = 20 * 2**20
SPEECH_MAX_S: Final = SOUND_MAX_S
SPEECH_MAX_BYTES: Final = 64 * 2**20  # an hour at 128 kbit/s is 58 MB
RECORDING_MAX_S: Final = 7200.0
"""The longest recording that is transcribed."""


class WhisperModel(msgspec.Struct, frozen=True):
    """A model on this machine: its folder, encoded by `os.fsencode`, and how to compute."""

    folder: bytes
    threads: int


class MediaSetup(msgspec.Struct, frozen=True):
    """What a child is for: the memory that it may take beyond what it has loaded, the size of a file that it
    may write, and the model that it loads to transcribe."""

    memory_max_bytes: int
    file_max_bytes: int
    model: WhisperModel | None = None


class SampleJob(msgspec.Struct, frozen=True, tag="sample"):
    """Convert the recording to a voice sample. `part` is in the folder of `target`."""

    source: bytes
    part: bytes
    target: bytes


class DecodeJob(msgspec.Struct, frozen=True, tag="decode"):
    """Decode this mp3 from its first to its last frame."""

    source: bytes


class TranscodeJob(msgspec.Struct, frozen=True, tag="transcode"):
    """Write the mp3 at `source` to `target` in this format."""

    source: bytes
    target: bytes
    format: SpeechFormat


class Measured(msgspec.Struct, frozen=True):
    """The length of the sound in seconds; of a file that was written, also its size, and of a sample its
    SHA-256."""

    seconds: float
    size_bytes: int = 0
    sha256: bytes = b""


class Script(StrEnum):
    """The characters of a Mandarin transcript. The values are configurations of OpenCC."""

    SIMPLIFIED = "tw2s"
    TAIWAN = "s2tw"
    HONG_KONG = "s2hk"


class TranscriptionJob(msgspec.Struct, frozen=True, tag="transcribe"):
    """Transcribe the recording at `source`, or translate it into
    English. Without a `language`, a code like zh, it is detected. `prompt` is text that may precede it.
    `temperature` is 0 to 1; 0 is raised where the result is poor. With `words` each word has its time."""

    source: bytes
    translate: bool = False
    language: str | None = None
    prompt: str | None = None
    temperature: float = 0.0
    words: bool = False
    script: Script = Script.SIMPLIFIED


class Word(msgspec.Struct, frozen=True):
    """A word and when it is spoken, in seconds from the beginning."""

    word: str
    start: float
    end: float


class Segment(msgspec.Struct, frozen=True):
    """A part of the transcript, with the names and the meanings of OpenAI's API."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


class Transcript(msgspec.Struct, frozen=True):
    """What was heard: the code of the language, the length of the recording in seconds, and the parts of the
    text; none where nobody speaks."""

    language: str
    duration: float
    segments: list[Segment]
    words: list[Word]

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments).strip()


MediaJob = SampleJob | DecodeJob | TranscodeJob | TranscriptionJob
