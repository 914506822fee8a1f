"""The encoders of the formats of `POST /audio/speech`: their streams are the sound, and can be played."""

import io
import struct

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from myna.engines.audio.encoders import RATE_HZ, UNKNOWN_SIZE, SoundFormat, encoder_of

SECONDS = 3
TONE_HZ = 440
PADDING_S = 0.15
"""What an encoder may add at both ends."""
FFMPEG = {"wav": "wav", "mp3": "mp3", "opus": "ogg", "flac": "flac", "aac": "aac", "pcm": "s16le"}
CODED = tuple(SoundFormat)


def tone(seconds: float) -> bytes:
    phase = np.arange(round(seconds * RATE_HZ)) * 2 * np.pi * TONE_HZ / RATE_HZ
    return (np.sin(phase) * 8000).astype("<i2").tobytes()


def heard(data: bytes, kind: SoundFormat) -> NDArray[np.float32]:
    """The samples that FFmpeg decodes, mono at RATE_HZ."""
    options = {"ar": str(RATE_HZ), "ac": "1"} if kind is SoundFormat.PCM else {}
    resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE_HZ)
    with av.open(io.BytesIO(data), format=FFMPEG[kind], options=options) as file:
        (stream,) = file.streams.audio
        frames = [part for frame in file.decode(stream) for part in resampler.resample(frame)]
    return np.concatenate([part.to_ndarray()[0] for part in [*frames, *resampler.resample(None)]])


def pitch_hz(samples: NDArray[np.float32]) -> float:
    """The strongest frequency."""
    spectrum = np.abs(np.fft.rfft(samples))
    return float(spectrum.argmax()) * RATE_HZ / len(samples)


def in_parts(kind: SoundFormat, pcm: bytes, part_s: float = 0.5) -> list[bytes]:
    """What each part of the sound and the end yield."""
    encoder, size = encoder_of(kind), round(part_s * RATE_HZ) * 2
    parts = [encoder.encode(pcm[at : at + size]) for at in range(0, len(pcm), size)]
    return [*parts, encoder.finish()]


@pytest.mark.parametrize("kind", CODED)
def test_a_stream_in_parts_is_the_sound(kind: SoundFormat) -> None:
    samples = heard(b"".join(in_parts(kind, tone(SECONDS))), kind)
    assert abs(len(samples) / RATE_HZ - SECONDS) < PADDING_S
    assert abs(pitch_hz(samples) - TONE_HZ) < 2


@pytest.mark.parametrize("kind", CODED)
def test_the_beginning_of_a_stream_can_be_played_before_its_end(kind: SoundFormat) -> None:
    encoder = encoder_of(kind)
    begun = encoder.encode(tone(SECONDS))
    samples = heard(begun, kind)
    assert len(samples) / RATE_HZ > SECONDS - 1.1
    encoder.finish()


def test_pcm_is_the_samples_themselves() -> None:
    pcm = tone(SECONDS)
    assert b"".join(in_parts(SoundFormat.PCM, pcm)) == pcm


def test_a_wav_states_the_sizes_of_a_stream() -> None:
    data = b"".join(in_parts(SoundFormat.WAV, tone(1)))
    assert data[:4] == b"RIFF" and struct.unpack("<I", data[4:8]) == (UNKNOWN_SIZE,)
    assert data[36:40] == b"data" and struct.unpack("<I", data[40:44]) == (UNKNOWN_SIZE,)
    assert data[44:] == tone(1)


def test_flac_loses_nothing() -> None:
    samples = heard(b"".join(in_parts(SoundFormat.FLAC, tone(SECONDS))), SoundFormat.FLAC)
    assert np.rint(samples * 32768).astype("<i2").tobytes() == tone(SECONDS)


def test_aac_without_its_extra_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not SoundFormat.AAC.available
    assert SoundFormat.MP3.available
    with pytest.raises(ValueError, match="needs the extra m4a"):
        encoder_of(SoundFormat.AAC)
