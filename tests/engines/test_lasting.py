"""What an engine spoke is on disk for good before it counts; the wait for the disk holds up nobody else."""

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from myna.disk_threads import PATIENCE_S, WAITING_MAX, settled
from myna.engines.espeak import VOICES, Espeak
from myna.engines.lasting import Lasting
from myna.engines.process import Pool
from myna.engines.spoken import EngineBusy, EngineDied, EngineFailed, EngineTimedOut, Spoken, Utterance
from tests.engines.conftest import until
from tests.rig.disks import StillDisk, read_only

pytestmark = pytest.mark.anyio

_MAKE_DURABLE = "myna.engines.lasting.make_durable"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[StillDisk]:
    slow = StillDisk()
    monkeypatch.setattr(_MAKE_DURABLE, slow.take)
    yield slow
    slow.goes_on()


def _speaks_into(path: Path) -> Callable[[Path], Awaitable[Spoken]]:
    async def speak(part: Path) -> Spoken:
        _write(part, path)
        return Spoken(1.0, 5, bytes(32))

    return speak


def _write(part: Path, path: Path | None = None) -> None:
    part.write_bytes(b"sound")
    if path:
        part.replace(path)


def _inode(path: Path) -> int:
    return path.stat().st_ino


async def _kept(path: Path, deadline_s: float, speak: Callable[[Path], Awaitable[Spoken]]) -> Spoken:
    return await _files_of_two().spoken(path, deadline_s, speak)


