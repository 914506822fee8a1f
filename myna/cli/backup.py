"""myna audit, myna backup, myna restore, myna move: the database, the audio and the samples of a site.

A move goes from SQLite to PostgreSQL, or, with --storage, to another storage of the audio and samples. Files
are copied and stay where they were; the old storage gets a marker that no process accepts, and the new one
the installation's. A copy that was interrupted is continued.
"""

import asyncio
import contextlib
import dataclasses
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec import structs

from myna import settings as settings_module
from myna.billing import audit as books
from myna.cli.console import (
    MOVED,
    Json,
    Row,
    check_schema,
    exclusive,
    give_files_to,
    moment,
    open_database,
    owner_of_files,
    read_settings,
    show,
    site_storage,
    with_database,
)
from myna.errors import CommandError, ConfigError
from myna.settings import PREFIX, Settings
from myna.store import backup as backups
from myna.store.archive import FILES, ArchiveReader, ArchiveWriter, Manifest
from myna.store.backup import MISSING_SHOWN_MAX, BackupResult, RestoreInDoubt
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
from myna.store.queries.audit import OVERDUE_RULE, Breach, Counts
from myna.store.sqlite_writer import WriterHandover

COUNTED = {
    "accounts": "accounts",
    "keys": "keys",
    "calls": "calls",
    "ledger": "ledger_entries",
    "tasks": "tasks",
}
"""The tables whose rows are counted in the output, each with its name there."""
File = Annotated[Path, Parameter(name="FILE", help="The backup, a tar file.")]
_SQLITE_FILES = ("", "-wal", "-shm")


def audit(
    *,
    full: Annotated[bool, Parameter(help="Check everything, and the checkpoints too.")] = False,
    audio: Annotated[bool, Parameter(help="Hash every audio file as well; implies --full.")] = False,
    json: Json = False,
) -> int:
    """Check the books: calls since the last audit, every balance. Exit 1 and a line for each breach."""

    async def work(db: Database) -> books.Report:
        return await books.run(db, AudioStore(await site_storage(db)), full=full or audio, hash_audio=audio)

    report = with_database(work, json=json)
    if json:
        found = {
            "ok": not report.breaches,
            "full": report.full,
            "checked": books.counted_of(report),
            "before": structs.asdict(report.before),
            "since": report.since_ms // 1000,
            "breaches": [structs.asdict(breach) for breach in report.breaches],
        }
        show(found, True)
    else:
        holders = f"{report.accounts} accounts' balances, {report.keys} keys' counters"
        print("The books have breaches." if report.breaches else "No breach found.")
        print(f"Checked: {holders}, {_listed(report.checked)}.")
        if report.since:
            since = moment(report.since_ms // 1000)
            print(f"Checked by audits before: {_listed(report.before)}, all from before {since}.")
    return _exit_code(report.breaches)


def _listed(counts: Counts) -> str:
    found = f"{counts.calls} calls, {counts.entries} ledger entries, {counts.tasks} speech tasks"
    return f"{found}, {counts.files} audio files"


def backup(
    file: File,
    /,
    *,
    no_audio: Annotated[bool, Parameter(help="Leave out the audio of tasks.")] = False,
    no_samples: Annotated[bool, Parameter(help="Leave out samples of voices.")] = False,
    force: Annotated[bool, Parameter(help="Replace FILE if it exists.")] = False,
    json: Json = False,
) -> int:
    """Write the database, the audio and the samples to FILE, while the service runs."""
    storage = open_storage(read_settings(), os.environ)
    left_out = {"audio": no_audio, "samples": no_samples}
    kinds = [kind for kind in backups.KINDS if not left_out[kind]]

    async def work(db: Database) -> BackupResult:
        with ArchiveWriter(file, replace=force) as out:
            return await backups.write(db, storage, out, kinds=kinds)

    made = with_database(work, json=json, older=True)
    size = file.stat().st_size
    show(
        {"file": str(file), "bytes": size, **counted(made.manifest), "removed_meanwhile": made.removed}, json
    )
    for name in made.missing[:MISSING_SHOWN_MAX]:
        print(f"myna: {name} is missing, though the database names it", file=sys.stderr)
    if len(made.missing) > MISSING_SHOWN_MAX:
        print(f"myna: {len(made.missing)} files are missing in all", file=sys.stderr)
    return 1 if made.missing else 0


def restore(file: File, /, *, json: Json = False) -> int:
    """Load a backup into an empty database and an empty data folder, and audit it."""
    settings = read_settings()
    with ArchiveReader(file) as source, exclusive(settings):
        owner = owner_of_files(settings)
        made = settings.on_sqlite and not settings.sqlite_file.exists()
        try:
            manifest = asyncio.run(_restore(settings, source))
        except RestoreInDoubt:
            give_files_to(owner, settings)
            raise
        except BaseException:
            for ending in _SQLITE_FILES if made else ():
                Path(f"{settings.sqlite_file}{ending}").unlink(missing_ok=True)
            raise
        try:
            report = asyncio.run(_audit(settings))
        except CommandError as error:
            raise CommandError(
                f"All was restored, but not audited: run 'myna audit --full --audio'. ({error})"
            ) from None
        finally:
            give_files_to(owner, settings)
    checked = {"files_checked": report.checked.files, "breaches": len(report.breaches)}
    show({"database": settings.database_label, **counted(manifest), **checked}, json)
    return _exit_code(report.breaches)


async def _restore(settings: Settings, source: ArchiveReader) -> Manifest:
    async with open_database(settings) as db:
        return await backups.restore(db, open_storage(settings, os.environ), source)


async def _audit(settings: Settings) -> books.Report:
    async with open_database(settings) as db:
        return await books.run(db, AudioStore(open_storage(settings, os.environ)), full=True, hash_audio=True)


def counted(manifest: Manifest) -> Row:
    """The numbers of rows and files in an archive."""
    rows = {shown: manifest.tables.get(table, 0) for table, shown in COUNTED.items()}
    in_all = sum(manifest.tables.values())
    return {**rows, "rows": in_all, "files": manifest.files, "files_missing": manifest.missing}


def _exit_code(breaches: Sequence[Breach]) -> int:
    """Prints a line on stderr for each breach. Returns 1 if there is one."""
    for breach in breaches:
        print(f"myna: {breach.rule}: {breach.count} ({'; '.join(breach.examples)})", file=sys.stderr)
    return 1 if breaches else 0


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
    report = await books.run(db, AudioStore(open_storage(settings, os.environ)), full=True)
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
        await db.transaction(lambda connection: connection.tables.drop_all())
    except db.unavailable:
        raise _copy_left(target, "is") from None


def _rename_moved(file: Path) -> Path:
    """Renames the old database and its WAL files, so that it is no longer served. Returns the new path."""
    left = file.with_name(f"{file.name}{MOVED}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    file.rename(left)
    for ending in _SQLITE_FILES[1:]:
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
