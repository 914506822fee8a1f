"""Which recordings are valid voice samples, in every format, and what can be read of one that breaks off."""

import functools
import hashlib
import io
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from myna.engines.espeak.engine import Espeak
from myna.engines.interface import SampleRefused, Utterance
from myna.engines.media.job import Measured
from myna.engines.media.media import Inspector
from myna.engines.media.recording import DamagedRecording, UnreadableRecording, opened
from tests.engines.conftest import DAMAGED, names, put
from tests.rig.samples import (
    FFMPEG_RATE_HZ,
    FFMPEG_SHAPES,
    RATE_HZ,
    WITHOUT_LENGTH,
    ffmpeg_file,
    voice,
    write_mp3,
    write_voice,
)

_NOISE = np.random.default_rng(1)


def _encoded(
    sound: NDArray[np.float32], name: str, subtype: str | None = None, rate_hz: int = RATE_HZ
) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, sound, rate_hz, format=name, subtype=subtype)
    return file.getvalue()


@functools.cache
def _ten_seconds(name: str) -> bytes:
    shaped = name in FFMPEG_SHAPES
    return ffmpeg_file(name, voice(10, FFMPEG_RATE_HZ)) if shaped else _encoded(voice(10), name)


async def _sampled(inspector: Inspector, folder: Path, data: bytes) -> Measured:
    """The inspected sample; checks its file."""
    target = folder / "sample.wav"
    sample = await inspector.sample(put(folder, data), target)
    written = target.read_bytes()
    assert (sample.size_bytes, sample.sha256) == (len(written), hashlib.sha256(written).digest())
    info = soundfile.info(target)
    assert (info.format, info.subtype, info.channels, info.samplerate) == ("WAV", "PCM_16", 1, 24_000)
    assert info.frames / 24_000 == sample.seconds
    return sample


async def _refused(inspector: Inspector, folder: Path, data: bytes, says: str) -> None:
    with pytest.raises(SampleRefused, match=says):
        await inspector.sample(put(folder, data), folder / "sample.wav")
    assert names(folder) == ["upload"]


@pytest.mark.parametrize("rate_hz", [8_000, 44_100])
@pytest.mark.parametrize(
    ("name", "subtype"),
    [
        ("WAV", "PCM_16"),
        ("WAV", "PCM_24"),
        ("WAV", "FLOAT"),
        ("WAV", "MS_ADPCM"),
        ("FLAC", "PCM_16"),
        ("MP3", "MPEG_LAYER_III"),
        ("OGG", "VORBIS"),
        ("AIFF", "PCM_16"),
    ],
)
async def test_a_recording_becomes_a_sample(
    inspector: Inspector, tmp_path: Path, name: str, subtype: str, rate_hz: int
) -> None:
    data = _encoded(voice(5, rate_hz), name, subtype, rate_hz)
    assert (await _sampled(inspector, tmp_path, data)).seconds == pytest.approx(5, abs=0.15)


async def test_channels_are_mixed(inspector: Inspector, tmp_path: Path) -> None:
    sound = voice(5)
    await _sampled(inspector, tmp_path, _encoded(np.stack([sound, 0 * sound], axis=1), "WAV", "FLOAT"))
    kept, _ = soundfile.read(tmp_path / "sample.wav", dtype="float32")
    assert np.abs(kept - sound / 2).max() < 1 / 32_000


async def test_real_speech_is_a_good_sample(inspector: Inspector, espeak: Espeak, tmp_path: Path) -> None:
    path = tmp_path / "said.mp3"
    text = "The weather is lovely today, shall we go for a walk in the park?"
    spoken = await espeak.speak(Utterance(text, "en-gb-male-1", 0.8), path, 30)
    assert (await inspector.sample(path, tmp_path / "s.wav")).seconds == pytest.approx(
        spoken.seconds, abs=0.01
    )


