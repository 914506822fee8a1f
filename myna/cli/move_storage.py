"""myna move --storage: the audio and the samples move between the data folder and a bucket, or two buckets.

The files are copied and stay where they were; the old storage gets a marker that no process accepts, and the
new one the installation's. A copy that was interrupted is continued.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from myna import settings as settings_module
from myna.cli.console import (
    check_schema,
    exclusive,
    give_files_to,
    open_database,
    owner_of_files,
    show,
)
from myna.errors import CommandError
from myna.settings import Settings
from myna.store.archive import FILES
from myna.store.database import Transaction
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import (
    FOLDERS,
    MARKER,
    Storage,
    check_storage,
    is_empty,
    marker_of,
    open_storage,
)
from myna.store.queries import site as queries


def move_storage(settings: Settings, to: str, json: bool) -> None:
    """Raises CommandError."""
    settings_module.checked("--storage", "storage", to)
    if to == settings.storage:
        raise CommandError(f"The audio and the samples are in {to} already.")
    source = open_storage(settings, os.environ)
    target = open_storage(replace(settings, storage=to), os.environ)
    with exclusive(settings):
        owner = owner_of_files(settings)
        try:
            files = asyncio.run(_move(settings, source, target))
        finally:
            give_files_to(owner, settings)
    moved = {"from": source.label, "to": target.label, "files": len(files), "bytes": sum(files.values())}
    show({**moved, "next": f"set MYNA_STORAGE={to} for every process and the commands"}, json)


async def _move(settings: Settings, source: Storage, target: Storage) -> dict[str, int]:
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
