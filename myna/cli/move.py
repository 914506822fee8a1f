"""myna move: from SQLite to PostgreSQL, or, with --storage, the audio and the samples to another storage.

The files are copied and stay where they were; the old storage gets a marker that no process accepts, and the
new one the installation's. A copy that was interrupted is continued.
"""

import asyncio
import contextlib
import dataclasses
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from myna import settings as settings_module
from myna.billing import audit
from myna.cli.backup import counted
from myna.cli.console import (
    MOVED,
    Json,
    check_schema,
    exclusive,
    give_files_to,
    open_database,
    owner_of_files,
    read_settings,
    show,
)
from myna.errors import CommandError, ConfigError
from myna.settings import PREFIX, Settings
from myna.store import backup as backups
from myna.store.archive import FILES, ArchiveReader, ArchiveWriter, Manifest
from myna.store.backup import RestoreInDoubt
from myna.store.database import Database, Transaction
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import (
    FOLDERS,
    MARKER,
    Folder,
    Storage,
    check_storage,
    is_empty,
    marker_of,
    open_storage,
)
from myna.store.queries import site as queries
from myna.store.queries.audit import OVERDUE_RULE
from myna.store.sqlite_writer import WriterHandover


def move(
    *,
    to: Annotated[str, Parameter(help="postgresql://…, instead of MYNA_DATABASE_URL's.")] = "",
    storage: Annotated[
        str, Parameter(help="Move the audio and samples instead: s3://…, gs://…, az://… or folder.")
    ] = "",
    json: Json = False,
) -> None:
    """Move the data folder's SQLite database to PostgreSQL, while nothing serves from it."""
    if storage:
        _move_storage(read_settings(), storage, json)
        return
    environ: Mapping[str, str] = os.environ
    if to:
        settings_module.checked("--to", "database_url", to)
        environ = {**os.environ, PREFIX + "DATABASE_URL": to}
    target = settings_module.load(environ)[0]
    source = dataclasses.replace(target, database_url="")
    if target.on_sqlite:
        raise ConfigError("Give --to postgresql://USER:PASSWORD@HOST/NAME, or set MYNA_DATABASE_URL to it.")
    if not source.sqlite_file.exists():
        raise CommandError(f"There is no SQLite database in {source.data_folder}.")
    with exclusive(source):
        manifest, left = asyncio.run(_move_rows(source, target))
    moved = {"from": source.database_label, "to": target.database_label, **counted(manifest)}
    show({**moved, "old": str(left), "next": "set MYNA_DATABASE_URL for the service and its commands"}, json)


async def _move_rows(source: Settings, target: Settings) -> tuple[Manifest, Path]:
    """Copies the rows through a private backup file; the audio stays in place. Returns what was moved and
    the new path of the old database."""
    async with open_database(source) as db:
        await check_schema(db, source)
        before = await _breaches(db, source)
    with (
        _no_writer(source),  # until the old database is renamed: a write after the copy would be lost
        tempfile.TemporaryDirectory(prefix=".move-", dir=source.data_folder) as folder,
    ):
        file = Path(folder) / "rows"
        async with open_database(source) as db:
            with ArchiveWriter(file, replace=False) as out:
                await backups.write(db, Folder(source.data_folder), out, kinds=(), move=True)
        with ArchiveReader(file) as archive:
            async with open_database(target) as db:
                try:
                    manifest = await backups.restore(db, Folder(Path(folder)), archive, in_place=True)
                except RestoreInDoubt:
                    raise _copy_left(target, "may be") from None
                try:
                    _check_equal(before, await _breaches(db, target))
                    return manifest, _rename_moved(source.sqlite_file)
                except BaseException:
                    await _undo(db, target)
                    raise


def _copy_left(target: Settings, whether: str) -> CommandError:
    return CommandError(
        f"Nothing was moved, but a copy {whether} left in {target.database_label}, which is unavailable: drop"
        " that database and create it again before you move again."
    )


