"""The output of jobs: parts as they come, in order and with backpressure, and files, which are durable before
the engine returns. A slow disk blocks no other work."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile

from demo import tiny_voices
from myna.engines.audio.loudness import TARGET_LUFS, integrated
from myna.engines.audio.mp3 import Mp3File
from myna.engines.espeak.engine import VOICES, Espeak
from myna.engines.interface import (
    NO_CLIENT,
    STREAM_RATE_HZ,
    Client,
    EngineBusy,
    EngineCrashed,
    EngineFailed,
    EngineLimits,
    EngineTimedOut,
    NothingSpoken,
    SoundPart,
    SoundParts,
    SpeechResult,
    StreamingEngine,
    Utterance,
)
from myna.engines.output_file import DurableFiles
from myna.engines.pool import engine as pool_engine
from myna.engines.pool.child_handle import TakePart
from myna.engines.pool.engine import sound_of
from myna.engines.pool.pool import Pool
from myna.engines.sherpa.engine import Sherpa
from myna.engines.sherpa.models import inspect
from myna.lib.files import QUEUE_MAX, DiskExecutor
from tests.engines.conftest import child_pool, names, started
from tests.engines.process_child import Command, Word
from tests.rig.disks import StalledDisk, read_only
from tests.rig.processes import runs
from tests.rig.waiting import LoopClock, until

DEADLINE_S = 60
PLAIN = VOICES[0].voice_id
ENGLISH = "en-us-female-1"
WALK = "今天天气很好，我们一起去公园散步吧。"
TONES = "你好，世界。你好！"
LAME_DB = 0.445
"""LAME makes every sound so much softer: a factor of 0.95."""


@pytest.fixture
async def pool() -> AsyncIterator[Pool[Word]]:
    async with started(child_pool(job_deadline_s=DEADLINE_S)) as pool:
        yield pool


@pytest.fixture(scope="module")
async def sherpa(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sherpa]:
    folder = tiny_voices.vits(tmp_path_factory.mktemp("model") / "vits")
    async with started(
        Sherpa(inspect(folder), EngineLimits(processes=1, queue_max=5, job_deadline_s=DEADLINE_S))
    ) as engine:
        yield engine


def job(pool: Pool[Word], what: str, word: str) -> SoundParts:
    async def run(take_part: TakePart) -> SpeechResult:
        await pool.run(Command(what, word), DEADLINE_S, NO_CLIENT, take_part)
        return SpeechResult(0, 0, b"", work_s=0.5)

    return sound_of(run)


async def test_the_parts_of_a_job_come_in_order_and_its_time_at_the_end(pool: Pool[Word]) -> None:
    found = [part async for part in job(pool, "parts", "abc")]
    assert [part.pcm for part in found] == [b"a", b"b", b"c", b""]
    assert [part.work_s for part in found] == [0, 0, 0, 0.5]


async def test_the_parts_before_a_crash_come_before_its_error(pool: Pool[Word]) -> None:
    found = b""
    with pytest.raises(EngineCrashed):
        async for part in job(pool, "parts", "abc!"):
            found += part.pcm
    assert found == b"abc"


async def test_a_closed_job_that_ends_soon_keeps_its_process(pool: Pool[Word], tmp_path: Path) -> None:
    before = pool.pids()
    async with aclosing(job(pool, "flood", str(tmp_path / "sent"))) as parts:
        await anext(parts)
    assert pool.pids() == before
    assert (tmp_path / "sent").read_text() == "999"
    assert await pool.run(Command("echo", "again"), DEADLINE_S) == Word("again")


async def test_a_part_comes_while_the_job_runs_and_closing_a_long_one_ends_its_process(
    pool: Pool[Word], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_engine, "REST_MAX_S", 0.1)
    [pid] = pool.pids()
    async with aclosing(job(pool, "parts", "a?")) as parts:
        assert (await anext(parts)).pcm == b"a"
        assert runs(pid)
    assert not runs(pid)
    assert await pool.run(Command("echo", "again"), DEADLINE_S) == Word("again")


async def test_the_process_waits_for_a_slow_reader(pool: Pool[Word], tmp_path: Path) -> None:
    """A thousand parts of 100 kB: ten wait, and the pipe and the stream's buffer take some more."""
    sent = tmp_path / "sent"

    async with aclosing(job(pool, "flood", str(sent))) as parts:
        await anext(parts)
        await until(lambda: sent.exists() and int(sent.read_text() or 0) >= 9)
        await asyncio.sleep(0.5)
        assert int(sent.read_text()) < 20
        count = 1
        async for part in parts:
            count += bool(part.pcm)
        assert count == 1000


