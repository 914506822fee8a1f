"""The limit on the length of a sound, applied by the process that makes it."""

from collections.abc import Callable

from myna.engines.interface import SoundTooLong

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
