"""Synthetic recordings to clone a voice from: like speech in what is measured, and always the same. Also
in the containers of phones and browsers, by FFmpeg."""

import io
import wave
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, cast

import av
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
FFMPEG_RATE_HZ = 48_000


class _Container(NamedTuple):
    container: str
    codec: str
    options: dict[str, str]
    rate_hz: int = FFMPEG_RATE_HZ


_FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}
FFMPEG_SHAPES: Final = {
    "m4a": _Container("ipod", "aac", {}),
    "m4a without loss": _Container("ipod", "alac", {}),
    "mp4 in fragments": _Container("mp4", "aac", _FRAGMENTS),
    "mp4 in fragments, opus": _Container("mp4", "libopus", _FRAGMENTS),
    "webm": _Container("webm", "libopus", {}),
    "webm that states no length": _Container("webm", "libopus", {"live": "1"}),
    "aac": _Container("adts", "aac", {}),
    "amr": _Container("amr", "libopencore_amrnb", {}, 8_000),
    "caf": _Container("caf", "alac", {}),
    "caf without compression": _Container("caf", "pcm_s16be", {}),
}
WITHOUT_LENGTH: Final = ("webm that states no length", "aac", "amr")
"""Of these a part is a whole file."""
FILM: Final = "mp4 with the sound of a film"
_SHAPES: Final = FFMPEG_SHAPES | {FILM: _Container("mp4", "ac3", {})}


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


def ffmpeg_file(name: str, sound: NDArray[np.float32], *, picture: bool = False) -> bytes:
    """The sound, mono at FFMPEG_RATE_HZ, in one of FFMPEG_SHAPES or FILM, with a moving picture if wished."""
    shape = _SHAPES[name]
    file = io.BytesIO()
    with av.open(file, "w", format=shape.container, options=shape.options) as container:
        film = container.add_stream("mpeg4", rate=5, width=64, height=64) if picture else None
        stream = cast(av.AudioStream, container.add_stream(shape.codec, rate=shape.rate_hz, layout="mono"))
        frame = av.AudioFrame.from_ndarray(sound.reshape(1, -1), format="flt", layout="mono")
        frame.sample_rate = FFMPEG_RATE_HZ
        resampler = av.AudioResampler(format=stream.format, layout="mono", rate=shape.rate_hz)
        for even in [*resampler.resample(frame), *resampler.resample(None), None]:
            container.mux(stream.encode(even))
        if film is not None:
            black = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")
            container.mux([*film.encode(black), *film.encode(None)])
    return file.getvalue()
