"""Backup and restore: the whole site in one file, from one snapshot of the database and the files it names.

A backup is taken while the service runs: first all rows, in one snapshot that stops no writer, then the files
that they name. A restore goes into an empty database and an empty folder, in one transaction, and leaves
nothing where it fails. Where its COMMIT is in doubt it asks the database, and removes files only of what was
rolled back. Neither asks which database it is: a backup of one can be restored into the other.
"""

import base64
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from myna import __version__
from myna.backup.archive import (
    FORMAT,
    HEADER,
    ArchiveBroken,
    ArchiveReader,
    ArchiveWriter,
    Header,
    Manifest,
    Page,
)
from myna.errors import CommandError
from myna.files.fsync import sync_folder
from myna.store import migrate
from myna.store.database import Database, Transaction
from myna.store.queries import clones, tasks
from myna.store.tables import tables
from myna.store.tables.tables import Kind, Tabled

PAGE_BYTES = 2**22
FOLDERS = ("audio", "samples")
KINDS = {
    "audio": [("audio", tables.AUDIO)],
    "samples": [("samples", tables.SAMPLES), ("audio", tables.PREVIEWS)],
}
"""What may be left out of a backup: the folders of its files, and the queries for their names."""
MISSING_SHOWN_MAX = 20
_NUMBER_BYTES = 8
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600


class BackupResult(Struct, frozen=True):
    """A backup. `missing` are files that rows name and that aren't there; `removed` is how many were removed,
    with their rows, while it was made."""

    manifest: Manifest
    missing: list[str]
    removed: int


class RestoreInDoubt(CommandError):
    """Whether the database was restored isn't known: it became unavailable during the COMMIT."""


async def write(
    db: Database, data: Path, out: ArchiveWriter, *, kinds: Sequence[str] = tuple(KINDS)
) -> BackupResult:
    """The site's rows and files of these kinds in `data`, into an archive that is open."""
    with tempfile.TemporaryFile() as names:

        async def dump(snapshot: Tabled) -> tuple[dict[str, int], dict[str, int]]:
            version = await migrate.schema_version(snapshot)
            header = Header(format=FORMAT, version=__version__, schema=version, created_at=int(time.time()))
            out.add(HEADER, msgspec.json.encode(header))
            counts = {
                table.name: await _dump(snapshot, table, out) for table in await tables.copied(snapshot)
            }
            await _note_names(snapshot, names, kinds)
            return counts, await snapshot.tables.counters()

        counts, counters = await db.snapshot(dump)
        missing: list[str] = []
        removed = 0
        names.seek(0)
        for line in names:
            folder, name = line.decode().split()
            try:
                out.add_file(folder, name, data / folder / name[:2] / name)
            except FileNotFoundError:
                if await tables.still_named(db, name):
                    missing.append(f"{folder}/{name}")
                else:
                    removed += 1
            except OSError as error:
                if error.filename is None:  # of the archive
                    raise
                raise CommandError(f"{error.filename} can't be read: {error.strerror}.") from None
        left_out = [kind for kind in KINDS if kind not in kinds]
        return BackupResult(out.finish(counts, counters, len(missing), left_out), missing, removed)


async def _dump(snapshot: Tabled, table: tables.Table, out: ArchiveWriter) -> int:
    """Writes a table's rows in pages, the last of which may be empty; how many there are."""
    columns = list(table.columns)
    rows: list[list[Any]] = []
    count = size = 0
    async for row in snapshot.tables.stream(f"SELECT {', '.join(columns)} FROM {table.name}"):  # noqa: S608
        values = list(row)
        rows.append(values)
        count += 1
        size += sum(len(value) if isinstance(value, str | bytes) else _NUMBER_BYTES for value in values)
        if size >= PAGE_BYTES:
            out.add_page(Page(table.name, columns, rows))
            rows, size = [], 0
    out.add_page(Page(table.name, columns, rows))
    return count


async def _note_names(snapshot: Tabled, names: IO[bytes], kinds: Sequence[str]) -> None:
    """Writes the names to disk, since there may be millions."""
    for kind in kinds:
        for folder, sql in KINDS[kind]:
            async for (name,) in snapshot.tables.stream(sql):
                names.write(f"{folder} {name}\n".encode())


async def restore(db: Database, data: Path, source: ArchiveReader, *, in_place: bool = False) -> Manifest:
    """Loads an archive into a database and a folder that are empty, all of it or nothing. What the archive
    left out is removed for the database too, unless the files are `in_place` already. Raises CommandError;
    RestoreInDoubt where the outcome isn't known, and then all files stay."""
    version = source.header.schema
    if version > migrate.latest():
        raise CommandError(
            f"The backup has schema {version}, this build knows {migrate.latest()}: use a newer Myna."
        )
    staged = _StagedFiles(data)

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
            await _forget_left_out(connection, manifest.left_out)
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


