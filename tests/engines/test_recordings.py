"""Which recordings are valid voice samples, in every format, and the errors of the others."""

import functools
import hashlib
import io
import struct
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from myna.audio.encoders import SoundFormat, encoder_of
from myna.engines.espeak.engine import Espeak
from myna.engines.inspector.inspector import Inspector, Sample, SampleRefused
from myna.engines.interface import Utterance
from tests.engines.conftest import DAMAGED, names, put
from tests.rig.container_files import FFMPEG_SHAPES, FILM, WITHOUT_LENGTH, ffmpeg_file
from tests.rig.container_files import RATE_HZ as FFMPEG_RATE_HZ
from tests.rig.samples import RATE_HZ, voice, write_mp3, write_voice, write_wav

pytestmark = pytest.mark.anyio

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


async def _sampled(inspector: Inspector, folder: Path, data: bytes) -> Sample:
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


async def test_opus_in_ogg_becomes_a_sample(inspector: Inspector, tmp_path: Path) -> None:
    data = _encoded(voice(5, 48_000), "OGG", "OPUS", 48_000)
    assert (await _sampled(inspector, tmp_path, data)).seconds == pytest.approx(5, abs=0.01)


@pytest.mark.parametrize("kind", [one for one in SoundFormat if one is not SoundFormat.PCM])
async def test_a_recording_that_was_encoded_as_a_stream_becomes_a_sample(
    inspector: Inspector, tmp_path: Path, kind: SoundFormat
) -> None:
    """It states no length, or that of no file."""
    encoder = encoder_of(kind)
    data = encoder.encode((voice(5) * 32_000).astype("<i2").tobytes()) + encoder.finish()
    assert (await _sampled(inspector, tmp_path, data)).seconds == pytest.approx(5, abs=0.1)


@pytest.mark.parametrize("name", FFMPEG_SHAPES)
async def test_recordings_of_phones_and_browsers_become_samples(
    inspector: Inspector, tmp_path: Path, name: str
) -> None:
    data = ffmpeg_file(name, voice(5, FFMPEG_RATE_HZ))
    assert (await _sampled(inspector, tmp_path, data)).seconds == pytest.approx(5, abs=0.05)


async def test_the_sound_of_a_video_becomes_a_sample(inspector: Inspector, tmp_path: Path) -> None:
    data = ffmpeg_file("m4a", voice(5, FFMPEG_RATE_HZ), picture=True)
    assert (await _sampled(inspector, tmp_path, data)).seconds == pytest.approx(5, abs=0.05)


async def test_the_sound_is_preserved(inspector: Inspector, tmp_path: Path) -> None:
    sound = voice(5)
    await _sampled(inspector, tmp_path, _encoded(sound, "WAV", "FLOAT"))
    kept, _ = soundfile.read(tmp_path / "sample.wav", dtype="float32")
    assert np.abs(kept - sound).max() < 1 / 32_000

    await _sampled(inspector, tmp_path, _encoded(voice(5, 48_000), "FLAC", "PCM_24", 48_000))
    halved, _ = soundfile.read(tmp_path / "sample.wav", dtype="float32")
    steady = slice(1_000, 24_000)
    assert np.corrcoef(halved[steady], sound[steady])[0, 1] > 0.999


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


async def test_generated_voices_are_good_samples_from_4_to_60_seconds(
    inspector: Inspector, tmp_path: Path
) -> None:
    for seconds in (4, 12, 60):
        source = write_voice(tmp_path / "voice.wav", seconds)
        assert (await inspector.sample(source, tmp_path / "sample.wav")).seconds == seconds


async def test_three_seconds_of_speech_are_enough(inspector: Inspector, tmp_path: Path) -> None:
    source = write_wav(tmp_path / "short.wav", voice(3.0))
    assert (await inspector.sample(source, tmp_path / "sample.wav")).seconds == pytest.approx(3.0, abs=0.01)


