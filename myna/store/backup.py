"""Backup and restore: the whole site in one file, from one snapshot of the database and the files it names.

A backup is made while the service runs: first all rows, in one snapshot that blocks no writer, then the files
that they name. A restore loads the rows into an empty database in one transaction and moves the files into an
empty folder. If it fails, nothing is left. If its COMMIT is in doubt, it queries the outcome and removes the
files only after a rollback. A backup of one database can be restored into the other.
"""

import base64
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from myna import __version__
from myna.errors import CommandError
from myna.lib.files import FILE_MODE, FOLDER_MODE, DiskThreads, remove, sync_folder
from myna.store import migrate, schema, tables
from myna.store.archive import (
    FORMAT,
    HEADER,
    ArchiveBroken,
    ArchiveReader,
    ArchiveWriter,
    Header,
    Manifest,
    Page,
)
from myna.store.database import Database, Transaction
from myna.store.files.storage import FOLDERS, Storage, is_empty, marker_of
from myna.store.queries import clones, tasks
from myna.store.queries import site as storage_queries
from myna.store.tables import Kind, TableQueries

PAGE_BYTES = 2**22
KINDS = {
    "audio": [("audio", tables.AUDIO)],
    "samples": [("samples", tables.SAMPLES), ("audio", tables.PREVIEWS)],
}
"""The kinds of files that a backup may leave out: their folders, and the queries for their names."""
MISSING_SHOWN_MAX = 20
_NUMBER_BYTES = 8
_AT_ONCE = 32


class BackupResult(Struct, frozen=True):
    """A backup. `missing` are files that rows name but that do not exist; `removed` is how many were removed,
    with their rows, while the backup was made."""

    manifest: Manifest
    missing: list[str]
    removed: int


class RestoreInDoubt(CommandError):
    """The database became unavailable during the COMMIT, so whether it was restored is unknown."""


async def write(
    db: Database,
    storage: Storage,
    out: ArchiveWriter,
    *,
    kinds: Sequence[str] = tuple(KINDS),
    move: bool = False,
) -> BackupResult:
    """Writes the site's rows, and its files of these kinds, to an open archive. Only a
    `move` has the rows of tables that a backup doesn't keep."""
    with tempfile.TemporaryFile() as names:

        async def dump(snapshot: TableQueries) -> tuple[dict[str, int], dict[str, int]]:
            version = await schema.schema_version(snapshot)
            header = Header(format=FORMAT, version=__version__, schema=version, created_at=int(time.time()))
            out.add(HEADER, msgspec.json.encode(header))
            counts = {
                table.name: await _dump(snapshot, table, out)
                if move or table.name not in tables.NOT_KEPT
                else 0
                for table in await tables.tables_to_copy(snapshot)
            }
            await _write_names(snapshot, names, kinds)
            return counts, await snapshot.tables.counters()

        counts, counters = await db.snapshot(dump)
        missing: list[str] = []
        removed = 0
        names.seek(0)
        for line in names:
            folder, name = line.decode().split()
            try:
                path = storage.fetch(f"{folder}/{name[:2]}/{name}")
                try:
                    out.add_file(folder, name, path)
                finally:
                    if storage.remote:
                        remove(path)
            except FileNotFoundError:
                if await tables.is_referenced(db, name):
                    missing.append(f"{folder}/{name}")
                else:
                    removed += 1
            except OSError as error:
                if error.filename is None:  # an error of the archive, not of the file
                    raise
                raise CommandError(f"{error.filename} can't be read: {error.strerror}.") from None
        left_out = [kind for kind in KINDS if kind not in kinds]
        return BackupResult(out.finish(counts, counters, len(missing), left_out), missing, removed)


