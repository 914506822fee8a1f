"""Which files a compute node may upload as speech, and the errors of the others."""

from collections.abc import Callable
from pathlib import Path

import lameenc
import numpy as np
import pytest
from numpy.typing import NDArray

from myna.engines.interface import NoAudio
from myna.engines.media.job import Measured
from myna.engines.media.media import Inspector
from tests.engines.conftest import DAMAGED, put
from tests.rig.samples import voice, write_mp3, write_wav

pytestmark = pytest.mark.anyio

_NOISE = np.random.default_rng(1)


def _mp3(folder: Path, sound: NDArray[np.float32]) -> bytes:
    return write_mp3(folder / "made.mp3", sound).read_bytes()


def _hour_and_more() -> bytes:
    encoder = lameenc.Encoder()
    encoder.set_channels(1)
    encoder.set_in_sample_rate(8_000)
    encoder.set_bit_rate(8)
    encoder.silence()
    ten_s = bytes(encoder.encode((voice(10, 8_000) * 9_999).astype("<i2").tobytes())) + bytes(encoder.flush())
    return ten_s * 361


async def test_speech_is_decoded_from_end_to_end(inspector: Inspector, tmp_path: Path) -> None:
    one, two = _mp3(tmp_path, voice(5)), _mp3(tmp_path, voice(4))
    assert await inspector.speech(put(tmp_path, one), sender=1) == Measured(5.0)
    assert await inspector.speech(put(tmp_path, one + two), sender=1) == Measured(9.0)
    assert await inspector.speech(put(tmp_path, _mp3(tmp_path, voice(0.05))), sender=1) == Measured(0.05)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda folder: b"", r"^The file is not an mp3\.$"),
        (lambda folder: write_wav(folder / "made.wav", voice(5)).read_bytes(), r"^The file is not an mp3\.$"),
        (lambda folder: _NOISE.bytes(50_000), r"^The file is not an mp3\.$"),
        (lambda folder: b"ID3\4\0\0\0\0\0\0" + _NOISE.bytes(50_000), DAMAGED),
        (lambda folder: _mp3(folder, voice(5))[:-50], DAMAGED),
        (lambda folder: _mp3(folder, 0 * voice(5)), r"^The mp3 is silent from its beginning to its"),
        (lambda folder: _hour_and_more(), r"^The mp3 is longer than 3600 s\.$"),
    ],
)  # fmt: skip
async def test_a_file_that_is_not_a_complete_mp3_is_refused(
    inspector: Inspector, tmp_path: Path, made: Callable[[Path], bytes], says: str
) -> None:
    with pytest.raises(NoAudio, match=says):
        await inspector.speech(put(tmp_path, made(tmp_path)), sender=1)


async def test_speech_over_64_mb_is_refused(inspector: Inspector, tmp_path: Path) -> None:
    source = put(tmp_path, _mp3(tmp_path, voice(5)))
    with source.open("r+b") as file:
        file.truncate(64 * 2**20 + 1)
    with pytest.raises(NoAudio, match=r"^The file is over 64 MB\.$"):
        await inspector.speech(source, sender=1)