async def test_encoder_padding_after_a_minute_is_accepted(inspector: Inspector, tmp_path: Path) -> None:
    data = ffmpeg_file("m4a", voice(60, FFMPEG_RATE_HZ))
    assert 60 < (await _sampled(inspector, tmp_path, data)).seconds < 60.1


def _silent() -> NDArray[np.float32]:
    return voice(5) * np.float32(0.003)


def _mostly_silence() -> NDArray[np.float32]:
    return np.concatenate([np.zeros(20 * RATE_HZ, np.float32), voice(2)])


def _noisy() -> NDArray[np.float32]:
    return 0.2 * voice(6) + _NOISE.normal(0, 0.05, 6 * RATE_HZ).astype(np.float32)


def _distorted() -> NDArray[np.float32]:
    return np.clip(voice(5) * 8, -1, 1)


def _tone() -> NDArray[np.float32]:
    return (0.3 * np.sin(np.arange(10 * RATE_HZ) / 20)).astype(np.float32)


@pytest.mark.parametrize(
    ("sound", "says"),
    [
        (lambda: voice(2.99), r"^The recording is 2\.9 s long; send at least 3 s\.$"),
        (lambda: voice(60.6), r"^The recording is longer than 60 s; send a part of it\.$"),
        (lambda: voice(5) * 0, r"^The recording is silent or nearly so; speak closer to the microphone\.$"),
        (_silent, r"^The recording is silent or nearly so"),
        (
            _mostly_silence,
            r"^Only 1\.\d s of the recording are clearly louder than its background; send at least 2 s",
        ),
        (_noisy, r"^Only \d\.\d s of the recording are clearly louder"),
        (_tone, r"^Only 0\.0 s of the recording are clearly louder"),
        (
            _distorted,
            r"^The recording is too loud and distorted; turn the microphone down and record again\.$",
        ),
    ],
)
@pytest.mark.parametrize("name", ["WAV", "FLAC"])
async def test_an_unusable_recording_is_refused(
    inspector: Inspector, tmp_path: Path, name: str, sound: Callable[[], NDArray[np.float32]], says: str
) -> None:
    await _refused(inspector, tmp_path, _encoded(sound(), name), says)


async def test_a_little_clipping_is_accepted(inspector: Inspector, tmp_path: Path) -> None:
    sound = voice(5)
    sound[1_000:1_100] = 1.0  # 100 of 120,000
    await _sampled(inspector, tmp_path, _encoded(sound, "WAV"))


@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf])
async def test_samples_that_are_not_finite_are_refused(
    inspector: Inspector, tmp_path: Path, what: float
) -> None:
    sound = voice(5)
    sound[77_777] = what
    await _refused(inspector, tmp_path, _encoded(sound, "WAV", "FLOAT"), "samples that are no numbers")


@pytest.mark.parametrize("rate_hz", [1, 7_999, 192_001, 2**31 - 1])
async def test_a_sample_rate_out_of_range_is_refused(
    inspector: Inspector, tmp_path: Path, rate_hz: int
) -> None:
    says = f"^The file has {rate_hz} samples a second; export it with 8000 to 192000.$"
    await _refused(inspector, tmp_path, _encoded(voice(5), "WAV", rate_hz=rate_hz), says)


async def test_too_many_channels_are_refused(inspector: Inspector, tmp_path: Path) -> None:
    data = _encoded(np.tile(voice(4)[:, None], 9), "WAV")
    await _refused(inspector, tmp_path, data, "^The file has 9 channels; export it with one, or at most 8.$")


