"""What an engine spoke is on disk for good before it counts; the wait for the disk holds up nobody else."""

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from myna.engines.espeak import VOICES, Espeak
from myna.engines.lasting import lasting
from myna.engines.spoken import EngineDied, EngineFailed, EngineTimedOut, Spoken, Utterance
from tests.engines.conftest import until

pytestmark = pytest.mark.anyio

_MAKE_DURABLE = "myna.engines.lasting.make_durable"


class _Disk:
    """A disk that takes its time: the first who wants something durable waits until it `goes_on`."""

    def __init__(self) -> None:
        self.asked: list[Path] = []
        self._first_waits = threading.Event()

    def make_durable(self, path: Path) -> None:
        self.asked.append(path)
        if len(self.asked) == 1:
            assert self._first_waits.wait(60)

    def goes_on(self) -> None:
        self._first_waits.set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Disk]:
    slow = _Disk()
    monkeypatch.setattr(_MAKE_DURABLE, slow.make_durable)
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
    tmp_path: Path, disk: _Disk
) -> None:
    espeak = Espeak(processes=1, queue_max=5, job_deadline_s=60)
    await espeak.start()
    utterance = Utterance("你好", VOICES[0].voice_id, 1.0)
    first = asyncio.create_task(espeak.speak(utterance, tmp_path / "first.mp3", 60))
    await until(lambda: len(disk.asked) == 1)

    await espeak.speak(utterance, tmp_path / "second.mp3", 60)

    assert not first.done()
    disk.goes_on()
    assert (await first).seconds > 0.3
    await espeak.close()


async def test_a_disk_that_takes_too_long_is_a_deadline_that_passed(tmp_path: Path, disk: _Disk) -> None:
    path = tmp_path / "said.mp3"
    with pytest.raises(EngineTimedOut):
        await lasting(path, 0.05, _speaks_into(path))
    assert _files(tmp_path) == []


async def test_who_is_cancelled_while_the_disk_is_at_work_leaves_no_file(tmp_path: Path, disk: _Disk) -> None:
    path = tmp_path / "said.mp3"
    job = asyncio.create_task(lasting(path, 60, _speaks_into(path)))
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
        await lasting(path, 60, _speaks_into(path))
    assert _files(tmp_path) == []


async def test_an_engine_that_fails_leaves_neither_the_file_nor_its_part(tmp_path: Path) -> None:
    async def dies(part: Path) -> Spoken:
        _write(part)
        raise EngineDied("The engine's process died in the middle of the job.")

    with pytest.raises(EngineDied):
        await lasting(tmp_path / "said.mp3", 60, dies)
    assert _files(tmp_path) == []
