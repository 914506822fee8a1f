"""Bare commits of SQLite under Myna's settings: what a durable transaction costs on this disk."""

import time
from pathlib import Path

import msgspec

from bench import processes
from myna.store.sqlite import SqliteConnection, clock_ms

ROW_BYTES = 100


class Commits(msgspec.Struct, frozen=True):
    """One round: commits a second, and the median of one in ms."""

    commits_s: float
    ms: float


class BareCommits:
    """A file beside those of the contenders; a `round` is one transaction of one small row after another."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._raw = SqliteConnection(folder / "bare.sqlite", clock_ms, read_only=False).raw
        self._raw.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, row BLOB NOT NULL) STRICT")

    def round(self, seconds: float) -> Commits:
        """On the core of the program under test."""
        took: list[float] = []
        with processes.pinned(processes.cores().program):
            until = time.perf_counter() + seconds
            while (begun := time.perf_counter()) < until:
                self._raw.execute("BEGIN IMMEDIATE")
                self._raw.execute("INSERT INTO bare (row) VALUES (?1)", (bytes(ROW_BYTES),))
                self._raw.execute("COMMIT")
                took.append(time.perf_counter() - begun)
        self._raw.wal_checkpoint()
        return Commits(len(took) / sum(took), sorted(took)[len(took) // 2] * 1000)

    def close(self) -> None:
        self._raw.close()
