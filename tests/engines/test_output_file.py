"""Output files are durable before the engine returns; a slow disk blocks no other work."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path

import pytest

from myna.engines.audio.mp3 import Mp3File
from myna.engines.espeak.engine import VOICES, Espeak
from myna.engines.interface import (
    NO_CLIENT,
    EngineBusy,
    EngineCrashed,
    EngineFailed,
    EngineTimedOut,
    NothingSpoken,
    SoundPart,
    SoundParts,
    SpeechResult,
    Utterance,
)
from myna.engines.output_file import DurableFiles
from myna.lib.files import QUEUE_MAX, DiskExecutor
from tests.engines.conftest import names, until
from tests.rig.disks import StalledDisk, read_only
from tests.rig.waiting import LoopClock

pytestmark = pytest.mark.anyio

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


async def test_a_disk_error_is_reported_without_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