def _noisy() -> NDArray[np.float32]:
    return 0.2 * voice(6) + _NOISE.normal(0, 0.05, 6 * RATE_HZ).astype(np.float32)


def _tone() -> NDArray[np.float32]:
    return (0.3 * np.sin(np.arange(10 * RATE_HZ) / 20)).astype(np.float32)


@pytest.mark.parametrize(
    ("sound", "says"),
    [
        (lambda: voice(2.99), r"^The recording is 2\.9 s long; send at least 3 s\.$"),
        (lambda: voice(60.6), r"^The recording is longer than 60 s; send a part of it\.$"),
        (lambda: voice(5) * 0, r"^The recording is silent or nearly so; speak closer to the microphone\.$"),
        (lambda: voice(5) * np.float32(0.003), r"^The recording is silent or nearly so"),
        (
            lambda: np.concatenate([np.zeros(20 * RATE_HZ, np.float32), voice(2)]),
            r"^Only 1\.\d s of the recording are clearly louder than its background; send at least 2 s",
        ),
        (_noisy, r"^Only \d\.\d s of the recording are clearly louder"),
        (_tone, r"^Only 0\.0 s of the recording are clearly louder"),
        (
            lambda: np.clip(voice(5) * 8, -1, 1),
            r"^The recording is too loud and distorted; turn the microphone down and record again\.$",
        ),
    ],
)
@pytest.mark.parametrize("name", ["WAV", "FLAC"])
async def test_an_unusable_recording_is_refused(
    inspector: Inspector, tmp_path: Path, name: str, sound: Callable[[], NDArray[np.float32]], says: str
) -> None:
    await _refused(inspector, tmp_path, _encoded(sound(), name), says)


async def test_a_file_over_20_mb_is_refused(inspector: Inspector, tmp_path: Path) -> None:
    source = write_voice(tmp_path / "large.wav", 60)
    with source.open("r+b") as file:
        file.truncate(20 * 2**20 + 1)
    with pytest.raises(
        SampleRefused, match=r"^The file is over 20 MB; send a shorter recording, or the same as mp3\.$"
    ):
        await inspector.sample(source, tmp_path / "sample.wav")


@pytest.mark.parametrize("share", [0.3, 0.97])
@pytest.mark.parametrize(
    "name",
    ["WAV", "FLAC", "OGG", "MP3", "AIFF", *(name for name in FFMPEG_SHAPES if name not in WITHOUT_LENGTH)],
)
async def test_a_truncated_file_is_refused(
    inspector: Inspector, tmp_path: Path, name: str, share: float
) -> None:
    data = _ten_seconds(name)
    await _refused(inspector, tmp_path, data[: int(len(data) * share) + 1], DAMAGED)


