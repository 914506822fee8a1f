"""The disk of audio: a marker that is unreadable, and the reserve of free space, which a thread reads."""

import asyncio
import logging
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from myna.errors import CommandError, DiskFull
from myna.lib.telemetry import metrics
from myna.store.files import storage as module
from myna.store.files.storage import MARKER, Folder, FreeSpace, check_storage
from tests.store.books import Books

RESERVE = 100 * 2**20


class Usage(NamedTuple):
    """The fields of the result of `shutil.disk_usage` that are read."""

    free: int


async def test_below_the_reserve_speech_is_refused_until_space_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    space = FreeSpace(tmp_path, RESERVE)
    lines = []
    for free in (RESERVE, RESERVE - 1, RESERVE - 2, RESERVE):
        monkeypatch.setattr(module.shutil, "disk_usage", lambda _, free=free: Usage(free))
        await space.refresh()
        assert space.low is (free < RESERVE)
        assert [sample.value for sample in metrics.DISK_FREE_BYTES.collect()[0].samples] == [free]
        if space.low:
            with pytest.raises(DiskFull):
                space.check()
        else:
            space.check()
        lines.append([record.getMessage() for record in caplog.records])
        caplog.clear()
    assert [len(found) for found in lines] == [0, 1, 0, 1]
    assert "refused" in lines[1][0]
    assert "accepted again" in lines[3][0]


async def test_a_stalled_disk_blocks_only_the_check_of_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves, threads, began = threading.Event(), [], asyncio.Event()
    loop = asyncio.get_running_loop()

    def stalled(_: Path) -> Usage:
        threads.append(threading.current_thread())
        loop.call_soon_threadsafe(began.set)
        moves.wait(60)
        return Usage(0)

    monkeypatch.setattr(module.shutil, "disk_usage", stalled)
    space = FreeSpace(tmp_path, RESERVE)
    looking = asyncio.create_task(space.refresh())
    await asyncio.wait_for(began.wait(), 30)
    space.check()  # the result of the last check applies
    assert not looking.done()
    assert threads[0] is not threading.main_thread()
    moves.set()
    await looking
    assert space.low


async def test_a_marker_that_cannot_be_read_is_one_sentence(books: Books) -> None:
    """As root reads every file, a folder is in its place."""
    (books.folder / MARKER).mkdir(parents=True)
    with pytest.raises(CommandError, match=f"can't be read: its {MARKER} needs to be a file"):
        await check_storage(books.db, Folder(books.folder), claim=True)
