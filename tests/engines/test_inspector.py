"""The inspector: its process, which files of speech it accepts, and files that crash or hang it."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import lameenc
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from myna.engines.interface import EngineFailed, EngineUnavailable, NoAudio, SampleRefused
from myna.engines.media.job import Measured
from myna.engines.media.media import Inspector
from tests.engines.conftest import DAMAGED, names, put
from tests.rig import processes
from tests.rig.disks import StuckFile
from tests.rig.processes import runs
from tests.rig.samples import (
    FFMPEG_RATE_HZ,
    FFMPEG_SHAPES,
    RATE_HZ,
    ffmpeg_file,
    voice,
    write_mp3,
    write_voice,
    write_wav,
)
from tests.rig.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

_MIB = 2**20
_MUTANTS = 120


@pytest.fixture
async def own() -> AsyncIterator[Inspector]:
    """An inspector of the test alone."""
    inspector = Inspector(job_deadline_s=300, deadline_s=300)
    yield inspector
    await inspector.close()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write_voice(tmp_path / "voice.wav")


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[StuckFile]:
    stuck = StuckFile(tmp_path / "stuck")
    yield stuck
    stuck.close()


async def test_a_closed_inspector_has_no_process_and_refuses_files(
    own: Inspector, good: Path, tmp_path: Path
) -> None:
    await own.sample(good, tmp_path / "sample.wav")
    [pid] = own.pids()

    await own.close()
    await own.close()

    assert not runs(pid)
    with pytest.raises(EngineUnavailable):
        await own.sample(good, tmp_path / "second.wav")
    assert names(tmp_path) == ["sample.wav", "voice.wav"]


async def test_a_file_that_crashes_the_child_is_refused_and_the_next_is_accepted(
    own: Inspector, good: Path, stuck: StuckFile, tmp_path: Path
) -> None:
    reading = asyncio.create_task(own.sample(stuck.path, tmp_path / "sample.wav"))
    await until(stuck.has_reader)
    [pid] = own.pids()

    os.kill(pid, signal.SIGSEGV)

    with pytest.raises(SampleRefused, match=r"^The recording could not be read; export it again, as wav\.$"):
        await reading
    assert names(tmp_path) == ["stuck", "voice.wav"]
    assert (await own.sample(good, tmp_path / "sample.wav")).seconds == 6
    assert own.pids() != [pid]


async def test_speech_that_crashes_the_child_is_refused(own: Inspector, stuck: StuckFile) -> None:
    reading = asyncio.create_task(own.speech(stuck.path, sender=1))
    await until(stuck.has_reader)
    os.kill(own.pids()[0], signal.SIGSEGV)
    with pytest.raises(NoAudio, match=r"^The file could not be read; it must be an mp3\.$"):
        await reading


async def test_a_sender_with_slow_files_does_not_block_others(stuck: StuckFile, tmp_path: Path) -> None:
    inspector = Inspector(job_deadline_s=300, deadline_s=300)
    sound = tmp_path / "sound"
    soundfile.write(sound, voice(5), RATE_HZ, format="MP3")
    await inspector.speech(sound, sender=2)

    slow = [asyncio.create_task(inspector.speech(stuck.path, sender=1)) for _ in range(3)]
    await until(stuck.has_reader)
    other = asyncio.create_task(inspector.speech(sound, sender=2))
    await asyncio.sleep(0)  # each task queues its file in its first step
    slow[0].cancel()
    assert (await other).seconds

    assert [task.done() for task in slow] == [True, False, False]
    await inspector.close()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_an_unwritable_target_leaves_no_file(own: Inspector, good: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match=r"^Not a directory$"):
        await own.sample(good, good / "too" / "sample.wav")
    assert names(tmp_path) == ["voice.wav"]


async def test_the_child_has_resource_limits(own: Inspector, good: Path, tmp_path: Path) -> None:
    await own.sample(good, tmp_path / "sample.wav")
    limits = processes.proc_file(own.pids()[0], "limits")

    def limit(name: str) -> tuple[str, str]:
        [(soft, hard)] = re.findall(rf"{name} +(\d+) +(\d+)", limits)
        return soft, hard

    assert limit("Max core file size") == ("0", "0")
    assert limit("Max file size") == (str(4 * _MIB), str(4 * _MIB))
    soft, hard = limit("Max address space")
    assert soft == hard and int(soft) < 1024 * _MIB


async def test_a_header_that_claims_gigabytes_is_refused_within_the_memory_limit(
    own: Inspector, good: Path, tmp_path: Path
) -> None:
    """ALAC's header states how long frames may be, and the decoder makes room for three, in each channel."""
    data = bytearray(ffmpeg_file("m4a without loss", voice(4, FFMPEG_RATE_HZ)))
    header = data.rindex(b"alac")
    data[header + 8 : header + 12] = (4096 * 4096).to_bytes(4, "big")
    data[header + 17] = 8
    source = tmp_path / "greedy.m4a"
    source.write_bytes(data)
    await own.sample(good, tmp_path / "sample.wav")
    before = own.pids()

    with pytest.raises(SampleRefused):
        await own.sample(source, tmp_path / "second.wav")

    peak_kib = re.findall(r"VmHWM:\s+(\d+) kB", processes.proc_file(before[0], "status"))[0]
    assert int(peak_kib) < 300 * 1024
    assert await own.sample(good, tmp_path / "second.wav") and own.pids() == before


def _seeds(folder: Path) -> list[bytes]:
    path = folder / "seed"
    made = []
    for name, subtype in [
        ("WAV", "PCM_16"),
        ("WAV", "IMA_ADPCM"),
        ("FLAC", None),
        ("OGG", None),
        ("MP3", None),
    ]:
        soundfile.write(path, voice(3.7), RATE_HZ, format=name, subtype=subtype)
        made.append(path.read_bytes())
    made += [ffmpeg_file(name, voice(3.7, FFMPEG_RATE_HZ)) for name in FFMPEG_SHAPES]
    path.unlink()
    return made


def _mutant(seed: bytes, random: np.random.Generator) -> bytes:
    """The file with bytes changed, removed or inserted, mostly in its header."""
    data = bytearray(seed)
    for _ in range(random.choice([1, 2, 5, 20])):
        at = int(random.integers(0, random.choice([600, len(data) - 64])))
        match random.integers(0, 5):
            case 0 | 1:
                data[at] = int(random.integers(0, 256))
            case 2:
                data[at : at + 4] = random.choice([0, 1, 0x7FFF_FFFF, 0xFFFF_FFFF]).astype(">u4").tobytes()
            case 3:
                del data[at : at + int(random.integers(1, 50))]
            case _:
                data[at:at] = random.bytes(20)
    return bytes(data)


async def test_many_damaged_files_are_each_accepted_or_refused(own: Inspector, tmp_path: Path) -> None:
    seeds, random = _seeds(tmp_path), np.random.default_rng(3)
    source, target = tmp_path / "upload", tmp_path / "sample.wav"
    refused = 0
    for number in range(_MUTANTS):
        source.write_bytes(_mutant(seeds[number % len(seeds)], random))
        try:
            await own.sample(source, target)
            target.unlink()
        except SampleRefused:
            refused += 1
        try:
            assert isinstance(await own.speech(source, sender=1), Measured)
        except NoAudio:
            refused += 1
        assert names(tmp_path) == ["upload"]
    assert _MUTANTS < refused < 2 * _MUTANTS


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