async def _committed(db: Database, staged: "_StagedFiles", error: BaseException) -> bool:
    """Whether the transaction that ended with this error was committed. Raises RestoreInDoubt."""
    try:
        return await db.committed(staged.transaction)
    except db.unavailable:
        raise RestoreInDoubt(
            "Whether the backup was restored isn't known: the database became unavailable during the COMMIT."
            f" The audio and the samples stay in {staged.data}. Run 'myna audit --full --audio' once the"
            " database is available: it audits what was restored, or says that the database is empty; then"
            " remove the folders audio and samples and restore again."
        ) from error


async def undo(db: Database) -> None:
    """Removes everything that a restore has put into the database."""

    async def work(connection: Transaction) -> None:
        await connection.tables.drop_all()

    await db.transaction(work)


async def _load(connection: Transaction, staged: "_StagedFiles", source: ArchiveReader) -> Manifest:
    """All members; raises ArchiveBroken unless there is as much as the manifest says."""
    known = {table.name: table for table in await tables.copied(connection)}
    files = 0
    for member in source.members():
        if isinstance(member, Page):
            table = known.get(member.table)
            if table is None or set(member.columns) != set(table.columns):
                raise ArchiveBroken(f"The backup's table {member.table} is none of its schema's.")
            await _load_page(connection, member, [table.columns[name] for name in member.columns])
        else:
            named, content = member
            staged.write(named[1], named[3], content)
            files += 1
    manifest = source.manifest
    if manifest is None:
        raise ArchiveBroken("The backup has no manifest.")
    counts = {name: await tables.count(connection, name) for name in known}
    if counts != manifest.tables or files != manifest.files:
        raise ArchiveBroken("The backup holds more or less than its manifest says.")
    return manifest


async def _forget_left_out(connection: Transaction, kinds: Sequence[str]) -> None:
    if "audio" in kinds:
        await tasks.all_audio_removed(connection)
    if "samples" in kinds:
        await clones.all_samples_removed(connection)


async def _load_page(connection: Transaction, page: Page, kinds: Sequence[Kind]) -> None:
    binary = [place for place, kind in enumerate(kinds) if kind == "bytes"]
    for row in page.rows:
        for place in binary:
            if row[place] is not None:
                row[place] = base64.b64decode(row[place])
    await connection.tables.load(page.table, page.columns, page.rows)


class _StagedFiles:
    """Files next to their target folders until all are written. Raises CommandError if a target isn't empty.
    `moving` is set when they are moved in, just before the COMMIT of `transaction`."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.transaction = 0
        self.moving = False
        self._stopped = False
        self._places: list[Path] = []
        for name in FOLDERS:
            folder = data / name
            if folder.is_dir() and any(folder.iterdir()):
                raise CommandError(
                    f"The folder {folder} isn't empty: a backup is restored into an empty one."
                )
            shutil.rmtree(self._beside(name), ignore_errors=True)  # of a restore that was killed

    def stop(self) -> None:
        """Stops all writing: on SQLite the load runs in another thread, which an interrupt doesn't reach."""
        self._stopped = True

    def write(self, folder: str, name: str, content: Iterator[bytes]) -> None:
        self._check_not_stopped()
        path = self._beside(folder) / name[:2] / name
        try:
            path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            with path.open("xb") as file:
                for data in content:
                    file.write(data)
            path.chmod(_FILE_MODE)
        except OSError as error:
            raise CommandError(f"{self.data} can't be written to: {error.strerror}.") from None

    def move_in(self) -> None:
        """Moves the folders into place and makes them durable."""
        self.moving = True  # before the check: of `stop` and this, one sees the other
        self._check_not_stopped()
        os.sync()  # once for all: a file at a time takes milliseconds
        for name in FOLDERS:
            beside, folder = self._beside(name), self.data / name
            if beside.is_dir():
                beside.chmod(_FOLDER_MODE)
                beside.replace(folder)  # an empty folder gives way
                self._places.append(folder)
        sync_folder(self.data)

    def undo(self) -> None:
        """Removes everything that was written."""
        for folder in (*self._places, *map(self._beside, FOLDERS)):
            shutil.rmtree(folder, ignore_errors=True)

    def _check_not_stopped(self) -> None:
        if self._stopped:
            raise CommandError("The restore was interrupted.")

    def _beside(self, name: str) -> Path:
        return self.data / f".{name}.restoring"
