"""What the listener and its child tell each other. It stands apart since neither may load the other."""

import msgspec

SAMPLE_RATE_HZ = 24_000
SAMPLE_MIN_S, SAMPLE_MAX_S = 3.0, 60.0
VOICE_MIN_S = 2.0
"""So much of a sample must be voice: what the shortest one has between its pauses."""
SAMPLE_MAX_BYTES = 20 * 2**20
SPEECH_MAX_S = 3600.0
SPEECH_MAX_BYTES = 64 * 2**20  # an hour at 128 kbit/s and some more


class SampleJob(msgspec.Struct, frozen=True, tag="sample"):
    """Make a voice sample of the recording; all paths absolute, as `os.fsencode` gives them.

    `part` is in the folder of `target`.
    """

    source: bytes
    part: bytes
    target: bytes


class SpeechJob(msgspec.Struct, frozen=True, tag="speech"):
    """Hear whether this is a finished mp3; the path as above."""

    source: bytes


class Found(msgspec.Struct, frozen=True):
    """How long the sound is; for a sample, its file's size and SHA-256 too."""

    seconds: float
    size_bytes: int = 0
    sha256: bytes = b""
