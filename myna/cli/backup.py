"""myna audit, myna backup, myna restore"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec import structs

from myna.billing import audit as books
from myna.cli.console import (
    Json,
    Row,
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
from myna.errors import CommandError
from myna.settings import Settings
from myna.store import backup as backups
from myna.store.archive import ArchiveReader, ArchiveWriter, Manifest
from myna.store.backup import MISSING_SHOWN_MAX, BackupResult, RestoreInDoubt
from myna.store.database import Database
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import open_storage
from myna.store.queries.audit import Breach, Counts

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
