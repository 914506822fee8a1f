"""The encoders of the formats of `POST /audio/speech`: their streams are the sound, and can be played."""

import io
import struct

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from myna.engines.audio.encoders import FORMATS, RATE_HZ, UNKNOWN_SIZE
from myna.wire.openai import SpeechFormat

SECONDS = 3
TONE_HZ = 440
PADDING_S = 0.15
"""What an encoder may add at both ends."""
FFMPEG = {"opus": "ogg", "pcm": "s16le"}
"""FFmpeg's names of formats that are not ours."""


def tone(seconds: float) -> bytes:
    phase = np.arange(round(seconds * RATE_HZ)) * 2 * np.pi * TONE_HZ / RATE_HZ
    return (np.sin(phase) * 8000).astype("<i2").tobytes()


def heard(data: bytes, kind: SpeechFormat) -> NDArray[np.float32]:
    """The samples that FFmpeg decodes, mono at RATE_HZ."""
    options = {"ar": str(RATE_HZ), "ac": "1"} if kind == "pcm" else {}
    resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE_HZ)
    with av.open(io.BytesIO(data), format=FFMPEG.get(kind, kind), options=options) as file:
        (stream,) = file.streams.audio
        frames = [part for frame in file.decode(stream) for part in resampler.resample(frame)]
    return np.concatenate([part.to_ndarray()[0] for part in [*frames, *resampler.resample(None)]])


def pitch_hz(samples: NDArray[np.float32]) -> float:
    """The strongest frequency."""
    spectrum = np.abs(np.fft.rfft(samples))
    return float(spectrum.argmax()) * RATE_HZ / len(samples)


def in_parts(kind: SpeechFormat, pcm: bytes, part_s: float = 0.5) -> list[bytes]:
    """What each part of the sound and the end yield."""
    encoder, size = FORMATS[kind].encoder(), round(part_s * RATE_HZ) * 2
    parts = [encoder.encode(pcm[at : at + size]) for at in range(0, len(pcm), size)]
    return [*parts, encoder.finish()]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_stream_in_parts_is_the_sound(kind: SpeechFormat) -> None:
    samples = heard(b"".join(in_parts(kind, tone(SECONDS))), kind)
    assert abs(len(samples) / RATE_HZ - SECONDS) < PADDING_S
    assert abs(pitch_hz(samples) - TONE_HZ) < 2


@pytest.mark.parametrize("kind", FORMATS)
def test_the_beginning_of_a_stream_can_be_played_before_its_end(kind: SpeechFormat) -> None:
    encoder = FORMATS[kind].encoder()
    begun = encoder.encode(tone(SECONDS))
    samples = heard(begun, kind)
    assert len(samples) / RATE_HZ > SECONDS - 1.1
    encoder.finish()


def test_pcm_is_the_samples_themselves() -> None:
    pcm = tone(SECONDS)
    assert b"".join(in_parts("pcm", pcm)) == pcm


def test_a_wav_states_the_sizes_of_a_stream() -> None:
    data = b"".join(in_parts("wav", tone(1)))
    assert data[:4] == b"RIFF" and struct.unpack("<I", data[4:8]) == (UNKNOWN_SIZE,)
    assert data[36:40] == b"data" and struct.unpack("<I", data[40:44]) == (UNKNOWN_SIZE,)
    assert data[44:] == tone(1)


def test_flac_loses_nothing() -> None:
    samples = heard(b"".join(in_parts("flac", tone(SECONDS))), "flac")
    assert np.rint(samples * 32768).astype("<i2").tobytes() == tone(SECONDS)
