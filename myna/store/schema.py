"""The versions of the schema: those that this build has, and that of a database.

A migration is a file `NNNN_name.sql`, written for PostgreSQL and translated for SQLite. What only one of them
has is in `NNNN_name.DIALECT.sql`, which follows it. It runs once, in order, and must never be edited
afterwards: its hash is stored. The first one is the whole schema of `BASELINE`; an older database is upgraded
by the build of that version first. The functions in `routines.DIALECT.sql` are replaced after the migrations
of a build.

A migration that only adds says so in its first line: `-- Serves builds of schema N and later.` Processes of
such builds go on beside the newer one, so tables and functions keep what these use. One that takes something
away has no such line, and comes a release after the last build that uses it.
"""

import asyncio
import logging
import re
from functools import lru_cache
from importlib.resources import files

from myna.errors import DatabaseUnavailable
from myna.store.rows import Queries, fetch_only, fetch_value

log = logging.getLogger(__name__)

_MIGRATIONS = files("myna.store") / "migrations"
BASELINE = 26
"""The schema with which a database starts, and the oldest that is migrated."""
_SERVES = re.compile(r"-- Serves builds of schema ([0-9]+) and later\.\n")


_TRANSLATIONS: dict[str, tuple[tuple[re.Pattern[str], str], ...]] = {
    "postgresql": (),
    "sqlite": (
        (re.compile(r"bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"), "INTEGER PRIMARY KEY AUTOINCREMENT"),
        (re.compile(r"bytea( NOT NULL)? DEFAULT ''"), r"BLOB\1 DEFAULT x''"),
        (re.compile(r"(?<=\w )bigint\b"), "INTEGER"),
        (re.compile(r"(?<=\w )bytea\b"), "BLOB"),
        (re.compile(r"(?<=\w )double precision\b"), "REAL"),
        (re.compile(r"(?<=\w )text(?=,| NOT| PRIMARY| DEFAULT|$)"), "TEXT"),
        (re.compile(r"^(CREATE TABLE .*)?\)( WITH \(.*\))?;$"), r"\1) STRICT;"),
        (re.compile(r"^(CREATE TABLE .*)?\)( WITH \(.*\))?;  -- (WITHOUT ROWID)$"), r"\1) STRICT, \3;"),
    ),
}
"""What each dialect writes otherwise. On SQLite a table has row ids unless `WITHOUT ROWID` follows it in a
comment."""


def known(dialect: str) -> list[tuple[int, str]]:
    """Number and SQL of every migration, in order."""
    scripts: dict[int, str] = {}
    files = {entry.name: entry for entry in _MIGRATIONS.iterdir()}
    for only in ("", f".{dialect}"):
        for name, entry in files.items():
            if re.fullmatch(rf"[0-9]{{4}}_\w+{only}\.sql", name):
                sql, number = entry.read_text(encoding="utf-8"), int(name[:4])
                scripts[number] = scripts.get(number, "") + (sql if only else _translated(sql, dialect))
    return sorted(scripts.items())


@lru_cache
def _translated(sql: str, dialect: str) -> str:
    lines = sql.split("\n")
    for place, line in enumerate(lines):
        if not line.lstrip().startswith("--"):
            for pattern, written in _TRANSLATIONS[dialect]:
                line = pattern.sub(written, line)
            lines[place] = line
    return "\n".join(lines)


def routines(dialect: str) -> str:
    """The functions of this build; empty for a dialect that has none."""
    file = _MIGRATIONS / f"routines.{dialect}.sql"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def oldest_build(number: int, sql: str) -> int:
    """The schema of the oldest build that can serve after this migration."""
    found = _SERVES.match(sql)
    return int(found[1]) if found else number


def newest(dialect: str) -> int:
    """The schema version that this build works on."""
    return known(dialect)[-1][0]


def latest() -> int:
    """The highest version of both dialects: a migration may be for only one."""
    return max(int(entry.name[:4]) for entry in _MIGRATIONS.iterdir() if entry.name[:4].isdigit())


async def schema_version(db: Queries) -> int:
    """The version of the schema in the database. Its table exists once `migrate` ran."""
    return await fetch_only(db, int, "SELECT coalesce(max(version), 0) FROM schema_version")


async def served_by(db: Queries, build: int) -> tuple[int, bool]:
    """The version of the schema in the database, and whether the build of this version can serve from it."""
    version = await schema_version(db)
    if version <= build:
        return version, version == build
    oldest = await fetch_value(db, int, "SELECT max(oldest) FROM schema_builds WHERE version > $1", build)
    return version, oldest is not None and oldest <= build


class SchemaWatch:
    """Notices that the schema of the database has changed under a serving process, as by the migration of a
    newer build, and whether this build can serve from it."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._needed = 0
        self._served = 0
        self.changed = asyncio.Event()
        """Set when the schema was found to be another build's: the process must end."""

    @property
    def watching(self) -> bool:
        """Whether `check` was called: a command that migrates does not."""
        return self._needed != 0

    async def check(self, db: Queries) -> None:
        """Raises DatabaseUnavailable unless this build can serve from the schema."""
        self._needed = self._needed or newest(self._dialect)
        version, is_served = await served_by(db, self._needed)
        if is_served:
            self._served = version
            return
        if not self.changed.is_set():
            log.error(
                "the database has schema %d, this process needs %d: it answers 503 and ends",
                *(version, self._needed),
            )
        self.changed.set()
        raise DatabaseUnavailable

    async def check_version(self, version: int, db: Queries) -> None:
        """The same if this version, the present one, is another than at the last check."""
        if version != self._served:
            await self.check(db)
