"""Migrates the schema to this build's version; refuses a newer one. `schema` has the migrations."""

import asyncio
import hashlib
import time
from functools import partial

from myna.errors import CommandError
from myna.store import schema
from myna.store.database import Database, Transaction
from myna.store.rows import fetch_map, has_row, insert_row

LOCKED_MAX_S = 30.0
"""How long a migration is retried while other sessions lock its tables."""
SESSIONS_END_S = 2.0
"""How long the sessions of a process that has just ended may take to end."""
SESSIONS_POLL_S = 0.05
LOCKED_PAUSE_S = 0.5
"""Between two tries, so that sessions that wait for the migration's locks can run."""
_TABLES = """
CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS schema_hashes (version BIGINT PRIMARY KEY, sha256 TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS schema_builds (version BIGINT PRIMARY KEY, oldest BIGINT NOT NULL);
"""
"""The migrations that ran, with their hashes, and the oldest builds that they serve."""


async def migrate(db: Database) -> int:
    """Runs the missing migrations and returns the version. Several processes may run it concurrently.

    Raises CommandError if the schema is newer and this build can't serve from it, or older than the baseline,
    if the reports lack calls of an old build, if a migration was edited after it ran, if processes serve from
    the database that can't do so afterwards, or if another session locks a table of a migration for longer
    than LOCKED_MAX_S.
    """
    until = time.monotonic() + LOCKED_MAX_S
    while True:
        try:
            return await db.transaction(partial(_migrate, db))
        except db.locked:
            if time.monotonic() > until:
                raise CommandError(
                    "The database can't be migrated: another session has locked a table that must change."
                    " Stop the servers and programs that use the database, then run 'myna migrate'."
                ) from None
        await asyncio.sleep(LOCKED_PAUSE_S)


async def _migrate(db: Database, connection: Transaction) -> int:
    """Migrates in one transaction. Locks first: of two processes that create a table, the second fails."""
    await connection.fetch(db.schema_lock)
    await connection.fetch(db.schema_lock_timeout)
    await connection.run_script(_TABLES)
    newest_version = schema.newest(db.dialect)
    version, is_served = await schema.served_by(connection, newest_version)
    if version > newest_version and not is_served:
        raise CommandError(
            f"The database has schema {version}; this build needs {newest_version} or less. Use a newer Myna."
        )
    if version:
        check_not_too_old(version)
        await _check_folded(connection)
    await _check_hashes(connection, db.dialect, version)
    if version < newest_version:
        if _oldest_build(db.dialect, version) > version:
            await _exclude_processes(db, connection, version)
        await complete(db, connection, version)
    return max(version, newest_version)


def check_not_too_old(version: int) -> None:
    """Raises CommandError for a schema that this build has no migrations from."""
    if version < schema.BASELINE:
        raise CommandError(
            f"Schema {version} is too old for this version of Myna: upgrade the site with Myna"
            f" 0.{schema.BASELINE} first, then with this one."
        )


def _oldest_build(dialect: str, version: int) -> int:
    """The schema of the oldest build that can serve after the migrations that are missing."""
    return max(schema.oldest_build(*each) for each in schema.known(dialect) if each[0] > version)


async def _exclude_processes(db: Database, connection: Transaction, version: int) -> None:
    """Keeps serving processes from connecting until the end of the transaction. Raises CommandError if some
    are connected after SESSIONS_END_S."""
    until = time.monotonic() + SESSIONS_END_S
    while True:
        ((is_alone, addresses),) = await connection.fetch(db.exclude_processes)
        if is_alone:
            return
        if time.monotonic() > until:
            raise CommandError(
                f"The database has schema {version}, this build needs {schema.newest(db.dialect)}, and"
                f" processes of an older Myna serve from it (connected from {addresses or 'elsewhere'})."
                " Stop them, then run 'myna migrate' or start this version."
            )
        await asyncio.sleep(SESSIONS_POLL_S)


async def build(db: Database, connection: Transaction, until: int) -> None:
    """Creates the schema of version `until` in an empty database; `complete` runs the later migrations."""
    await connection.fetch(db.schema_lock)
    await connection.run_script(_TABLES)
    await _apply(connection, db.dialect, 0, until)


async def complete(db: Database, connection: Transaction, version: int) -> None:
    """Runs the migrations after `version` and replaces the functions."""
    await _apply(connection, db.dialect, version, schema.newest(db.dialect))
    await connection.run_script(schema.routines(db.dialect))


async def _apply(connection: Transaction, dialect: str, after: int, until: int) -> None:
    """Runs the migrations whose numbers are above `after` and up to `until`."""
    for number, sql in schema.known(dialect):
        if after < number <= until:
            await connection.run_script(sql)
            await insert_row(connection, "schema_version", version=number)
            oldest = schema.oldest_build(number, sql)
            await insert_row(connection, "schema_builds", version=number, oldest=oldest)
            if number > schema.BASELINE:
                await _record_hash(connection, number, sql)


async def _check_folded(connection: Transaction) -> None:
    """Raises CommandError if a build before 0.26 made calls that are not in the tables of the reports yet:
    the builds from 0.26 to 0.34 read them in while they serve."""
    if not await has_row(connection, "SELECT 1 FROM rollup_state WHERE filled = 1"):
        raise CommandError(
            "The reports don't have all entries from before an earlier upgrade yet: start the version of Myna"
            " that served the site until now, and this one when 'myna ledger' lists the entries of accounts."
        )


async def _check_hashes(connection: Transaction, dialect: str, version: int) -> None:
    """Raises CommandError if a migration was edited after it ran. Records missing hashes of old
    migrations. The baseline has none: upgraded databases came to its schema by other scripts."""
    ran = await fetch_map(connection, int, str, "SELECT version, sha256 FROM schema_hashes")
    _, *steps = schema.known(dialect)
    for number, sql in steps:
        if number <= version and number not in ran:
            await _record_hash(connection, number, sql)
        elif number <= version and ran[number] != _hash(sql):
            raise CommandError(
                f"Migration {number:04} was edited after it ran on this database: its SHA-256 differs."
                " Use an unchanged Myna, or put the edit into a new migration."
            )


async def _record_hash(connection: Transaction, number: int, sql: str) -> None:
    await insert_row(connection, "schema_hashes", version=number, sha256=_hash(sql))


def _hash(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()