async def _dump(snapshot: TableQueries, table: tables.Table, out: ArchiveWriter) -> int:
    """Writes a table's rows in pages, the last of which may be empty. Returns the number of rows."""
    columns = list(table.columns)
    rows: list[list[Any]] = []
    count = size = 0
    async for row in snapshot.tables.stream(f"SELECT {', '.join(columns)} FROM {table.name}"):
        values = list(row)
        rows.append(values)
        count += 1
        size += sum(len(value) if isinstance(value, str | bytes) else _NUMBER_BYTES for value in values)
        if size >= PAGE_BYTES:
            out.add_page(Page(table.name, columns, rows))
            rows, size = [], 0
    out.add_page(Page(table.name, columns, rows))
    return count


async def _write_names(snapshot: TableQueries, names: IO[bytes], kinds: Sequence[str]) -> None:
    """Writes the names of the files to disk, since there may be millions."""
    for kind in kinds:
        for folder, sql in KINDS[kind]:
            async for (name,) in snapshot.tables.stream(sql):
                names.write(f"{folder} {name}\n".encode())


async def restore(
    db: Database, storage: Storage, source: ArchiveReader, *, in_place: bool = False
) -> Manifest:
    """Loads an archive into an empty database and an empty storage, all of it or nothing. Rows are updated
    for the files that the archive left out, unless the files are `in_place`. Raises CommandError, or
    RestoreInDoubt if the outcome is unknown; then the files stay."""
    version = source.header.schema
    if version > schema.latest():
        raise CommandError(
            f"The backup has schema {version}, this build needs {schema.latest()} or less: use a newer Myna."
        )
    migrate.check_not_too_old(version)
    staged = _SentFiles(storage) if storage.remote else _StagedFiles(storage.working)

    async def work(connection: Transaction) -> Manifest:
        if await connection.tables.layout():
            raise CommandError(
                "The database isn't empty: name an empty one, or drop this one and create it again."
            )
        staged.transaction = await connection.transaction_id()
        await connection.tables.begin_load()
        await migrate.build(db, connection, version)
        await tables.clear(connection)
        manifest = await _load(connection, staged, source)
        await connection.tables.set_counters(manifest.counters)
        await migrate.complete(db, connection, version)
        if not in_place:
            if "audio" in manifest.left_out:
                await tasks.mark_all_audio_removed(connection)
            if "samples" in manifest.left_out:
                await clones.fail_all(connection)
            await storage_queries.forget_storage(connection)
        staged.move_in()
        return manifest

    try:
        return await db.transaction(work)
    except BaseException as error:
        staged.stop()
        if staged.moving and await _committed(db, staged, error) and source.manifest:
            return source.manifest
        staged.undo()
        raise


async def _committed(db: Database, staged: "_Files", error: BaseException) -> bool:
    """Whether the transaction that ended with this error was committed. Raises RestoreInDoubt."""
    try:
        return await db.committed(staged.transaction)
    except db.unavailable:
        raise RestoreInDoubt(
            "Whether the backup was restored is unknown: the database became unavailable during the COMMIT."
            f" The audio and the samples stay in {staged.label}. Run 'myna audit --full --audio' once the"
            " database is available: it audits what was restored, or says that the database is empty; then"
            " remove the folders audio and samples and restore again."
        ) from error


async def _load(connection: Transaction, staged: "_Files", source: ArchiveReader) -> Manifest:
    """Loads all members. Raises ArchiveBroken if the numbers of rows or files differ from the manifest."""
    known = {table.name: table for table in await tables.tables_to_copy(connection)}
    files = 0
    for member in source.members():
        if isinstance(member, Page):
            table = known.get(member.table)
            if table is None or set(member.columns) != set(table.columns):
                raise ArchiveBroken(f"The backup's table {member.table} is not in its schema.")
            await _load_page(connection, member, [table.columns[name] for name in member.columns])
        else:
            path, content = member
            staged.write(path[1], path[3], content)
            files += 1
    manifest = source.manifest
    if manifest is None:
        raise ArchiveBroken("The backup has no manifest.")
    counts = {name: await tables.count(connection, name) for name in known}
    if counts != manifest.tables or files != manifest.files:
        raise ArchiveBroken("The backup contains more or less than its manifest says.")
    return manifest