@contextlib.contextmanager
def _no_writer(source: Settings) -> Iterator[None]:
    """Blocks writes of other commands. Raises CommandError if one of them is writing and does not end."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(WriterHandover(source.data_folder).acquire())
        except TimeoutError:
            raise CommandError(
                f"Nothing was moved: another command writes to {source.database_label}; try again."
            ) from None
        yield


async def _breaches(db: Database, settings: Settings) -> Counter[str]:
    """The number of breaches of each rule in a full audit, without calls past their deadline: their number
    grows with time, and the first start refunds them."""
    report = await audit.run(db, AudioStore(open_storage(settings, os.environ)), full=True)
    return Counter({one.rule: one.count for one in report.breaches if one.rule != OVERDUE_RULE})


def _check_equal(here: Counter[str], there: Counter[str]) -> None:
    """Raises CommandError if the two audits differ."""
    differing = sorted(rule for rule in here.keys() | there.keys() if here[rule] != there[rule])
    if differing:
        rule = differing[0]
        raise CommandError(
            f"Nothing was moved: the audit finds {there[rule]} breaches there and {here[rule]} here of the"
            f" rule {rule!r}; {len(differing)} rules differ."
        )


async def _undo(db: Database, target: Settings) -> None:
    """Empties the target. Raises CommandError if it is unavailable."""
    try:
        await backups.undo(db)
    except db.unavailable:
        raise _copy_left(target, "is") from None


def _rename_moved(file: Path) -> Path:
    """Renames the old database and its WAL files, so that it is no longer served. Returns the new path."""
    left = file.with_name(f"{file.name}{MOVED}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    file.rename(left)
    for ending in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):  # they exist only while another process reads
            Path(f"{file}{ending}").rename(f"{left}{ending}")
    return left


def _move_storage(settings: Settings, to: str, json: bool) -> None:
    settings_module.checked("--storage", "storage", to)
    if to == settings.storage:
        raise CommandError(f"The audio and the samples are in {to} already.")
    source = open_storage(settings, os.environ)
    target = open_storage(dataclasses.replace(settings, storage=to), os.environ)
    with exclusive(settings):
        owner = owner_of_files(settings)
        try:
            files = asyncio.run(_move_files(settings, source, target))
        finally:
            give_files_to(owner, settings)
    moved = {"from": source.label, "to": target.label, "files": len(files), "bytes": sum(files.values())}
    show({**moved, "next": f"set MYNA_STORAGE={to} for every process and the commands"}, json)


async def _move_files(settings: Settings, source: Storage, target: Storage) -> dict[str, int]:
    async with open_database(settings) as db:
        await check_schema(db, settings)
        await check_storage(db, source)

        async def work(connection: Transaction) -> dict[str, int]:
            ((is_alone, addresses),) = await connection.fetch(db.exclude_processes)
            if not is_alone:
                raise CommandError(
                    f"Processes serve from the database (connected from {addresses or 'elsewhere'}); stop"
                    " them first."
                )
            await connection.tables.begin_load()
            site_id = await queries.site_id(connection)
            await queries.mark_storage(connection)
            return _copy(source, target, site_id)

        return await db.transaction(work)


def _copy(source: Storage, target: Storage, site_id: str) -> dict[str, int]:
    """Copies all files, and checks that they are there. Returns their sizes by key."""
    begun = f"{site_id} until the move has ended".encode()
    found = marker_of(target)
    if found not in ("", begun.decode()) or (not found and not is_empty(target)):
        raise CommandError(f"{target.label} isn't empty: the files move into an empty storage.")
    target.put(MARKER, begun)
    files = _sizes(source)
    there = _sizes(target)
    missing = [key for key, size in files.items() if there.get(key) != size]
    AudioStore(target if target.remote else source).each(partial(_copy_one, source, target, files), missing)
    there = _sizes(target)
    if wrong := [key for key, size in files.items() if there.get(key) != size]:
        raise CommandError(f"{len(wrong)} files are not in {target.label}, such as {wrong[0]}; try again.")
    target.put(MARKER, site_id.encode())
    source.put(MARKER, f"{site_id} moved to {target.label}".encode())
    return files


def _copy_one(source: Storage, target: Storage, sizes: Mapping[str, int], key: str) -> None:
    target.put(key, source.read(key, 0, sizes[key]))


def _sizes(storage: Storage) -> dict[str, int]:
    found = ((key, stored) for folder in FOLDERS for key, stored in storage.walk(folder))
    return {key: stored.size_bytes for key, stored in found if FILES.fullmatch(key)}