async def test_a_file_truncated_between_boxes_is_refused_by_its_stated_length(
    inspector: Inspector, tmp_path: Path
) -> None:
    webm = bytearray(ffmpeg_file("webm", voice(10, FFMPEG_RATE_HZ)))
    size_at = webm.index(b"\x18\x53\x80\x67") + 4
    webm[size_at : size_at + 8] = (
        b"\x01" + b"\xff" * 7
    )  # the Segment's size is unknown; its Info keeps the length
    await _refused(inspector, tmp_path, bytes(webm[: len(webm) // 2]), DAMAGED)

    mp3 = write_mp3(
        tmp_path / "upload", voice(10)
    ).read_bytes()  # frames of 144 bytes, the first of which has metadata
    await _refused(inspector, tmp_path, mp3[: 144 * 200], DAMAGED)


def _mp3_in_matroska(*mp3s: bytes) -> bytes:
    """The frames of all files as one track with the description of the first."""
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as container:
        with av.open(io.BytesIO(mp3s[0]), "r") as first:
            track = container.add_stream_from_template(first.streams.audio[0])
        for mp3 in mp3s:
            with av.open(io.BytesIO(mp3), "r") as source:
                for packet in source.demux(source.streams.audio[0]):
                    if packet.size:
                        packet.stream = track
                        packet.pts = None
                        packet.dts = None
                        container.mux(packet)
    return file.getvalue()


async def test_a_file_whose_format_changes_midway_is_refused(inspector: Inspector, tmp_path: Path) -> None:
    says = r"^The file changes its sample rate or its channels midway; export it again\.$"
    mono, stereo = (_encoded(sound, "MP3") for sound in (voice(5), np.stack([voice(5)] * 2, axis=1)))
    slower = _encoded(voice(5, 16_000), "MP3", rate_hz=16_000)

    await _sampled(inspector, tmp_path, mono + mono)
    (tmp_path / "sample.wav").unlink()
    await _refused(inspector, tmp_path, mono + stereo, says)
    await _refused(inspector, tmp_path, mono + slower, says)

    await _sampled(inspector, tmp_path, _mp3_in_matroska(mono, mono))
    (tmp_path / "sample.wav").unlink()
    await _refused(inspector, tmp_path, _mp3_in_matroska(mono, stereo), says)


async def test_an_m4a_without_its_decoder_names_the_missing_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = tmp_path / "absent"
    absent.mkdir()
    (absent / "av.py").write_text("raise ImportError('not installed')")
    monkeypatch.setenv("PYTHONPATH", str(absent))
    inspector = Inspector(job_deadline_s=300, deadline_s=300)
    source = tmp_path / "voice.m4a"
    for name, called in (("m4a", "mp4"), ("webm", "webm")):
        source.write_bytes(ffmpeg_file(name, voice(5, FFMPEG_RATE_HZ)))
        says = f"^Files in {called} can't be read here; send wav, aiff, flac, mp3 or ogg, or have the"
        says += r" operator install Myna with its extra 'm4a'\.$"
        with pytest.raises(SampleRefused, match=says):
            await inspector.sample(source, tmp_path / "sample.wav")
    assert await _sampled(inspector, tmp_path, _encoded(voice(5), "OGG"))
    await inspector.close()


@pytest.mark.parametrize("name", FFMPEG_SHAPES)
async def test_recordings_of_phones_and_browsers_become_samples(
    inspector: Inspector, tmp_path: Path, name: str
) -> None:
    data = ffmpeg_file(name, voice(5, FFMPEG_RATE_HZ))
    assert (await _sampled(inspector, tmp_path, data)).seconds == pytest.approx(5, abs=0.05)


def readable_s(data: bytes) -> float:
    """Seconds that are decoded."""
    with opened(data, whole=False) as recording:
        return sum(len(block) for block in recording.blocks) / recording.rate_hz


@pytest.mark.parametrize(
    "name",
    [
        *("WAV", "AIFF", "FLAC", "OGG", "MP3"),
        *("mp4 in fragments", "webm", "aac", "amr", "caf without compression"),
    ],
)
def test_the_first_half_of_a_file_is_read(name: str) -> None:
    data = _ten_seconds(name)
    half = data[: len(data) // 2]
    assert readable_s(half) == pytest.approx(5, rel=0.3)
    if name not in WITHOUT_LENGTH:
        with pytest.raises(DamagedRecording), opened(half) as recording:
            list(recording.blocks)


def test_the_first_half_of_a_short_flac_is_read() -> None:
    data = _encoded(voice(2), "FLAC")
    assert readable_s(data[: len(data) // 2]) == pytest.approx(1, rel=0.3)


def test_a_damaged_frame_ends_the_recording() -> None:
    data = bytearray(_ten_seconds("FLAC"))
    data[len(data) // 2 : len(data) // 2 + 2_000] = bytes(2_000)
    assert 0 < readable_s(bytes(data)) < 10


@pytest.mark.parametrize(
    "made", [lambda: b"fLaC" + bytes(99), lambda: _ten_seconds("m4a")[:9_000], lambda: b"ID3\4" + bytes(999)]
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
