"""The job of the transcoder's child, and its limits. A module that both processes import."""

from typing import Final

import msgspec

from myna.engines.audio.encoders import SoundFormat

SOURCE_MAX_BYTES: Final = 64 * 2**20
SOUND_MAX_S: Final = 3600.0
"""As of one text: see `engines/interface.py`."""


class TranscodeJob(msgspec.Struct, frozen=True):
    """Write the mp3 at `source` to `target` in this format. Paths are absolute, encoded by `os.fsencode`."""

    source: bytes
    target: bytes
    format: SoundFormat


class Transcoded(msgspec.Struct, frozen=True):
    """The length of the sound and the size of the file."""

    seconds: float
    size_bytes: int