def _files_of_two() -> Lasting:
    pool = Pool("none", Spoken, processes=2, queue_max=9, job_deadline_s=60)
    return Lasting(pool, at_once=2)


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_the_bytes_and_the_name_are_synced_before_the_engine_answers(
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


async def test_the_next_sentence_is_spoken_while_the_disk_takes_the_last_one(
    tmp_path: Path, disk: StillDisk
) -> None:
    """And who waits for the disk holds a place in the queue."""
    espeak = Espeak(processes=1, queue_max=1, job_deadline_s=60)
    await espeak.start()
    utterance = Utterance("你好", VOICES[0].voice_id, 1.0)
    first = asyncio.create_task(espeak.speak(utterance, tmp_path / "first.mp3", 60))
    await until(lambda: len(disk.asked) == 1)
    assert not espeak.full()

    second = asyncio.create_task(espeak.speak(utterance, tmp_path / "second.mp3", 60))

    await until(lambda: (tmp_path / "second.mp3").exists() and espeak.full())
    with pytest.raises(EngineBusy):
        await espeak.speak(utterance, tmp_path / "third.mp3", 60)
    assert not first.done() and not second.done()
    disk.goes_on()
    assert min((await first).seconds, (await second).seconds) > 0.3
    assert not espeak.full()
    await espeak.close()


async def test_a_disk_that_stands_still_holds_up_nothing_else(tmp_path: Path, disk: StillDisk) -> None:
    files, began_s = _files_of_two(), time.monotonic()
    paths = [tmp_path / f"{number}.mp3" for number in range(20)]
    jobs = [asyncio.create_task(files.spoken(path, 0.2, _speaks_into(path))) for path in paths]
    await until(lambda: len(disk.asked) == 2)

    assert await asyncio.to_thread(lambda: "at once") == "at once"

    ends = await asyncio.gather(*jobs, return_exceptions=True)
    assert {type(end) for end in ends} == {EngineTimedOut}
    assert time.monotonic() - began_s < 10
    assert _files(tmp_path) == []
    assert len(disk.asked) == 2  # who gave up before its turn doesn't ask any more


async def test_a_disk_that_removes_nothing_either_ends_no_job_later(
    tmp_path: Path, disk: StillDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its places stay taken for as long as anybody waits, and the files go when the disk moves again."""
    unlink = Path.unlink

    def stands_still(path: Path, missing_ok: bool = False) -> None:
        disk.take(path)
        unlink(path, missing_ok)

    monkeypatch.setattr("pathlib.Path.unlink", stands_still)
    monkeypatch.setattr("myna.disk_threads.settled", partial(settled, at_most_s=3))
    pool = Pool("none", Spoken, processes=2, queue_max=9, job_deadline_s=60)
    files, began_s = Lasting(pool, at_once=2), time.monotonic()
    paths = [tmp_path / f"{number}.mp3" for number in range(9)]
    jobs = [asyncio.create_task(files.spoken(path, 0.2, _speaks_into(path))) for path in paths]
    await until(lambda: len(disk.asked) == 3)  # two that are made durable and the first to be removed

    assert pool.full() and not any(job.done() for job in jobs)
    assert await asyncio.to_thread(lambda: "at once") == "at once"

    ends = await asyncio.gather(*jobs, return_exceptions=True)
    assert {type(end) for end in ends} == {EngineTimedOut}
    assert time.monotonic() - began_s < 0.2 + 3 + 5
    assert not pool.full()
    assert len(_files(tmp_path)) == 9
    disk.goes_on()
    await until(lambda: _files(tmp_path) == [])


async def test_what_was_refused_before_it_began_removes_nothing(tmp_path: Path, disk: StillDisk) -> None:
    async def refused(_part: Path) -> Spoken:
        raise EngineBusy("The engine has as many jobs waiting as it takes.")

    files = _files_of_two()
    held = files._disk._names.do(lambda: disk.take(tmp_path))
    began_s = time.monotonic()
    for _ in range(20):
        with pytest.raises(EngineBusy):
            await files.spoken(tmp_path / "said.mp3", 60, refused)
    assert time.monotonic() - began_s < 20 * PATIENCE_S
    await until(lambda: bool(disk.asked))
    assert files._disk._names.waiting == 0
    disk.goes_on()
    await held


async def test_behind_a_disk_that_stands_still_no_more_is_begun_than_may_wait(
    tmp_path: Path, disk: StillDisk
) -> None:
    async def never(_part: Path) -> Spoken:
        raise AssertionError("it was begun")

    files = _files_of_two()
    held = [files._disk._names.do(partial(disk.take, tmp_path)) for _ in range(1 + WAITING_MAX)]
    await until(files._disk.full)
    with pytest.raises(EngineBusy):
        await files.spoken(tmp_path / "said.mp3", 60, never)
    disk.goes_on()
    await asyncio.gather(*held)
    assert not files._disk.full()


async def test_a_disk_that_takes_too_long_is_a_deadline_that_passed(tmp_path: Path, disk: StillDisk) -> None:
    path = tmp_path / "said.mp3"
    with pytest.raises(EngineTimedOut):
        await _kept(path, 0.05, _speaks_into(path))
    assert _files(tmp_path) == []


async def test_who_is_cancelled_while_the_disk_is_at_work_leaves_no_file(
    tmp_path: Path, disk: StillDisk
) -> None:
    path = tmp_path / "said.mp3"
    job = asyncio.create_task(_kept(path, 60, _speaks_into(path)))
    await until(lambda: bool(disk.asked))

    job.cancel()

    with pytest.raises(asyncio.CancelledError):
        await job
    assert _files(tmp_path) == []


async def test_a_disk_that_fails_is_told_without_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(_MAKE_DURABLE, full)
    path = tmp_path / "said.mp3"
    with pytest.raises(EngineFailed, match=r"^No space left on device$"):
        await _kept(path, 60, _speaks_into(path))
    assert _files(tmp_path) == []


async def test_what_cannot_be_removed_is_logged_and_hides_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def dies(_part: Path) -> Spoken:
        raise EngineDied("The engine's process died in the middle of the job.")

    monkeypatch.setattr("pathlib.Path.unlink", read_only)
    with pytest.raises(EngineDied):
        await _kept(tmp_path / "said.mp3", 60, dies)
    monkeypatch.undo()
    assert "stays: Read-only file system" in caplog.text
    assert "/secret/place" not in caplog.text


async def test_an_engine_that_fails_leaves_neither_the_file_nor_its_part(tmp_path: Path) -> None:
    async def dies(part: Path) -> Spoken:
        _write(part)
        raise EngineDied("The engine's process died in the middle of the job.")

    with pytest.raises(EngineDied):
        await _kept(tmp_path / "said.mp3", 60, dies)
    assert _files(tmp_path) == []
