"""Mp3 files: their length, compared with files of a known number of samples, the times of their words, and
truncation of every container."""

import io
import random
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myna.engines.audio import word_times
from myna.engines.audio.containers import Container, is_truncated, kind, parts
from myna.engines.audio.mp3 import STRAY_MAX_BYTES, Mp3File, duration_s
from myna.engines.interface import WordTime
from tests.rig.samples import FFMPEG_SHAPES, WITHOUT_LENGTH, ffmpeg_file, mp3, voice, write_mp3

ID3V2 = b"ID3\x04\x00\x00\x00\x00\x01\x05" + b"t" * 133  # 1 << 7 | 5 bytes after the header
ID3V1 = b"TAG" + b"t" * 125


@pytest.mark.parametrize(
    ("rate_hz", "kbps", "channels"),
    [(44_100, 128, 2), (48_000, 320, 1), (22_050, 48, 1), (16_000, 32, 2), (11_025, 32, 1), (8_000, 16, 1)],
)
def test_every_rate_is_measured(rate_hz: int, kbps: int, channels: int) -> None:
    # LAME writes whole frames and adds a delay: at most three frames over the sound.
    frames_s = 3 * (1152 if rate_hz >= 32_000 else 576) / rate_hz

    assert 1.7 <= duration_s(mp3(1.7, rate_hz, kbps, channels)) <= 1.7 + frames_s


def test_encoder_delay_is_subtracted_if_the_file_states_it(tmp_path: Path) -> None:
    for rate_hz, samples in ((22_050, 22_050), (22_050, 100_001), (44_100, 50_000)):
        with Mp3File(tmp_path / "part", tmp_path / "a.mp3", rate_hz) as file:
            file.write(random.Random(1).randbytes(2 * samples))
            info = file.finish()

        assert duration_s((tmp_path / "a.mp3").read_bytes()) == pytest.approx(info.seconds, abs=1e-9)


def test_tags_and_stray_bytes_have_no_length() -> None:
    sound = mp3(1.0)

    for data in (ID3V2 + sound, sound + ID3V1, ID3V2 + sound + ID3V2 + sound[:0] + ID3V1, b"stray" + sound):
        assert duration_s(data) == pytest.approx(duration_s(sound))


def test_a_last_frame_that_was_cut_off_is_not_counted() -> None:
    sound = mp3(1.0)
    frames = round(duration_s(sound) * 24_000 / 576)

    assert duration_s(sound[:-1]) * 24_000 / 576 == pytest.approx(frames - 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\xff\xfb\x90\x00",
        b"<html>no sound</html>" * 200,
        b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(5000),
        b"OggS" + bytes(5000),
        b"\xff" * 5000,
        ID3V2,
        ID3V2 + ID3V1,
        b"ID3\x04\x00\x00\x7f\x7f\x7f\x7f",
    ],
)
def test_data_without_frames_has_no_length(data: bytes) -> None:
    assert duration_s(data) == 0


def test_the_search_through_stray_bytes_is_bounded() -> None:
    assert duration_s(bytes(STRAY_MAX_BYTES) + mp3(1.0)) == 0
    assert duration_s(bytes(STRAY_MAX_BYTES - 1) + mp3(1.0)) > 0


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


def _our_mp3(folder: Path, seconds: float) -> bytes:
    return write_mp3(folder / f"{seconds}.mp3", voice(seconds)).read_bytes()


@pytest.mark.parametrize("name", _SNDFILE)
def test_a_container_is_recognised_by_its_first_bytes(name: str) -> None:
    assert kind(_sndfile(name)) is _SNDFILE[name]


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
    data = AMR if name == "amr" else ffmpeg_file(name, voice(4, 48_000))  # not every FFmpeg writes amr
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
    assert list(parts(one, Container.WAV)) == [one]
    assert duration_s(one + two) == pytest.approx(9, abs=0.01)
    assert not is_truncated(one + two, Container.MP3) and is_truncated((one + two)[:-10], Container.MP3)


def test_a_tag_after_the_last_frame_is_no_truncation(tmp_path: Path) -> None:
    data = _our_mp3(tmp_path, 4)
    assert not is_truncated(data + b"TAG" + bytes(125), Container.MP3)
    assert not is_truncated(data + b"APETAGEX" + bytes(200), Container.MP3)


@pytest.mark.parametrize("what", Container)
def test_empty_data_is_handled(what: Container) -> None:
    random = np.random.default_rng(2)
    for size in range(64):
        data = random.integers(0, 256, size, np.uint8).tobytes()
        assert is_truncated(data, what) in (True, False)
        assert kind(data) in (None, *Container)


RATE_HZ = 24_000
WORDS = [WordTime("今天，", 0.1, 0.4), WordTime("a <b> & ", 1.0, 2.2)]


def spoken(folder: Path, words: list[WordTime]) -> Path:
    """Three seconds of silence."""
    path = folder / "a.mp3"
    with Mp3File(folder / "part", path, RATE_HZ) as file:
        file.write(bytes(2 * 3 * RATE_HZ))
        assert file.finish(word_times.tag(words)).size_bytes == path.stat().st_size
    return path


def test_an_mp3_keeps_its_words_and_its_sound(tmp_path: Path) -> None:
    path = spoken(tmp_path, WORDS)
    assert word_times.read(path) == WORDS
    data = path.read_bytes()
    assert duration_s(data) == pytest.approx(3)
    assert not is_truncated(data, Container.MP3)
    assert soundfile.info(path).frames == len(soundfile.read(path)[0]) == 3 * RATE_HZ


@pytest.mark.parametrize("damage", ["none", "cut", "length", "json"])
def test_an_mp3_without_a_whole_tag_has_no_words(tmp_path: Path, damage: str) -> None:
    path = spoken(tmp_path, [] if damage == "none" else WORDS)
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data.pop()
    elif damage == "length":
        data[-20:-16] = b"\xff\xff\xff\x7f"
    elif damage == "json":
        data[-33:-32] = b"["
    path.write_bytes(data)
    assert word_times.read(path) == []


def test_captions_end_with_sentences_and_at_pauses() -> None:
    words = [WordTime(f"{word} ", at, at + 0.4) for at, word in enumerate(("One", "two.", "Three"))]
    words = [
        *words,
        *(WordTime("字" * 5, 3 + at / 2, 3.5 + at / 2) for at in range(6)),
        WordTime("a <b> &", 7, 8),
    ]
    assert word_times.srt(
        word_times.cues_of([WordTime("One ", 0, 0.2), WordTime("two.", 0.3, 0.5), *WORDS[1:]])
    ) == ("1\n00:00:00,000 --> 00:00:00,500\nOne two.\n\n2\n00:00:01,000 --> 00:00:02,200\na <b> &\n\n")
    assert (
        word_times.vtt(word_times.cues_of(WORDS[1:]))
        == "WEBVTT\n\n00:00:01.000 --> 00:00:02.200\na &lt;b&gt; &amp;\n\n"
    )
    cues = [cue.split("\n")[2] for cue in word_times.srt(word_times.cues_of(words)).split("\n\n")[:-1]]
    assert cues == ["One", "two.", "Three", "字" * 20, "字" * 10, "a <b> &"]
