"""myna backup, myna restore"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from myna.billing import audit
from myna.cli.console import (
    Json,
    exclusive,
    give_files_to,
    open_database,
    owner_of_files,
    read_settings,
    show,
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
from myna.store.queries.audit import Breach

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
    print_breaches(report.breaches)
    return 1 if report.breaches else 0


async def _restore(settings: Settings, source: ArchiveReader) -> Manifest:
    async with open_database(settings) as db:
        return await backups.restore(db, open_storage(settings, os.environ), source)


async def _audit(settings: Settings) -> audit.Report:
    async with open_database(settings) as db:
        return await audit.run(db, AudioStore(open_storage(settings, os.environ)), full=True, hash_audio=True)


def counted(manifest: Manifest) -> dict[str, object]:
    """The numbers of rows and files in an archive."""
    rows = {shown: manifest.tables.get(table, 0) for table, shown in COUNTED.items()}
    in_all = sum(manifest.tables.values())
    return {**rows, "rows": in_all, "files": manifest.files, "files_missing": manifest.missing}


def print_breaches(breaches: Sequence[Breach]) -> None:
    """A line on stderr for each."""
    for breach in breaches:
        print(f"myna: {breach.rule}: {breach.count} ({'; '.join(breach.examples)})", file=sys.stderr)