async def test_a_job_whose_parts_are_not_taken_ends_its_process(pool: Pool[Word]) -> None:
    with pytest.raises(EngineCrashed):
        await pool.run(Command("parts", "a"), DEADLINE_S)
    assert await pool.run(Command("echo", "again"), DEADLINE_S) == Word("again")


async def relayed(engine: StreamingEngine, utterance: Utterance) -> bytes:
    return b"".join([part.pcm async for part in engine.sound(utterance, DEADLINE_S)])


def tones(sherpa: Sherpa, text: str = TONES, speed: float = 1.0) -> Utterance:
    return Utterance(text, sherpa.voices[0].voice_id, speed)


@pytest.mark.parametrize(
    ("voice_id", "text", "speed"),
    [
        (PLAIN, "好", 1.0),
        (PLAIN, WALK * 6, 1.0),
        (PLAIN, WALK, 0.25),
        (PLAIN, WALK * 6, 4.0),
        (ENGLISH, "OK, 你好.", 1.0),
    ],
)
async def test_the_parts_of_espeak_are_the_sound_of_its_file(
    espeak: Espeak, tmp_path: Path, voice_id: str, text: str, speed: float
) -> None:
    utterance = Utterance(text, voice_id, speed)
    whole = await espeak.speak(utterance, tmp_path / "whole.mp3", DEADLINE_S)
    pcm = await relayed(espeak, utterance)
    sound = np.frombuffer(pcm, "<i2").astype(np.float32) * np.float32(1 / 32768)
    assert len(sound) / STREAM_RATE_HZ == pytest.approx(whole.seconds, rel=0.02, abs=0.01)
    samples, rate_hz = soundfile.read(tmp_path / "whole.mp3", dtype="float32")
    assert integrated(sound, STREAM_RATE_HZ) - integrated(samples, rate_hz) == pytest.approx(LAME_DB, abs=0.2)
    assert integrated(sound, STREAM_RATE_HZ) == pytest.approx(TARGET_LUFS, abs=1.5)


async def test_a_relayed_sound_is_stored(espeak: Espeak, tmp_path: Path) -> None:
    passed = []

    async def relay(parts: SoundParts) -> SoundParts:
        async with aclosing(parts):
            async for part in parts:
                passed.append(part.pcm)
                yield part

    path = tmp_path / "said.mp3"
    said = await espeak.speak(Utterance(WALK * 6, PLAIN, 1.0), path, DEADLINE_S, Client(relay=relay))
    assert said.work_s > 0
    assert said.seconds == len(b"".join(passed)) / 2 / STREAM_RATE_HZ
    samples, rate_hz = soundfile.read(path)
    assert (rate_hz, len(samples)) == (STREAM_RATE_HZ, round(said.seconds * STREAM_RATE_HZ))


async def test_the_first_sentence_of_sherpa_comes_before_the_second_is_spoken(sherpa: Sherpa) -> None:
    done: list[float] = []
    sentence = len(await relayed(sherpa, tones(sherpa, "你好，世界。")))
    text = "你好，世界。" * 20
    async with aclosing(sherpa.sound(tones(sherpa, text), DEADLINE_S, Client(progress=done.append))) as parts:
        first = await anext(parts)
        assert not done or done[-1] < 0.9
        rest = [part.pcm async for part in parts]
    assert len(first.pcm) > 0.8 * min(sentence, 2 * STREAM_RATE_HZ)
    assert done[-1] == 1.0 and len(b"".join(rest)) > 10 * sentence


LONG_S = 600.0
_MAKE_DURABLE = "myna.engines.output_file.make_durable"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[StalledDisk]:
    slow = StalledDisk()
    monkeypatch.setattr(_MAKE_DURABLE, slow.block)
    yield slow
    slow.resume()


def _speaks_into(path: Path) -> Callable[[Path], Awaitable[SpeechResult]]:
    async def speak(part: Path) -> SpeechResult:
        _write(part, path)
        return SpeechResult(1.0, 5, bytes(32))

    return speak


def _write(part: Path, path: Path | None = None) -> None:
    part.write_bytes(b"sound")
    if path:
        part.replace(path)


def _inode(path: Path) -> int:
    return path.stat().st_ino


def _files_of_two() -> DurableFiles:
    return DurableFiles(nullcontext, at_once=2)


async def test_file_and_folder_are_synced_before_the_engine_returns(
    espeak: Espeak, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, synced = os.fsync, []

    def sync(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, os.fstat(handle).st_size))
        really(handle)

    monkeypatch.setattr("os.fsync", sync)
    path = tmp_path / "said.mp3"
    said = await espeak.speak(Utterance("你好", VOICES[0].voice_id, 1.0), path, 60)

    [file, folder] = synced
    assert file == (_inode(path), said.size_bytes)
    assert folder[0] == _inode(tmp_path)


