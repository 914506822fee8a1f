"""What can be decoded of a recording that breaks off. Whole recordings are in test_recordings.py."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myna.engines.media.recording import DamagedRecording, UnreadableRecording, opened
from tests.rig.samples import FFMPEG_RATE_HZ, RATE_HZ, ffmpeg_file, voice, write_mp3

SECONDS = 12.0


def of_sndfile(name: str, seconds: float = SECONDS) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, voice(seconds), RATE_HZ, format=name)
    return file.getvalue()


def of_ffmpeg(name: str) -> bytes:
    return ffmpeg_file(name, voice(SECONDS, FFMPEG_RATE_HZ))


def readable_s(data: bytes) -> float:
    """Seconds that are decoded."""
    with opened(data, whole=False) as recording:
        return sum(len(block) for block in recording.blocks) / recording.rate_hz


@pytest.mark.parametrize("name", ["WAV", "AIFF", "FLAC", "OGG", "MP3"])
def test_the_first_half_of_a_file_is_read(name: str) -> None:
    data = of_sndfile(name)
    half = data[: len(data) // 2]
    assert readable_s(half) == pytest.approx(SECONDS / 2, rel=0.3)
    with pytest.raises(DamagedRecording), opened(half) as recording:
        list(recording.blocks)


@pytest.mark.parametrize("name", ["mp4 in fragments", "webm", "aac", "amr", "caf without compression"])
def test_the_first_half_of_a_file_of_a_phone_or_browser_is_read(name: str) -> None:
    data = of_ffmpeg(name)
    assert readable_s(data[: len(data) // 2]) == pytest.approx(SECONDS / 2, rel=0.25)


def test_the_first_half_of_a_short_flac_is_read() -> None:
    data = of_sndfile("FLAC", 2.0)
    assert readable_s(data[: len(data) // 2]) == pytest.approx(1, rel=0.3)


def test_a_damaged_frame_ends_the_recording() -> None:
    data = bytearray(of_sndfile("FLAC"))
    data[len(data) // 2 : len(data) // 2 + 2_000] = bytes(2_000)
    assert 0 < readable_s(bytes(data)) < SECONDS


@pytest.mark.parametrize(
    "made", [lambda: b"fLaC" + bytes(99), lambda: of_ffmpeg("m4a")[:9_000], lambda: b"ID3\4" + bytes(999)]
)
def test_a_file_of_which_nothing_can_be_decoded_is_refused(made: Callable[[], bytes]) -> None:
    """An m4a has its index at its end."""
    with pytest.raises(DamagedRecording):
        readable_s(made())


def test_a_file_that_changes_midway_is_refused_not_cut(tmp_path: Path) -> None:
    mono = write_mp3(tmp_path / "a.mp3", voice(2)).read_bytes()
    slower = write_mp3(tmp_path / "b.mp3", voice(2, 16_000), 16_000).read_bytes()
    with pytest.raises(UnreadableRecording, match="changes its sample rate"):
        readable_s(mono + slower)
    assert not np.isnan(readable_s(mono))
