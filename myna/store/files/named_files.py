"""Files that are named by 128 random bits: stored audio and samples, and temporary files of requests."""

import asyncio
import contextlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from myna.engines.audio import word_times
from myna.engines.interface import WordTime
from myna.lib.files import FILE_MODE, FOLDER_MODE, DiskExecutor, DiskThreads, remove, wait_shielded
from myna.store.files.storage import Storage, Stored

T = TypeVar("T")
R = TypeVar("R")
_REQUESTS = 32
"""Concurrent ones, to a remote storage."""
_TEMPORARY: Final = ".tmp"


class NamedFiles:
    """A folder of finished files, `ab/<32 hex><suffix>` in the storage. Who makes one writes it to the path
    of its name, and keeps it. The methods that are not `async`, except `new`, block: they belong in a thread.
    """

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
        return _remove_old(self.folder.glob("**/*" if self.storage.remote else "*/.*.part"), before)

    def key(self, name: str) -> str:
        return self._key.format(name, name)

    def _path(self, name: str) -> Path:
        return self.storage.working / self.key(name)


class AudioStore(NamedFiles):
    """The audio files: `audio/ab/<32 hex>.mp3`."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage, "audio", ".mp3")

    def words(self, name: str) -> list[WordTime]:
        """The words of a sound with their times; none if they are not known or there is no such file. Blocks,
        and must run in a thread. Raises OSError, StorageUnavailable."""
        stored = self.stat(name)
        return word_times.read_parts(stored.size_bytes, partial(self.read, name)) if stored else []


class SampleStore(NamedFiles):
    """The samples of voices: `samples/ab/<32 hex>.wav`, private to the service's user. A sample is sent only
    to a compute node that has leased a job in its voice."""

    def __init__(self, storage: Storage, owner: tuple[int, int] | None = None) -> None:
        """`owner` is the user and group id for new files, if the process is root."""
        super().__init__(storage, "samples", ".wav")
        self._owner = owner

    def new(self) -> tuple[str, Path]:
        """An unguessable name and its path. Creates the path's folder."""
        name, path = super().new()
        self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        path.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
        return name, path

    def make_private(self, name: str) -> None:
        """Makes the file readable by this user only."""
        path = self._path(name)
        path.chmod(FILE_MODE)
        if self._owner:
            for found in (self.folder, path.parent, path):
                os.chown(found, *self._owner)


class Spool:
    """The folder of the temporary files of requests: sound that a slow client has not read yet, and uploads
    that are being read. All methods except `new` block on the disk and must run in a thread.

    It is a separate folder, since the system's folder for temporary files may be in memory, and since
    confined processes open the files by their names.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Creates the folder."""
        self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)

    def new(self) -> Path:
        """The path of a new file. Who creates it removes it."""
        return self.folder / (secrets.token_hex(16) + _TEMPORARY)

    def remove_old(self, before: float) -> int:
        """Removes the files last written before `before` (Unix seconds), which a killed process has left.
        Returns how many."""
        return _remove_old(self.folder.glob(f"*{_TEMPORARY}"), before)


def _remove_old(paths: Iterable[Path], before: float) -> int:
    removed = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # its job ended, or another process removed it
            if path.is_file() and path.stat().st_mtime < before:
                path.unlink()
                removed += 1
    return removed