async def test_a_file_over_20_mb_is_refused(inspector: Inspector, tmp_path: Path) -> None:
    source = write_voice(tmp_path / "large.wav", 60)
    with source.open("r+b") as file:
        file.truncate(20 * 2**20 + 1)
    with pytest.raises(
        SampleRefused, match=r"^The file is over 20 MB; send a shorter recording, or the same as mp3\.$"
    ):
        await inspector.sample(source, tmp_path / "sample.wav")


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"#EXTM3U\n/etc/passwd\n", b"\x89PNG\r\n\x1a\n" + bytes(99), _NOISE.bytes(9_999)]
)
async def test_a_file_that_is_not_audio_is_refused(inspector: Inspector, tmp_path: Path, data: bytes) -> None:
    says = r"^The file is not a recording that Myna can read; send wav, aiff, .*, amr, caf or webm\.$"
    await _refused(inspector, tmp_path, data, says)


@pytest.mark.parametrize(
    "head",
    [b"RIFF\0\0\0\0WAVE", b"fLaC", b"OggS", b"ID3\4\0\0\0\0\0\0", b"\0\0\0\x20ftypM4A ", b"\x1a\x45\xdf\xa3"],
)
async def test_a_valid_header_before_garbage_is_refused(
    inspector: Inspector, tmp_path: Path, head: bytes
) -> None:
    await _refused(inspector, tmp_path, head + _NOISE.bytes(9_999), DAMAGED)


@pytest.mark.parametrize("share", [0.3, 0.97])
@pytest.mark.parametrize("name", ["WAV", "FLAC", "OGG", "MP3", "AIFF"])
async def test_a_truncated_file_is_refused(
    inspector: Inspector, tmp_path: Path, name: str, share: float
) -> None:
    data = _ten_seconds(name)
    await _refused(inspector, tmp_path, data[: int(len(data) * share) + 1], DAMAGED)


@pytest.mark.parametrize("share", [0.3, 0.97])
@pytest.mark.parametrize("name", [name for name in FFMPEG_SHAPES if name not in WITHOUT_LENGTH])
async def test_a_truncated_m4a_or_webm_is_refused(
    inspector: Inspector, tmp_path: Path, name: str, share: float
) -> None:
    data = _ten_seconds(name)
    await _refused(inspector, tmp_path, data[: int(len(data) * share)], DAMAGED)


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


async def test_a_variable_bit_rate_mp3_without_a_length_is_not_shortened(
    inspector: Inspector, tmp_path: Path
) -> None:
    loud = np.concatenate([_NOISE.normal(0, 0.1, 8 * RATE_HZ), np.zeros(20 * RATE_HZ)]).astype(np.float32)
    file = io.BytesIO()
    soundfile.write(file, np.concatenate([loud, voice(8)]), RATE_HZ, format="MP3", bitrate_mode="VARIABLE")
    facts_bytes = 192
    await _refused(inspector, tmp_path, file.getvalue()[facts_bytes:], DAMAGED)


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


async def test_a_video_without_sound_is_refused(inspector: Inspector, tmp_path: Path) -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=5, width=64, height=64, pix_fmt="yuv420p")
        for frame in [av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24"), None]:
            container.mux(stream.encode(frame))
    await _refused(
        inspector, tmp_path, file.getvalue(), "^The file has no sound in it; send a recording of a voice.$"
    )


async def test_an_unsupported_codec_is_refused(inspector: Inspector, tmp_path: Path) -> None:
    data = ffmpeg_file(FILM, voice(5, FFMPEG_RATE_HZ))
    await _refused(
        inspector, tmp_path, data, "^The sound of the file is coded in a way that isn't read here; send wav,"
    )


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


async def test_a_wav_may_contain_another_codec(inspector: Inspector, tmp_path: Path) -> None:
    """The size of a wav that was written to a pipe is unknown; all its data is used."""
    data = bytearray(write_wav(tmp_path / "voice.wav", voice(5)).read_bytes())
    (tmp_path / "voice.wav").unlink()
    struct.pack_into("<I", data, 4, 0xFFFF_FFFF)
    struct.pack_into("<I", data, 40, 0xFFFF_FFFF)
    assert (await _sampled(inspector, tmp_path, bytes(data))).seconds == 5
