"""The sound between the engine and the file: it is stretched, and written completely."""

import hashlib
import math
import time
from array import array
from itertools import pairwise
from operator import sub
from pathlib import Path

import pytest
import soundfile

from myna.audio.mp3 import Mp3File
from myna.audio.stretch import Stretch
from myna.engines.espeak.rate import Pace, paced

_RATE_HZ = 22050


def _tone(hertz: float, seconds: float) -> bytes:
    """A voice-like tone: the pitch and two of its overtones."""
    parts = ((1, 6000), (2, 4000), (5, 2000))
    step = 2 * math.pi * hertz / _RATE_HZ
    samples = range(round(seconds * _RATE_HZ))
    return array("h", [round(sum(a * math.sin(k * step * i) for k, a in parts)) for i in samples]).tobytes()


def _stretched(pcm: bytes, factor: float, piece_bytes: int) -> "array[int]":
    stretch = Stretch(_RATE_HZ, factor)
    pieces = [stretch.feed(pcm[at : at + piece_bytes]) for at in range(0, len(pcm), piece_bytes)]
    return array("h", b"".join(pieces) + stretch.flush())


def _pitch_hz(samples: "array[int]", about_hz: float) -> float:
    """The pitch by autocorrelation, within half an octave each way."""
    middle = samples[len(samples) // 2 :][:4000]
    lags = range(round(_RATE_HZ / about_hz / 1.4), round(_RATE_HZ / about_hz * 1.4))
    return _RATE_HZ / min(lags, key=lambda lag: sum(map(abs, map(sub, middle, middle[lag : lag + 1000]))))


def _step_max(samples: "array[int]") -> int:
    return max(abs(after - before) for before, after in pairwise(samples))


@pytest.mark.parametrize("factor", [0.55, 0.8, 0.95, 1.05, 1.3, 1.75])
@pytest.mark.parametrize("hertz", [110.0, 210.0])
def test_a_stretched_sound_has_its_length_and_keeps_its_pitch(factor: float, hertz: float) -> None:
    pcm = _tone(hertz, 2)
    stretched = _stretched(pcm, factor, 8820)
    assert len(stretched) == pytest.approx(factor * len(pcm) / 2, rel=0.02)
    assert _pitch_hz(stretched, hertz) == pytest.approx(hertz, rel=0.03)


@pytest.mark.parametrize("factor", [0.6, 1.7])
def test_a_stretched_sound_has_no_clicks(factor: float) -> None:
    """No step from one sample to the next is larger than the tone's own."""
    pcm = _tone(150, 1)
    assert _step_max(_stretched(pcm, factor, 8820)) < 1.5 * _step_max(array("h", pcm))


def test_a_sound_stretched_in_small_pieces_is_the_same_as_in_large_ones() -> None:
    pcm = _tone(150, 3.3)
    assert _stretched(pcm, 1.5, 100) == _stretched(pcm, 1.5, len(pcm))


@pytest.mark.parametrize("samples", [0, 1, 500, 700, 22_050])
def test_silence_and_the_shortest_sounds_are_stretched_too(samples: int) -> None:
    stretched = _stretched(bytes(2 * samples), 1.5, 4410)
    assert set(stretched) <= {0}
    assert 1.5 * samples - 700 <= len(stretched) <= 1.5 * samples + 350


def test_stretching_is_much_faster_than_real_time() -> None:
    """A thousand characters at the slowest speed are a quarter of an hour of sound."""
    pcm = _tone(150, 4) * 10
    began_s = time.process_time()
    _stretched(pcm, 1.8, 8820)
    assert time.process_time() - began_s < 40 / 20


@pytest.mark.parametrize("samples", [1, 575, 22050, 100_001])
def test_an_mp3_plays_exactly_as_long_as_its_sound(tmp_path: Path, samples: int) -> None:
    pcm = _tone(200, 5)[: 2 * samples]
    with Mp3File(tmp_path / "part", tmp_path / "sound.mp3", _RATE_HZ) as file:
        for at in range(0, len(pcm), 4410):
            file.write(pcm[at : at + 4410])
        made = file.finish()

    sound, rate_hz = soundfile.read(tmp_path / "sound.mp3", dtype="int16")
    assert (len(sound), rate_hz) == (samples, _RATE_HZ)
    content = (tmp_path / "sound.mp3").read_bytes()
    assert made == (samples / _RATE_HZ, len(content), hashlib.sha256(content).digest())
    assert not (tmp_path / "part").exists()


def test_an_mp3_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Mp3File(tmp_path / "part", tmp_path / "a.mp3", _RATE_HZ) as file:
        file.write(_tone(200, 1))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_speed_outside_the_engines_range_is_stretched() -> None:
    def length_at(rate: int) -> int:
        return 175_000_000 // rate  # an engine that keeps its rate exactly

    assert paced(1, length_at) == Pace(175, 1)
    native = paced(1.5, length_at)
    assert native.stretch == 1 and native.rate == pytest.approx(262, rel=0.02)
    slow, fast = paced(0.25, length_at), paced(4, length_at)
    assert (slow.rate, fast.rate) == (80, 449)
    assert slow.stretch == pytest.approx(80 / 43.75, rel=0.01)
    assert fast.stretch == pytest.approx(449 / 700, rel=0.01)


@pytest.mark.parametrize("length", [0, 1])
def test_a_text_without_length_has_a_positive_stretch(length: int) -> None:
    assert paced(2, lambda _rate: length).stretch > 0
