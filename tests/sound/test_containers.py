"""What a file's first bytes say it is, and whether its end is there."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myna.sound import mpeg
from myna.sound.containers import Kind, breaks_off, kind, parts
from tests.rig.samples import voice, write_mp3
from tests.rig.shapes import FFMPEG_SHAPES, ffmpeg_file

_SNDFILE = {
    "WAV": Kind.WAV,
    "WAVEX": Kind.WAV,
    "RF64": Kind.WAV,
    "FLAC": Kind.FLAC,
    "OGG": Kind.OGG,
    "MP3": Kind.MP3,
}
_BOX = struct.Struct(">I4s")


def _sndfile(name: str, seconds: float = 4) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, voice(seconds), 24_000, format=name)
    return file.getvalue()


def _our_mp3(folder: Path, seconds: float) -> bytes:
    return write_mp3(folder / f"{seconds}.mp3", voice(seconds)).read_bytes()


@pytest.mark.parametrize("name", _SNDFILE)
def test_a_file_is_known_by_its_first_bytes(name: str) -> None:
    assert kind(_sndfile(name)) is _SNDFILE[name]


@pytest.mark.parametrize("name", FFMPEG_SHAPES)
def test_what_phones_and_browsers_record_is_known_too(name: str) -> None:
    assert kind(ffmpeg_file(name, voice(4, 48_000))) is (Kind.WEBM if "webm" in name else Kind.MP4)


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
def test_what_is_no_recording_is_none(data: bytes) -> None:
    assert kind(data) is None


@pytest.mark.parametrize("name", [name for name in _SNDFILE if name != "FLAC"])
def test_a_file_whose_end_is_missing_breaks_off_wherever_it_was_cut(name: str) -> None:
    data = _sndfile(name)
    assert not breaks_off(data, _SNDFILE[name])
    cuts = np.random.default_rng(1).integers(len(data) // 8, len(data), 100)
    found = [breaks_off(data[:cut], _SNDFILE[name]) for cut in cuts]
    assert sum(found) >= 97  # a cut between two pages or frames can't be seen


@pytest.mark.parametrize("name", FFMPEG_SHAPES)
def test_a_file_of_boxes_or_elements_breaks_off_too(name: str) -> None:
    data = ffmpeg_file(name, voice(4, 48_000))
    what = kind(data)
    assert what is not None and not breaks_off(data, what)
    states_its_size = name != "webm that states no length"
    for share in (0.2, 0.5, 0.9, 0.999):
        assert breaks_off(data[: int(len(data) * share)], what) is states_its_size


@pytest.mark.parametrize("size", [0, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x7FFF_FFFF - 36])
def test_a_wav_written_to_a_pipe_states_no_size_and_is_whole(size: int) -> None:
    data = bytearray(_sndfile("WAV"))
    struct.pack_into("<I", data, data.index(b"data") + 4, size)
    assert not breaks_off(bytes(data), Kind.WAV)


def test_a_wav_without_any_sound_is_not_cut_and_one_cut_in_its_head_is() -> None:
    head = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0" + bytes(16)
    assert not breaks_off(head, Kind.WAV)
    assert breaks_off(head[:-1], Kind.WAV)


def test_a_box_may_state_a_long_size_or_none() -> None:
    start = _BOX.pack(8, b"ftyp")
    assert not breaks_off(start + _BOX.pack(0, b"mdat") + bytes(100), Kind.MP4)
    assert not breaks_off(start + _BOX.pack(1, b"mdat") + struct.pack(">Q", 116) + bytes(100), Kind.MP4)
    assert breaks_off(start + _BOX.pack(1, b"mdat") + struct.pack(">Q", 117) + bytes(100), Kind.MP4)


@pytest.mark.parametrize("rest", [b"", b"\x80", b"\x81\0", b"\x81\0\x18\x53\x80", b"\x10\xff\xff\xff" * 3])
def test_a_webm_without_its_segment_breaks_off(rest: bytes) -> None:
    assert breaks_off(b"\x1a\x45\xdf\xa3" + rest, Kind.WEBM)


def test_joined_mp3s_come_apart_where_they_were_joined(tmp_path: Path) -> None:
    one, two = _our_mp3(tmp_path, 5), _our_mp3(tmp_path, 4)
    assert list(parts(one + two, Kind.MP3)) == [one, two]
    assert list(parts(one, Kind.MP3)) == [one]
    assert mpeg.duration_s(one + two) == pytest.approx(9, abs=0.01)
    assert not breaks_off(one + two, Kind.MP3) and breaks_off((one + two)[:-10], Kind.MP3)


def test_a_tag_behind_the_last_frame_is_no_cut(tmp_path: Path) -> None:
    data = _our_mp3(tmp_path, 4)
    assert not breaks_off(data + b"TAG" + bytes(125), Kind.MP3)
    assert not breaks_off(data + b"APETAGEX" + bytes(200), Kind.MP3)


def test_what_is_no_mp3_is_one_part() -> None:
    data = _sndfile("WAV")
    assert list(parts(data, Kind.WAV)) == [data]


@pytest.mark.parametrize("what", Kind)
def test_no_bytes_at_all_upset_it(what: Kind) -> None:
    random = np.random.default_rng(2)
    for size in range(64):
        data = random.integers(0, 256, size, np.uint8).tobytes()
        assert breaks_off(data, what) in (True, False)
        assert kind(data) in (None, *Kind)
