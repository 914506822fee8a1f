"""Synthetic recordings to clone a voice from: like speech in what is measured, and always the same."""

import wave
from functools import cache
from pathlib import Path

import lameenc
import numpy as np
from numpy.typing import NDArray

from myna.engines.audio.mp3 import Mp3File

RATE_HZ = 24_000

_PITCH_HZ, _GLIDE_HZ, _GLIDES_PER_S = 130.0, 25.0, 0.4
_FORMANTS_HZ = np.array([600.0, 1700.0, 2600.0])
_FORMANT_WIDTH_HZ = 300.0
_HARMONICS = 24
_SYLLABLES_PER_S = 4.0
_PHRASE_S, _PAUSE_S = 1.6, 0.25
_PEAK = 0.5


def voice(seconds: float, rate_hz: int = RATE_HZ) -> NDArray[np.float32]:
    """Phrases of syllables with pauses between, some 80 % of it voice; a good sample from 4 to 60 s."""
    time = np.arange(round(seconds * rate_hz)) / rate_hz
    glide = _GLIDE_HZ / _GLIDES_PER_S * np.sin(2 * np.pi * _GLIDES_PER_S * time)
    phase = 2 * np.pi * _PITCH_HZ * time + glide
    sound = np.zeros(len(time))
    for number in range(1, _HARMONICS + 1):
        near = np.exp(-(((number * _PITCH_HZ - _FORMANTS_HZ) / _FORMANT_WIDTH_HZ) ** 2)).sum()
        sound += (near + 0.5 / number) * np.sin(number * phase)
    syllables = 0.3 + 0.7 * np.sin(np.pi * _SYLLABLES_PER_S * time) ** 2
    talking = time % _PHRASE_S < _PHRASE_S - _PAUSE_S
    sound *= syllables * talking
    return np.asarray(_PEAK * sound / np.abs(sound).max(), np.float32)


def write_wav(path: Path, sound: NDArray[np.float32], rate_hz: int = RATE_HZ) -> Path:
    """The sound as a wav of 16 bits at `path`: mono, or with a column for each channel."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if sound.ndim == 1 else sound.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes((np.clip(sound, -1, 1) * 32_767).astype("<i2").tobytes())
    return path


def write_mp3(path: Path, sound: NDArray[np.float32], rate_hz: int = RATE_HZ) -> Path:
    """The sound, mono, as an mp3 at `path`, as engines write theirs."""
    with Mp3File(path.with_name(f".{path.name}.part"), path, rate_hz) as file:
        file.write((np.clip(sound, -1, 1) * 32_767).astype("<i2").tobytes())
        file.finish()
    return path


@cache
def mp3(seconds: float, rate_hz: int = RATE_HZ, kbps: int = 64, channels: int = 1) -> bytes:
    """A tone of 440 Hz as LAME makes it, also at rates that engines don't have."""
    encoder = lameenc.Encoder()
    encoder.set_channels(channels)
    encoder.set_in_sample_rate(rate_hz)
    encoder.set_out_sample_rate(rate_hz)
    encoder.set_bit_rate(kbps)
    encoder.set_quality(7)
    encoder.silence()
    tone = 9000 * np.sin(2 * np.pi * 440 / rate_hz * np.arange(round(seconds * rate_hz)))
    pcm = np.repeat(tone.astype("<i2"), channels).tobytes()
    return bytes(encoder.encode(pcm)) + bytes(encoder.flush())


def write_voice(path: Path, seconds: float = 6.0, rate_hz: int = RATE_HZ) -> Path:
    """A good sample at `path`, as wav."""
    return write_wav(path, voice(seconds, rate_hz), rate_hz)
