"""Where finished audio and samples are: in the data folder, or in a bucket that several machines share.

A file is made in the folder `working` of this machine, since the confined processes that make and check it
reach no network. `keep` then moves it to its place; in a folder that is where it is. The key of a file is
`audio/ab/NAME` or `samples/ab/NAME`.

A marker in the storage has the id of its installation, which the database has too: a process that has another
folder than the others would look well, and its audio would be missing everywhere else.
"""

import asyncio
import logging
import pkgutil
import secrets
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from myna.errors import CommandError, DiskFull, StorageUnavailable
from myna.lib.files import DiskThreads, write_atomically
from myna.lib.setting_kinds import IN_FOLDER
from myna.lib.telemetry import metrics
from myna.settings import Settings
from myna.store.database import Database, Transaction
from myna.store.queries import site as queries

log = logging.getLogger(__name__)

FOLDERS: Final = ("audio", "samples")
MARKER: Final = "audio/myna-site"
WRONG_STORAGE: Final = (
    "The storage {storage} belongs to another installation, or was moved: its {marker} is not that of this"
    " database."
)
UNMARKED_STORAGE: Final = (
    "The storage {storage} is not that of this database: it has no {marker}. Every process of an installation"
    " needs the same one: share the folder, or move it to a bucket with 'myna move --storage'."
)
UNREADABLE_STORAGE: Final = (
    "The storage {storage} can't be read: its {marker} needs to be a file that this process may read; the log"
    " has what a bucket answers."
)
_PROBE_BYTES: Final = 4096
_MIB: Final = 2**20
_BUCKET: Final = "myna.store.files.bucket:Bucket"
"""Imported on demand: its library is an extra."""


class Stored(Struct, frozen=True):
    """A stored file. `modified_s` is in Unix seconds."""

    size_bytes: int
    modified_s: float


class Storage(Protocol):
    """The files by their keys. All methods block, and must run in a thread. They raise FileNotFoundError for
    a missing file; for other failures a folder raises OSError and a bucket StorageUnavailable."""

    label: str
    working: Path
    remote: bool
    """Whether the files are elsewhere than in `working`: they are fetched to be read here."""

    def keep(self, key: str) -> None:
        """Takes the finished, durable file from `working / key`."""

    def put(self, key: str, data: bytes) -> None:
        """Stores a file, durably."""

    def stat(self, key: str) -> Stored | None:
        """None if there is no such file."""

    def read(self, key: str, first: int, count: int) -> bytes:
        """Up to `count` bytes from `first` on."""

    def fetch(self, key: str) -> Path:
        """The file on this machine; a `remote` one is a copy, which the caller removes."""

    def delete(self, key: str) -> None:
        """Deletes the file if it exists."""

    def walk(self, folder: str) -> Iterator[tuple[str, Stored]]:
        """All files of a folder, part files included."""

    def signed(self, key: str, seconds: int) -> str:
        """An address at which anyone can read the file for so long; "" if there is none."""

    def usable(self) -> bool:
        """Whether files can be stored now, as far as a cheap test can say."""


class Folder:
    """The data folder."""

    remote = False

    def __init__(self, folder: Path) -> None:
        self.label = str(folder)
        self.working = folder

    def keep(self, key: str) -> None:
        return

    def put(self, key: str, data: bytes) -> None:
        write_atomically(self.working / key, data, private=True)

    def stat(self, key: str) -> Stored | None:
        try:
            found = (self.working / key).stat()
        except FileNotFoundError:
            return None
        return Stored(found.st_size, found.st_mtime)

    def read(self, key: str, first: int, count: int) -> bytes:
        with (self.working / key).open("rb") as file:
            file.seek(first)
            return file.read(count)

    def fetch(self, key: str) -> Path:
        path = self.working / key
        path.stat()
        return path

    def delete(self, key: str) -> None:
        (self.working / key).unlink(missing_ok=True)

    def walk(self, folder: str) -> Iterator[tuple[str, Stored]]:
        for path in (self.working / folder).glob("*/*"):
            key = f"{folder}/{path.parent.name}/{path.name}"
            if stored := self.stat(key):  # else it was removed concurrently
                yield key, stored

    def signed(self, key: str, seconds: int) -> str:
        return ""

    def usable(self) -> bool:
        """Writes a block of a new file: a full disk still accepts an empty one."""
        probe = self.working / "audio" / f"probe-{secrets.token_hex(4)}"
        try:
            probe.parent.mkdir(parents=True, exist_ok=True)
            try:
                probe.write_bytes(bytes(_PROBE_BYTES))
            finally:
                probe.unlink(missing_ok=True)
        except OSError:
            return False
        return True


