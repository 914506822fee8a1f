"""What every engine of speech is asked, what it gives back, and how it may fail.

EngineFailed          the engine gave no audio; nothing is left at the path
├── EngineBusy        as many jobs wait as may; nothing was begun
├── EngineDown        no process of the engine runs, or it is closing
├── EngineTimedOut    the deadline passed; whatever ran was ended
├── EngineDied        the process died in the middle of the job
├── NothingSpoken     the text makes no sound in this voice
├── UtteranceRefused  the engine took exception to this text; that says nothing of the next one
├── UnfitUtterance    a voice or a speed the engine doesn't have
├── SampleRefused     a recording that can't be a voice sample; the message tells its owner what to change
└── NoAudio           what was sent as finished speech isn't an mp3 that can be heard

Messages name no text, no path and no secret, so they may be logged and shown.
"""

from pathlib import Path

import msgspec

SPEED_MIN = 0.25
SPEED_MAX = 4.0


class Voice(msgspec.Struct, frozen=True):
    """A voice of the catalogue: `gender` is female, male or neutral, `language` a BCP-47 code like zh-CN."""

    voice_id: str
    name: str
    gender: str
    language: str


class Utterance(msgspec.Struct, frozen=True):
    """What to say: `speed` 1 is the voice's own pace, 2 takes half as long; from 0.25 to 4."""

    text: str
    voice_id: str
    speed: float


class Reference(msgspec.Struct, frozen=True):
    """A voice to speak in: a mono wav of 16 bits, what is said in it, and in which language, like zh-CN."""

    wav: Path
    transcript: str
    language: str


class Spoken(msgspec.Struct, frozen=True):
    """A whole audio file: its length in seconds, its size and its SHA-256 (32 bytes)."""

    seconds: float
    size_bytes: int
    sha256: bytes


class EngineFailed(Exception):
    """The engine gave no audio."""


class EngineBusy(EngineFailed):
    """As many jobs wait as may; nothing was begun."""


class EngineDown(EngineFailed):
    """No process of the engine runs, or it is closing."""


class EngineTimedOut(EngineFailed):
    """The deadline passed before the audio was there."""


class EngineDied(EngineFailed):
    """The process that was speaking died in the middle of the job."""


class NothingSpoken(EngineFailed):
    """The text makes no sound in this voice."""


class UtteranceRefused(EngineFailed):
    """The engine took exception to this text, voice or speed; that says nothing of the next one."""


class UnfitUtterance(EngineFailed):
    """The engine has no such voice, or the speed is out of its range."""


class SampleRefused(EngineFailed):
    """The recording can't be a voice sample; the message tells its owner what to change."""


class NoAudio(EngineFailed):
    """What was sent as finished speech isn't an mp3 that can be heard."""
