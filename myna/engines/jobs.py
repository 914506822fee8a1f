"""Jobs of the child processes with espeak-ng, and what all jobs that speak have in common.

Both processes import this module. The child makes the sound with `engines/sound.py`.
"""

from pathlib import Path
from typing import Self

import msgspec

from myna.engines.pool.child_main import path_bytes


class OutputFile(msgspec.Struct, frozen=True):
    """The file `target`, written as `part` in the same folder: absolute paths, encoded by `os.fsencode`."""

    part: bytes
    target: bytes

    @classmethod
    def at(cls, part: Path, target: Path) -> Self:
        return cls(path_bytes(part), path_bytes(target))


class SpeechJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that speaks to `file`, or to the parent. More than `sound_max_s` seconds of sound is an error."""

    sound_max_s: float
    file: OutputFile | None = None


class EspeakJob(SpeechJob, frozen=True):
    """Speak `text`. `voice` and `han_voice` are espeak-ng's names; the second reads Han characters. The speed
    is 0.25 to 4."""

    text: str
    voice: str
    han_voice: str
    speed: float


class PhonemesJob(msgspec.Struct, frozen=True):
    """Convert the text to phonemes in the language, an espeak-ng or BCP-47 code. With `han_language` the text
    is that of a voice of espeak-ng, and its Han are read in that language."""

    text: str
    language: str
    han_language: str = ""


class Phonemes(msgspec.Struct, frozen=True):
    """The text's pieces in IPA, with their punctuation, and in words."""

    pieces: list[str]
    reading: str
