"""What SQLite's commits cost on this disk under Myna's settings: bare ones, and the two of a call."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import cast

import msgspec

from bench import fill, processes
from bench.fill import Size
from bench.load import KEY_FORMAT
from myna.accounts.keys import Scope, hash_of
from myna.lib.ids import new_id
from myna.store import sqlite_batch
from myna.store.batch import CallState, Charge, End
from myna.store.sqlite import SqliteConnection, clock_ms

ROW_BYTES = 100


class Commits(msgspec.Struct, frozen=True):
    """One round: bare commits a second, the median of one in ms, and of a call's two."""

    commits_s: float
    ms: float
    pair_ms: float


def charge_of(key: int, version: int) -> Charge:
    """The charge of a new chat call, by the key of this number, under this version of the configuration."""
    return Charge(
        call_id=new_id(),
        key_hash=hash_of(KEY_FORMAT % key),
        scope=int(Scope.CHAT),
        pays=int(Scope.CHAT),
        units=1,
        deadline_ms=60_000,
        config_version=version,
    )


class CommitTimes:
    """Files beside those of the contenders, one after the other on one thread. Bare is a transaction of one
    small row; a call's two are those of its charge and its keep, with nothing in between."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        asyncio.run(fill.fill("", folder, Size()))
        self._filled = SqliteConnection(folder / "myna.sqlite", clock_ms, read_only=False).raw
        self._version = cast(int, self._filled.execute("SELECT version FROM site").get)
        self._bare = SqliteConnection(folder / "bare.sqlite", clock_ms, read_only=False).raw
        self._bare.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, row BLOB NOT NULL) STRICT")
        self._calls = 0

    def round(self, seconds: float) -> Commits:
        """On the core of the program under test, `seconds` for the bare ones and then for the pairs."""
        with processes.pinned(processes.cores().program):
            bare, pairs = _took(self._commit_bare, seconds), _took(self._commit_pair, seconds)
        for raw in (self._bare, self._filled):
            raw.wal_checkpoint()
        return Commits(len(bare) / sum(bare), median(bare) * 1000, median(pairs) * 1000)

    def close(self) -> None:
        self._bare.close()
        self._filled.close()

    def _commit_bare(self) -> None:
        self._bare.execute("BEGIN IMMEDIATE")
        self._bare.execute("INSERT INTO bare (row) VALUES (?1)", (bytes(ROW_BYTES),))
        self._bare.execute("COMMIT")

    def _commit_pair(self) -> None:
        self._calls += 1
        charge = charge_of(self._calls % Size().keys + 1, self._version)
        for ends, charges in (([], [charge]), ([End(charge.call_id, CallState.KEPT)], [])):
            self._filled.execute("BEGIN IMMEDIATE")
            sqlite_batch.run(self._filled, ends, charges, clock_ms())
            self._filled.execute("COMMIT")


def _took(commit: Callable[[], None], seconds: float) -> list[float]:
    took: list[float] = []
    until = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < until:
        commit()
        took.append(time.perf_counter() - begun)
    return took
