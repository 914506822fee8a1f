"""What a command needs: the settings, an open database, and a way to print."""

import asyncio
import contextlib
import errno
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from cyclopts import Parameter, Token
from rich.console import Console
from rich.table import Table
from rich.text import Text

from myna import settings as settings_module
from myna.errors import CommandError
from myna.settings import Settings, without_login
from myna.store.database import SQLITE_FILE, Database, connect
from myna.store.migrate import migrate, newest, schema_version

T = TypeVar("T")
UNBROKEN_CHARS = 100_000
"""As wide as a table may be where no terminal breaks its lines: a program reads a row a line."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def whole(_: type, tokens: Sequence[Token]) -> int:
    """A whole number as people write it. Left to itself, the parser would round a fraction."""
    text = tokens[0].value
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(text)


_WHOLE = re.compile(r"-?[0-9]{1,30}")
Whole = Annotated[int, Parameter(converter=whole)]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]


def read_settings() -> Settings:
    """The settings of this process. Raises ConfigError."""
    return settings_module.load(os.environ)[0]


def with_database(work: Callable[[Database], Awaitable[T]]) -> T:
    """Runs `work` on the site's database; an empty one gets its schema first."""
    return asyncio.run(_with_database(read_settings(), work))


@contextlib.asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """The site's database as it is. Raises CommandError where it can't be opened or is away, naming the
    place and the kind of error alone: a driver's words may hold the password."""
    try:
        db = await connect(settings.database_url or "sqlite:", settings.data_folder)
    except Exception as error:
        raise CommandError(f"The database {_place(settings)} can't be opened: {_reason(error)}.") from None
    try:
        yield db
    except db.away as error:
        said = f"The database {_place(settings)} is away or busy: {_reason(error)}; try again."
        raise CommandError(said) from None
    finally:
        await db.close()


def _place(settings: Settings) -> str:
    """The file, or host, port and name on a server, without who logs in and what else an address may hold."""
    if settings.on_sqlite:
        return str(settings.data_folder / SQLITE_FILE)
    _, _, address = without_login(settings.database_url).partition("://")
    return re.split("[?#]", address.removeprefix("***@"), maxsplit=1)[0]


def _reason(error: Exception) -> str:
    """What the system says, which holds no address, or else the kind of error."""
    if isinstance(error, OSError) and error.errno and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    return type(error).__name__


async def _with_database(settings: Settings, work: Callable[[Database], Awaitable[T]]) -> T:
    async with open_database(settings) as db:
        await _check_schema(db)
        return await work(db)


async def _check_schema(db: Database) -> None:
    """An empty database is set up; an older one is not changed under the servers that use it."""
    if not await db.has_schema():
        await migrate(db)
    version, known = await schema_version(db), newest(db.dialect)
    if version < known:
        raise CommandError(f"The database has schema {version}, not {known}: run 'myna migrate'.")
    if version > known:
        raise CommandError(f"The database has schema {version}, this build knows {known}: use a newer Myna.")


def show(data: Mapping[str, object], as_json: bool) -> None:
    """One thing: JSON, or a line for each field. A field whose name ends in `_at` is in Unix seconds."""
    if as_json:
        print(json.dumps(data, ensure_ascii=False))
        return
    width = max(len(name) for name in data)
    for name, value in data.items():
        print(f"{name:<{width}}  {_plain(name, value)}")


def show_rows(rows: Sequence[Mapping[str, object]], as_json: bool, *, empty: str) -> None:
    """Many things: a JSON array, or a table; `empty` says what there is not."""
    if as_json:
        print(json.dumps(rows, ensure_ascii=False))
        return
    if not rows:
        print(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_plain(name, value)) for name, value in row.items()))
    width = None if sys.stdout.isatty() else UNBROKEN_CHARS
    Console(file=sys.stdout, width=width, highlight=False).print(table)


def seconds(millis: int) -> int:
    """Milliseconds of the store as the Unix seconds that are shown."""
    return millis // 1000


def moment(unix_s: int) -> str:
    """Unix seconds for people."""
    if not unix_s:
        return "never"
    try:
        return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError):
        return "after the year 9999"


def _plain(name: str, value: object) -> str:
    """A value for people. What would move the cursor of a terminal is shown as a mark."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith("_at"):
        return moment(value)
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value))
