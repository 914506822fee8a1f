"""The jobs of Whisper's child, and their results. A module that both processes import."""

from enum import StrEnum
from typing import Final

import msgspec

SOUND_MAX_S: Final = 7200.0
"""The longest recording."""


class WhisperModel(msgspec.Struct, frozen=True):
    """A model on this machine: its folder, encoded by `os.fsencode`, and how to compute."""

    folder: bytes
    threads: int


class Script(StrEnum):
    """The characters of a Mandarin transcript. The values are configurations of OpenCC."""

    SIMPLIFIED = "tw2s"
    TAIWAN = "s2tw"
    HONG_KONG = "s2hk"


class TranscriptionJob(msgspec.Struct, frozen=True):
    """Transcribe the recording at `source`, an absolute path encoded by `os.fsencode`, or translate it into
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
