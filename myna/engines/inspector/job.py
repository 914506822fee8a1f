"""The jobs of the inspector's child, and their limits. A module that both processes import."""

import msgspec

SAMPLE_RATE_HZ = 24_000
SAMPLE_MIN_S, SAMPLE_MAX_S = 3.0, 60.0
VOICE_MIN_S = 2.0
"""Minimum voice in a sample, without its pauses."""
SAMPLE_MAX_BYTES = 20 * 2**20
SPEECH_MAX_S = 3600.0
SPEECH_MAX_BYTES = 64 * 2**20  # an hour at 128 kbit/s is 58 MB


class SampleJob(msgspec.Struct, frozen=True, tag="sample"):
    """Convert the recording to a voice sample. Paths are absolute, encoded by `os.fsencode`; `part` is in the
    folder of `target`."""

    source: bytes
    part: bytes
    target: bytes


class SpeechJob(msgspec.Struct, frozen=True, tag="speech"):
    """Decode this mp3 from its first to its last frame; the path as above."""

    source: bytes


class Inspected(msgspec.Struct, frozen=True):
    """The length of the sound; for a sample, also the size and SHA-256 of its file."""

    seconds: float
    size_bytes: int = 0
    sha256: bytes = b""