async def test_a_stalled_disk_times_out_and_blocks_nothing_else(tmp_path: Path, disk: StalledDisk) -> None:
    files, clock = _files_of_two(), LoopClock()
    paths = [tmp_path / f"{number}.mp3" for number in range(20)]
    jobs = [asyncio.create_task(files.write(path, LONG_S, _speaks_into(path))) for path in paths]
    await until(lambda: len(disk.calls) == 2)

    assert await asyncio.to_thread(lambda: "at once") == "at once"

    clock.move(LONG_S)
    ends = await asyncio.gather(*jobs, return_exceptions=True)
    assert {type(end) for end in ends} == {EngineTimedOut}
    await until(lambda: names(tmp_path) == [])
    assert len(disk.calls) == 2  # a job that timed out in the queue is not synced


@asynccontextmanager
async def _blocked_disk(
    disk: StalledDisk, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> AsyncIterator[DiskExecutor]:
    """A stalled disk for all files, with so many jobs, that responds after the block."""
    executor = DiskExecutor(2)
    monkeypatch.setattr("myna.engines.output_file.DiskExecutor", lambda _: executor)
    work = partial(disk.block, Path("any"))
    blocked = [asyncio.ensure_future(executor.run_metadata(work)) for _ in range(jobs)]
    await until(lambda: bool(disk.calls))
    yield executor
    disk.resume()
    await asyncio.gather(*blocked)


async def test_a_refused_job_removes_no_file(
    tmp_path: Path, disk: StalledDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_part: Path) -> SpeechResult:
        raise EngineBusy("The engine's queue is full.")

    async with _blocked_disk(disk, monkeypatch, QUEUE_MAX) as executor:
        files = _files_of_two()
        for _ in range(20):
            with pytest.raises(EngineBusy):
                await files.write(tmp_path / "said.mp3", 60, refused)
        assert not executor.full()


async def test_a_stalled_disk_with_a_full_queue_refuses_jobs(
    tmp_path: Path, disk: StalledDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_part: Path) -> SpeechResult:
        raise AssertionError("it was started")

    async with _blocked_disk(disk, monkeypatch, 1 + QUEUE_MAX) as executor:
        await until(executor.full)
        with pytest.raises(EngineBusy):
            await _files_of_two().write(tmp_path / "said.mp3", 60, never)
    assert not executor.full()


async def test_cancelling_during_the_sync_leaves_no_file(tmp_path: Path, disk: StalledDisk) -> None:
    path = tmp_path / "said.mp3"
    job = asyncio.create_task(_files_of_two().write(path, 60, _speaks_into(path)))
    await until(lambda: bool(disk.calls))

    job.cancel()

    with pytest.raises(asyncio.CancelledError):
        await job
    await until(lambda: names(tmp_path) == [])


async def test_a_disk_error_is_reported_without_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(_MAKE_DURABLE, full)
    path = tmp_path / "said.mp3"
    with pytest.raises(EngineFailed, match=r"^No space left on device$"):
        await _files_of_two().write(path, 60, _speaks_into(path))
    await until(lambda: names(tmp_path) == [])


async def test_a_failed_removal_is_logged_and_hides_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def dies(_part: Path) -> SpeechResult:
        raise EngineCrashed("The engine's process died in the middle of the job.")

    monkeypatch.setattr("pathlib.Path.unlink", read_only)
    with pytest.raises(EngineCrashed):
        await _files_of_two().write(tmp_path / "said.mp3", 60, dies)
    monkeypatch.undo()
    assert "was not removed: Read-only file system" in caplog.text
    assert "/secret/place" not in caplog.text


async def one_part(*_: object) -> SoundParts:
    yield SoundPart(bytes(48_000), 0.5)


async def written(sound: Callable[..., SoundParts], folder: Path, within_s: float = LONG_S) -> SpeechResult:
    """Writes the sound as an mp3 in the folder."""
    utterance = Utterance("any", "any", 1.0)
    return await _files_of_two().write_sound(sound, utterance, folder / "a.mp3", within_s, NO_CLIENT)


async def test_a_sound_on_a_stalled_disk_ends_at_its_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = StalledDisk()
    monkeypatch.setattr(Mp3File, "write", lambda file, pcm: disk.block(pcm))
    with pytest.raises(EngineTimedOut):
        await written(one_part, tmp_path, 0.2)
    disk.resume()
    await until(lambda: not list(tmp_path.iterdir()))


async def test_a_sound_without_a_sample_is_refused_without_a_file(tmp_path: Path) -> None:
    async def silent(*_: object) -> SoundParts:
        yield SoundPart(b"", 0.5)

    with pytest.raises(NothingSpoken):
        await written(silent, tmp_path)
    assert not list(tmp_path.iterdir())  # noqa: ASYNC240
