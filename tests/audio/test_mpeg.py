"""The length of an mp3, compared with files of a known number of samples."""

import random
from pathlib import Path

import pytest

from myna.audio.mp3 import Mp3File
from myna.audio.mpeg import STRAY_MAX_BYTES, duration_s, frame
from tests.rig.samples import mp3

ID3V2 = b"ID3\x04\x00\x00\x00\x00\x01\x05" + b"t" * 133  # 1 << 7 | 5 bytes after the header
ID3V1 = b"TAG" + b"t" * 125


@pytest.mark.parametrize(
    ("rate_hz", "kbps", "channels"),
    [
        (44_100, 128, 2),
        (44_100, 64, 1),
        (48_000, 320, 2),
        (32_000, 48, 1),
        (24_000, 64, 1),
        (22_050, 48, 1),
        (16_000, 32, 2),
        (12_000, 24, 1),
        (11_025, 32, 1),
        (8_000, 16, 1),
    ],
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


def test_the_length_of_joined_files_is_their_sum() -> None:
    one, two = mp3(1.0), mp3(2.0, 44_100, 128)

    assert duration_s(one + two) == pytest.approx(duration_s(one) + duration_s(two))


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


def test_random_bytes_are_rarely_parsed_as_frames() -> None:
    assert duration_s(random.Random(7).randbytes(200_000)) < 0.1


def test_the_search_through_stray_bytes_is_bounded() -> None:
    assert duration_s(bytes(STRAY_MAX_BYTES) + mp3(1.0)) == 0
    assert duration_s(bytes(STRAY_MAX_BYTES - 1) + mp3(1.0)) > 0


@pytest.mark.parametrize(
    "header",
    [
        "fffb00",  # three bytes
        "fffb0000",  # a free bit rate
        "fffbf000",  # no bit rate
        "fffb9c00",  # no sample rate
        "ffeb9000",  # no version
        "fffd9000",  # layer II
        "ff7b9000",  # no sync
        "fefb9000",
    ],
)
def test_an_invalid_header_is_no_frame(header: str) -> None:
    assert frame(bytes.fromhex(header)) is None


def test_a_header_gives_the_length_of_its_frame() -> None:
    found = frame(bytes.fromhex("fffb9264"))  # version 1, 128 kbit/s, 44,100 Hz, padded

    assert found is not None
    assert (found.size_bytes, found.samples, found.rate_hz) == (418, 1152, 44_100)