async def _load_page(connection: Transaction, page: Page, kinds: Sequence[Kind]) -> None:
    binary_columns = [index for index, kind in enumerate(kinds) if kind == "bytes"]
    for row in page.rows:
        for index in binary_columns:
            if row[index] is not None:
                row[index] = base64.b64decode(row[index])
    await connection.tables.load(page.table, page.columns, page.rows)


class _Files:
    """The files of a restore. `moving` is set just before the COMMIT of `transaction`."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.transaction = 0
        self.moving = False
        self._stopped = False

    def stop(self) -> None:
        """Stops all writing: on SQLite the load runs in another thread, which an interrupt does not end."""
        self._stopped = True

    def write(self, folder: str, name: str, content: Iterator[bytes]) -> None:
        """Writes a file."""

    def move_in(self) -> None:
        """Has all files at their places, durably."""
        self.moving = True  # set before the check, so that `stop` can't happen unnoticed in between
        self._check_not_stopped()

    def undo(self) -> None:
        """Removes everything that was written."""

    def _check_not_stopped(self) -> None:
        if self._stopped:
            raise CommandError("The restore was interrupted.")


class _SentFiles(_Files):
    """Sends files to a bucket, at most _AT_ONCE at a time. Raises CommandError if it isn't empty."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage.label)
        if marker_of(storage) or not is_empty(storage):
            raise CommandError(f"{storage.label} isn't empty: a backup is restored into an empty one.")
        self._storage = storage
        self._threads = DiskThreads(_AT_ONCE)
        self._sending: list[Future[None]] = []
        self._sent: list[str] = []

    def write(self, folder: str, name: str, content: Iterator[bytes]) -> None:
        self._check_not_stopped()
        key, data = f"{folder}/{name[:2]}/{name}", b"".join(content)
        self._sent.append(key)
        self._sending.append(self._threads.submit(self._storage.put, key, data))
        if len(self._sending) >= _AT_ONCE:
            self._sending.pop(0).result()

    def move_in(self) -> None:
        for one in self._sending:
            one.result()
        super().move_in()

    def undo(self) -> None:
        wait(self._sending)
        for _ in self._threads.map(self._storage.delete, self._sent):
            continue


class _StagedFiles(_Files):
    """Writes files to folders next to their targets and renames these when all are written. Raises
    CommandError if a target isn't empty."""

    def __init__(self, data: Path) -> None:
        super().__init__(str(data))
        self.data = data
        self._moved: list[Path] = []
        for name in FOLDERS:
            folder = data / name
            if folder.is_dir() and any(folder.iterdir()):
                raise CommandError(
                    f"The folder {folder} isn't empty: a backup is restored into an empty one."
                )
            shutil.rmtree(self._staging(name), ignore_errors=True)  # left by a restore that was killed

    def write(self, folder: str, name: str, content: Iterator[bytes]) -> None:
        self._check_not_stopped()
        path = self._staging(folder) / name[:2] / name
        try:
            path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            with path.open("xb") as file:
                for data in content:
                    file.write(data)
            path.chmod(FILE_MODE)
        except OSError as error:
            raise CommandError(f"{self.data} can't be written to: {error.strerror}.") from None

    def move_in(self) -> None:
        """Renames the folders to their targets and makes them durable."""
        super().move_in()
        os.sync()  # one sync for all files: syncing each takes milliseconds
        for name in FOLDERS:
            staging, folder = self._staging(name), self.data / name
            if staging.is_dir():
                staging.chmod(FOLDER_MODE)
                staging.replace(folder)  # replaces an empty folder
                self._moved.append(folder)
        sync_folder(self.data)

    def undo(self) -> None:
        for folder in (*self._moved, *map(self._staging, FOLDERS)):
            shutil.rmtree(folder, ignore_errors=True)

    def _staging(self, name: str) -> Path:
        return self.data / f".{name}.restoring"
