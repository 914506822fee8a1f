"""How a command gets the write lock of SQLite beside a serving writer."""

import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from myna.store import sqlite_handover
from myna.store.sqlite_handover import YIELD_S, WriterHandover


def test_without_a_request_the_writer_takes_no_lock(tmp_path: Path) -> None:
    WriterHandover(tmp_path).yield_lock()
    assert list(tmp_path.iterdir()) == []


def test_the_writer_waits_until_the_command_releases_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_handover, "YIELD_S", 60.0)
    inside, out = threading.Event(), threading.Event()

    def command() -> None:
        with WriterHandover(tmp_path).acquire():
            inside.set()
            out.wait(60)

    thread = threading.Thread(target=command)
    thread.start()
    assert inside.wait(60)
    yielding = threading.Thread(target=WriterHandover(tmp_path).yield_lock)
    yielding.start()
    yielding.join(0.1)
    assert yielding.is_alive()
    out.set()
    yielding.join(60)
    assert not yielding.is_alive()
    thread.join(60)
    assert not (tmp_path / "write.request").exists()


def test_the_writer_stops_waiting_after_a_limit(tmp_path: Path) -> None:
    (tmp_path / "write.request").touch()
    with FileLock(tmp_path / "write.lock"):
        started = time.monotonic()
        WriterHandover(tmp_path).yield_lock()
    assert time.monotonic() - started < YIELD_S + 20


def test_the_request_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    (tmp_path / "write.request").touch()
    WriterHandover(tmp_path).yield_lock()
    assert not (tmp_path / "write.request").exists()
