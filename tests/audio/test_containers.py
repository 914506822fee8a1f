"""The container of a file by its first bytes, and whether the file is truncated."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from myna.audio import mpeg
from myna.audio.containers import Container, is_truncated, kind, parts
from tests.rig.container_files import FFMPEG_SHAPES, WITHOUT_LENGTH, ffmpeg_file
from tests.rig.samples import voice, write_mp3

_SNDFILE = {
    "WAV": Container.WAV,
    "WAVEX": Container.WAV,
    "RF64": Container.WAV,
    "FLAC": Container.FLAC,
    "OGG": Container.OGG,
    "MP3": Container.MP3,
    "AIFF": Container.AIFF,
}
AMR = b"#!AMR\n" + 200 * (b"\x3c" + bytes(31))
"""Four seconds at 12.2 kbit/s."""
_BOX = struct.Struct(">I4s")


def _sndfile(name: str, seconds: float = 4) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, voice(seconds), 24_000, format=name)
    return file.getvalue()


def _recording(name: str, sound: NDArray[np.float32]) -> bytes:
    """The sound in one of FFMPEG_SHAPES. The amr is of empty frames: not every FFmpeg writes one."""
    return AMR if name == "amr" else ffmpeg_file(name, sound)


def _our_mp3(folder: Path, seconds: float) -> bytes:
    return write_mp3(folder / f"{seconds}.mp3", voice(seconds)).read_bytes()


@pytest.mark.parametrize("name", _SNDFILE)
def test_a_container_is_recognised_by_its_first_bytes(name: str) -> None:
    assert kind(_sndfile(name)) is _SNDFILE[name]


@pytest.mark.parametrize("name", FFMPEG_SHAPES)
def test_recordings_of_phones_and_browsers_are_recognised(name: str) -> None:
    first = name.split()[0]
    named = {"m4a": Container.MP4, "mp4": Container.MP4}.get(first) or Container(first)
    assert kind(_recording(name, voice(4, 48_000))) is named


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"R",
        b"RIFF",
        b"RIFF\0\0\0\0AVI LIST",
        b"#EXTM3U\n",
        b"<html>",
        b"\x89PNG\r\n\x1a\n",
        bytes(100),
        b"\xff" * 100,
    ],
)
def test_other_files_are_not_recognised(data: bytes) -> None:
    assert kind(data) is None


@pytest.mark.parametrize("name", [name for name in _SNDFILE if name != "FLAC"])
def test_a_file_cut_anywhere_is_truncated(name: str) -> None:
    data = _sndfile(name)
    assert not is_truncated(data, _SNDFILE[name])
    cuts = np.random.default_rng(1).integers(len(data) // 8, len(data), 100)
    found = [is_truncated(data[:cut], _SNDFILE[name]) for cut in cuts]
    assert sum(found) >= 97  # truncation between two pages or frames can't be detected


@pytest.mark.parametrize("name", FFMPEG_SHAPES)
def test_a_cut_file_that_states_its_size_is_truncated(name: str) -> None:
    data = _recording(name, voice(4, 48_000))
    what = kind(data)
    assert what is not None and not is_truncated(data, what)
    states_its_size = name not in WITHOUT_LENGTH
    for share in (0.2, 0.5, 0.9, 0.999):
        assert is_truncated(data[: int(len(data) * share)], what) is states_its_size


@pytest.mark.parametrize("size", [0, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x7FFF_FFFF - 36])
def test_a_wav_written_to_a_pipe_states_no_size_and_is_whole(size: int) -> None:
    data = bytearray(_sndfile("WAV"))
    struct.pack_into("<I", data, data.index(b"data") + 4, size)
    assert not is_truncated(bytes(data), Container.WAV)


def test_a_wav_without_samples_is_whole_and_one_cut_in_its_header_is_truncated() -> None:
    head = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0" + bytes(16)
    assert not is_truncated(head, Container.WAV)
    assert is_truncated(head[:-1], Container.WAV)


def test_a_box_may_have_a_64_bit_size_or_none() -> None:
    start = _BOX.pack(8, b"ftyp")
    assert not is_truncated(start + _BOX.pack(0, b"mdat") + bytes(100), Container.MP4)
    assert not is_truncated(
        start + _BOX.pack(1, b"mdat") + struct.pack(">Q", 116) + bytes(100), Container.MP4
    )
    assert is_truncated(start + _BOX.pack(1, b"mdat") + struct.pack(">Q", 117) + bytes(100), Container.MP4)


@pytest.mark.parametrize("rest", [b"", b"\x80", b"\x81\0", b"\x81\0\x18\x53\x80", b"\x10\xff\xff\xff" * 3])
def test_a_webm_without_its_segment_is_truncated(rest: bytes) -> None:
    assert is_truncated(b"\x1a\x45\xdf\xa3" + rest, Container.WEBM)


def test_joined_mp3s_are_split_where_they_were_joined(tmp_path: Path) -> None:
    one, two = _our_mp3(tmp_path, 5), _our_mp3(tmp_path, 4)
    assert list(parts(one + two, Container.MP3)) == [one, two]
    assert list(parts(one, Container.MP3)) == [one]
    assert mpeg.duration_s(one + two) == pytest.approx(9, abs=0.01)
    assert not is_truncated(one + two, Container.MP3) and is_truncated((one + two)[:-10], Container.MP3)


def test_a_tag_after_the_last_frame_is_no_truncation(tmp_path: Path) -> None:
    data = _our_mp3(tmp_path, 4)
    assert not is_truncated(data + b"TAG" + bytes(125), Container.MP3)
    assert not is_truncated(data + b"APETAGEX" + bytes(200), Container.MP3)


def test_data_that_is_not_mp3_is_one_part() -> None:
    data = _sndfile("WAV")
    assert list(parts(data, Container.WAV)) == [data]


@pytest.mark.parametrize("what", Container)
def test_empty_data_is_handled(what: Container) -> None:
    random = np.random.default_rng(2)
    for size in range(64):
        data = random.integers(0, 256, size, np.uint8).tobytes()
        assert is_truncated(data, what) in (True, False)
        assert kind(data) in (None, *Container)
