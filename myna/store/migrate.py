"""Brings the schema to what this build knows; refuses one that is newer.

A migration is a file `NNNN_name.DIALECT.sql`, run once, in order. What is code and no data, the functions in
`routines.DIALECT.sql`, is written anew behind the migrations that a build brings.
"""

from importlib.resources import files

from myna.errors import CommandError
from myna.store.database import Connection, Database, Reader

_MIGRATIONS = files("myna.store") / "migrations"


def known(dialect: str) -> list[tuple[int, str]]:
    """Number and SQL of every migration, ascending."""
    found = [entry for entry in _MIGRATIONS.iterdir() if entry.name.endswith(f".{dialect}.sql")]
    numbered = [entry for entry in found if entry.name[:4].isdigit()]
    return sorted((int(entry.name[:4]), entry.read_text(encoding="utf-8")) for entry in numbered)


def routines(dialect: str) -> str:
    """The functions of this build; empty for a dialect that has none."""
    file = _MIGRATIONS / f"routines.{dialect}.sql"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def newest(dialect: str) -> int:
    """The schema version that this build works on."""
    return known(dialect)[-1][0]


async def schema_version(db: Reader) -> int:
    """The version of the schema in the database; the table is there once `migrate` ran."""
    ((version,),) = await db.fetch("SELECT coalesce(max(version), 0) FROM schema_version")
    return int(version)


async def migrate(db: Database) -> int:
    """Runs what is missing and returns the version then reached. Safe to run from many processes at once."""

    async def step(connection: Connection) -> int:
        await connection.fetch(db.schema_lock)
        version = await schema_version(connection)
        if version > newest(db.dialect):
            raise CommandError(
                f"The database has schema {version}; this build knows {newest(db.dialect)}. Use a newer Myna."
            )
        for number, sql in known(db.dialect):
            if number > version:
                await connection.run_script(sql)
                await connection.fetch("INSERT INTO schema_version (version) VALUES ($1)", number)
        if version < newest(db.dialect):
            await connection.run_script(routines(db.dialect))
        return newest(db.dialect)

    await db.transaction(_create_table)
    return await db.transaction(step)


async def _create_table(connection: Connection) -> None:
    await connection.fetch("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY)")