def open_storage(settings: Settings, environ: Mapping[str, str]) -> Storage:
    """The storage that MYNA_STORAGE names. Raises ConfigError."""
    if settings.storage == IN_FOLDER:
        return Folder(settings.data_folder)
    storage: Storage = pkgutil.resolve_name(_BUCKET)(settings.storage, settings.data_folder, environ)
    return storage


def is_empty(storage: Storage) -> bool:
    """Whether it has no file."""
    return all(next(storage.walk(folder), None) is None for folder in FOLDERS)


def marker_of(storage: Storage) -> str:
    """The id of the storage's installation; "" for none."""
    found = storage.stat(MARKER)
    return storage.read(MARKER, 0, found.size_bytes).decode(errors="replace").strip() if found else ""


async def check_storage(db: Database, storage: Storage, *, claim: bool = False) -> None:
    """Raises CommandError if the storage is another installation's. To `claim` makes a storage without a
    marker this installation's, unless it has one already: the first start does so. That of an upgraded site
    begins no empty bucket while its audio is elsewhere."""
    site_id = await db.transaction(queries.site_id)
    try:
        found = await asyncio.to_thread(marker_of, storage)
    except (OSError, StorageUnavailable):
        raise CommandError(UNREADABLE_STORAGE, storage=storage.label, marker=MARKER) from None
    if claim and not found and not await _lacks_files(db, storage):

        async def mark(connection: Transaction) -> None:
            if await queries.mark_storage(connection):
                storage.put(MARKER, site_id.encode())

        await db.transaction(mark)
        found = await asyncio.to_thread(marker_of, storage)
    if found != site_id and (found or claim or await queries.is_storage_marked(db)):
        raise CommandError(WRONG_STORAGE if found else UNMARKED_STORAGE, storage=storage.label, marker=MARKER)


async def _lacks_files(db: Database, storage: Storage) -> bool:
    """Whether this is an empty bucket, and the database names audio."""
    return storage.remote and await asyncio.to_thread(is_empty, storage) and await queries.has_audio(db)


class FreeSpace:
    """Whether the file systems of the data folder have the reserve free that new audio must leave, as of the
    last `refresh`."""

    def __init__(self, data_folder: Path, reserve_bytes: int) -> None:
        self._folder = data_folder
        self._reserve_bytes = reserve_bytes
        self._disk = DiskThreads(1)
        self.low = False

    async def refresh(self) -> None:
        """Reads the free space in a thread, since a disk may stall. Logs when it falls below the reserve and
        when it is above it again."""
        free_bytes = await self._disk.run(partial(least_free_bytes, self._folder))
        metrics.DISK_FREE_BYTES.set(free_bytes)
        low = free_bytes < self._reserve_bytes
        if low != self.low:
            self.low = low
            level, change = (logging.ERROR, "refused") if low else (logging.WARNING, "accepted again")
            log.log(
                level,
                "speech and uploads are %s: the data folder's disk has %d MiB free, the reserve is %d MiB",
                *(change, free_bytes // _MIB, self._reserve_bytes // _MIB),
            )

    def check(self) -> None:
        """Raises DiskFull below the reserve."""
        if self.low:
            raise DiskFull


def least_free_bytes(data_folder: Path) -> int:
    """The least free bytes of the data folder's file systems. Blocks on the disk."""
    folders = [data_folder / name for name in ("", *FOLDERS)]  # each may be on another file system
    return min(shutil.disk_usage(folder).free for folder in folders if folder.is_dir())
