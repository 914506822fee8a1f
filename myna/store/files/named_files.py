"""Stored files, named by 128 random bits: `ab/<32 hex><suffix>` in a folder of the storage."""

import asyncio
import contextlib
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from myna.lib.files import DiskExecutor, DiskThreads, remove, wait_shielded
from myna.store.files.storage import FOLDER_MODE, Storage, Stored

T = TypeVar("T")
R = TypeVar("R")
_REQUESTS = 32
"""Concurrent ones, to a remote storage."""


class NamedFiles:
    """A folder of finished files. Who makes one writes it to the path of its name, and keeps it. The methods
    that are not `async` block, except `new`, and must run in a thread."""

    def __init__(self, storage: Storage, folder: str, suffix: str) -> None:
        self.storage = storage
        self.folder = storage.working / folder
        """Where the files are made."""
        self._key = f"{folder}/{{:.2}}/{{}}"
        self._suffix = suffix
        self._name = re.compile(rf"[0-9a-f]{{32}}{re.escape(suffix)}")
        self._disk = DiskExecutor()

    def new(self) -> tuple[str, Path]:
        """An unguessable name and the path for its file. The writer creates the path's folder."""
        name = secrets.token_hex(16) + self._suffix
        return name, self._path(name)

    def prepare(self) -> None:
        """Creates the folder in which files are made and makes it private to this user: an unguessable name
        is the only access control of a file. A command of root that comes first would own it."""
        self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if self.folder.stat().st_mode & 0o777 != FOLDER_MODE:
            self.folder.chmod(FOLDER_MODE)

    async def keep(self, name: str) -> None:
        """Stores the finished file at the path of this name. Raises StorageUnavailable."""
        if self.storage.remote:
            await self._disk.run(partial(self.storage.keep, self.key(name)))

    async def discard(self, name: str) -> None:
        """Deletes a file that no row references. Returns after a second if the disk or the storage stalls,
        and deletes it later. A failure is logged, and the collector deletes the file."""
        await self._disk.clean_up(partial(remove, self._path(name)))
        if self.storage.remote:
            await wait_shielded(asyncio.ensure_future(self._disk.run(partial(self.delete, name))))

    def stat(self, name: str) -> Stored | None:
        """None if the name is invalid or there is no such file."""
        return self.storage.stat(self.key(name)) if self._name.fullmatch(name) else None

    def read(self, name: str, first: int, count: int) -> bytes:
        """Up to `count` bytes from `first` on. Raises FileNotFoundError, StorageUnavailable."""
        return self.storage.read(self.key(name), first, count)

    @contextlib.asynccontextmanager
    async def local(self, name: str) -> AsyncIterator[Path]:
        """The file as one of this machine, for the block. Raises FileNotFoundError, StorageUnavailable."""
        if not self._name.fullmatch(name):
            raise FileNotFoundError(name)
        path = await self._disk.run(partial(self.storage.fetch, self.key(name)))
        try:
            yield path
        finally:
            if self.storage.remote:
                await self._disk.clean_up(partial(remove, path))

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The results of `work` on a file of each item, concurrently in a remote storage."""
        if self.storage.remote:
            return list(DiskThreads(_REQUESTS).map(work, items))
        return [work(item) for item in items]

    def signed(self, name: str, seconds: int) -> str:
        """An address at which anyone can read the file for so long; "" if there is none."""
        return self.storage.signed(self.key(name), seconds)

    def delete(self, name: str) -> None:
        """Deletes the file if it exists."""
        self.storage.delete(self.key(name))

    def modified_between(self, since: float, before: float) -> Iterator[str]:
        """The names of all files with a modification time from `since` to `before`, exclusive (Unix
        seconds)."""
        for key, stored in self.storage.walk(self.folder.name):
            name = key.rpartition("/")[2]
            if self._name.fullmatch(name) and since <= stored.modified_s < before:
                yield name

    def remove_unfinished(self, before: float) -> int:
        """Removes what is left of files that were being made before `before` (Unix seconds): a process that
        is killed together with its children leaves it. Returns how many."""
        removed = 0
        for path in self.folder.glob("**/*" if self.storage.remote else "*/.*.part"):
            try:
                if path.is_file() and path.stat().st_mtime < before:
                    path.unlink()
                    removed += 1
            except FileNotFoundError:  # its job ended, or another process removed it
                continue
        return removed

    def key(self, name: str) -> str:
        return self._key.format(name, name)

    def _path(self, name: str) -> Path:
        return self.storage.working / self.key(name)
