"""What all commands share: settings, an open database, output; and commands that only read. What changes
something is in `commands.py`, whose imports take as long again.
"""

import asyncio
import contextlib
import errno
import json
import os
import pwd
import re
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from inspect import Parameter as Argument
from inspect import Signature, signature
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote, urlsplit

from cyclopts import Parameter, Token
from filelock import FileLock, Timeout
from rich.cells import cell_len

from myna import settings as settings_module
from myna.errors import CommandError, ConfigError
from myna.lib.net import is_loopback
from myna.lib.setting_kinds import Applied
from myna.settings import Settings
from myna.store.database import Database, connect
from myna.store.files.storage import Storage, check_storage, open_storage
from myna.store.schema import newest, served_by

T = TypeVar("T")
Row = Mapping[str, object]
"""What is printed of one thing, by the names of the columns."""
GAP = "  "
"""Between the columns of a table."""
HTTP_PORT = 80
LISTENS_S = 1.0
TEXT_CHARS_MIN = 24
"""The least width of a last column whose text takes several lines."""
NO_OLDER = "There are no older ones."
"""Printed instead of an empty table if only what is older than an entry of the list was asked for."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


MOVED = ".moved-"
"""Appended, with the time, to the name of an SQLite database that was moved."""


def whole_number(_: type, tokens: Sequence[Token]) -> int:
    """Parses a whole number. The default parser would round a fraction."""
    return whole_numbers(_, tokens)[0]


def whole_numbers(_: type, tokens: Sequence[Token]) -> list[int]:
    """Parses the whole numbers of an argument that can be repeated."""
    for token in tokens:
        if not _WHOLE.fullmatch(token.value):
            raise ValueError(f"{token.value[:40]!r} is not a whole number")
    return [int(token.value) for token in tokens]


_WHOLE = re.compile(r"-?[0-9]{1,30}")
Whole = Annotated[int, Parameter(converter=whole_number)]
Json = Annotated[bool, Parameter(name="--json", help="Print JSON.")]
Wide = Annotated[bool, Parameter(name="--wide", help="Show every column on a terminal.")]
JSON = Argument("json", Argument.KEYWORD_ONLY, default=False, annotation=Json)
WIDE = Argument("wide", Argument.KEYWORD_ONLY, default=False, annotation=Wide)
Read = Callable[..., Awaitable[Sequence[Row]]]
Command = Callable[..., None]


def read_settings() -> Settings:
    """The settings of this process. Raises ConfigError."""
    return settings_module.load(os.environ)[0]


def with_database(work: Callable[[Database], Awaitable[T]], *, json: bool, older: bool = False) -> T:
    """Runs `work` on the site's database and, unless `json`, names that database on stderr. Raises
    CommandError if there is none: creating one would hide that the command lacks the service's settings.
    `older` allows the schema of an earlier build.
    """
    settings, sources = settings_module.load(os.environ)
    check_not_moved(settings)
    if settings.on_sqlite and not settings.sqlite_file.exists():
        raise CommandError(
            f"There is no database in {settings.data_folder} ({_decided_by('data', sources)}). Run"
            " the command in the service's folder and with its settings; to make a database: 'myna serve'."
        )

    async def run() -> T:
        async with open_database(settings) as db:
            await check_schema(db, settings, older=older)
            if not json:
                print(f"myna: database: {settings.database_label}", file=sys.stderr)
            return await work(db)

    return asyncio.run(run())


@contextlib.asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """Opens the site's database without changing it. Raises CommandError with the database's message if it
    can't be opened or is unavailable."""
    try:
        db = await connect(settings)
    except Exception as error:
        message = f"The database {settings.database_label} can't be opened: {_reason(error, settings)}."
        raise CommandError(message) from None
    try:
        yield db
    except db.unavailable as error:
        label, reason = settings.database_label, _reason(error, settings)
        raise CommandError(f"The database {label} is unavailable or busy: {reason}; try again.") from None
    finally:
        await db.close()


def _reason(error: Exception, settings: Settings) -> str:
    """The message of the system or the database, in one line and without secrets of the database's URL; the
    error's type if there is no message."""
    if isinstance(error, OSError) and error.errno and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    if isinstance(error, socket.gaierror):
        return str(error.strerror)
    if isinstance(error, TimeoutError):
        return "no answer in time"
    message = str(error).strip().partition("\n")[0].rstrip(".")
    for secret in _secrets_of(settings.database_url):
        message = message.replace(secret, "***")
    return message or type(error).__name__


def _secrets_of(url: str) -> list[str]:
    """The password and the query values of a URL, both encoded and decoded, the longest first. Python's
    parser refuses some URLs, such as a list of hosts with an IPv6 address."""
    address, _, query = url.partition("://")[2].partition("?")
    password = address.partition("/")[0].rpartition("@")[0].partition(":")[2]
    written = [password, *(pair.partition("=")[2] for pair in query.split("&"))]
    return sorted({*written, *map(unquote, written)} - {""}, key=len, reverse=True)


@contextlib.contextmanager
def exclusive(settings: Settings) -> Iterator[None]:
    """Locks the data folder, which is created if it is missing, against serving processes. Raises
    CommandError if a process serves from it, ConfigError if the folder can't be used."""
    lock = FileLock(settings.data_folder / "serving.lock")
    try:
        settings.data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        raise CommandError(f"Another process serves from {settings.data_folder}; stop it first.") from None
    except OSError as error:
        raise ConfigError(
            f"MYNA_DATA: {settings.data_folder} can't be written to: {error.strerror}."
        ) from None
    with lock:
        yield


def check_not_moved(settings: Settings) -> None:
    """Raises CommandError if a new SQLite database would replace one that `myna move` moved."""
    if settings.on_sqlite and not settings.sqlite_file.exists():
        moved = sorted(settings.data_folder.glob(f"{settings.sqlite_file.name}{MOVED}*Z"))
        if moved:
            raise CommandError(
                f"The database of {settings.data_folder} was moved to PostgreSQL: set MYNA_DATABASE_URL. (To"
                f" use the old one again, name {moved[-1].name} {settings.sqlite_file.name}.)"
            )


async def site_storage(db: Database) -> Storage:
    """The storage of audio and samples. Raises CommandError if it is another installation's."""
    storage = open_storage(read_settings(), os.environ)
    await check_storage(db, storage)
    return storage


def owner_of_files(settings: Settings) -> tuple[int, int] | None:
    """The user and group that must own the files of a command, so that the service can read them; None if it
    runs as the service's user. Raises CommandError for any user but that one and root."""
    made = (settings.sqlite_file, settings.data_folder / "audio")  # created by the service
    found = next((path for path in made if path.exists()), settings.data_folder).stat()
    owner = found.st_uid
    if os.geteuid() not in (0, owner):
        raise CommandError(
            f"The service's files belong to {_user(owner)}, who couldn't read what this command writes:"
            " run it as that user, or as root."
        )
    return (owner, found.st_gid) if os.geteuid() == 0 else None


def give_files_to(owner: tuple[int, int] | None, settings: Settings) -> None:
    """Gives the files that root wrote to the owner of the data folder; not what a link there names."""
    if owner:
        for path in (settings.data_folder, *settings.data_folder.rglob("*")):
            os.chown(path, *owner, follow_symlinks=path == settings.data_folder)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _decided_by(name: str, sources: Sequence[Applied]) -> str:
    """Where the operator sets a setting: the variable, or the key and the file."""
    variable = settings_module.variable(name)
    source = next(found.source for found in sources if found.name == variable)
    known = {"environment": f"set by {variable}", "default": f"since {variable} is not set"}
    return known.get(source, f"set by {name} in {source}")


async def check_schema(db: Database, settings: Settings, *, older: bool = False, newer: bool = False) -> None:
    """Raises CommandError if the database is empty or has another schema: an older one unless `older`, or a
    newer one unless `newer` and this build can serve from it. Commands never migrate it."""
    if not await db.has_schema():
        raise CommandError(
            f"The database {settings.database_label} is empty: there is no Myna in it. Check the settings;"
            " to set it up: 'myna serve' or 'myna migrate'."
        )
    known = newest(db.dialect)
    version, is_served = await served_by(db, known)
    if version < known and not older:
        raise CommandError(f"The database has schema {version}, not {known}: run 'myna migrate'.")
    if version > known and not (newer and is_served):
        raise CommandError(f"The database has schema {version}, this build needs {known}: use a newer Myna.")


def show(data: Row, as_json: bool) -> None:
    """Prints an object: JSON, or a line for each field. Fields that end in `_at` are Unix seconds."""
    if as_json:
        print(json.dumps(data, ensure_ascii=False))
        return
    width = max(len(name) for name in data)
    for name, value in data.items():
        print(f"{name:<{width}}  {_plain(name, value)}")


def show_rows(
    rows: Sequence[Row],
    as_json: bool,
    *,
    empty: str,
    brief: Sequence[str] = (),
    wide: bool = False,
) -> None:
    """Prints rows: a JSON array, or a table. `empty` is printed instead of an empty table. A terminal gets
    the columns `brief` unless `wide`, and a block of lines for each row if the table is wider than it;
    a pipe or a file gets every column and a line for each row."""
    if as_json:
        print(json.dumps(rows, ensure_ascii=False))
        return
    if not rows:
        print(empty)
        return
    terminal = sys.stdout.isatty()
    columns = list(brief if brief and terminal and not wide else rows[0])
    cells = [columns, *([_plain(name, row[name]) for name in columns] for row in rows)]
    lines = _table(cells, shutil.get_terminal_size().columns if terminal else sys.maxsize)
    if not lines:
        for number, row in enumerate(rows):
            print(end="\n" if number else "")
            show({name: row[name] for name in columns}, False)
        return
    print(f"\x1b[1m{lines[0]}\x1b[0m" if terminal else lines[0], *lines[1:], sep="\n")


def listing(*, empty: str, brief: Sequence[str] = (), snapshot: bool = False) -> Callable[[Read], Command]:
    """Makes a command of a function that reads rows: its arguments are those behind the database, and --json.
    `empty` is printed instead of an empty table, with --before NO_OLDER. `brief` are the columns that a
    terminal gets without --wide. On a `snapshot` a query may take long."""

    def made(read: Read) -> Command:
        def command(*args: Any, wide: bool = False, json: bool = False, **options: Any) -> None:
            def work(db: Any) -> Awaitable[Sequence[Row]]:
                return read(db, *args, **options)

            rows = with_database(lambda db: db.snapshot(work) if snapshot else work(db), json=json)
            none = NO_OLDER if "before" in options else empty
            show_rows(rows, json, empty=none, brief=brief, wide=wide)

        _, *arguments = signature(read).parameters.values()
        describe(command, Signature([*arguments, *([WIDE] if brief else []), JSON]), read.__doc__)
        return command

    return made


def describe(command: Command, arguments: Signature, help_: str | None) -> None:
    """Makes the command line see these arguments and this help."""
    command.__signature__ = arguments  # type: ignore[attr-defined]
    command.__annotations__ = {name: one.annotation for name, one in arguments.parameters.items()}
    command.__doc__ = help_


def _table(cells: Sequence[Sequence[str]], width: int) -> list[str]:
    """The lines of a table, none if it doesn't fit. Only the last column is wrapped, or wider by a word."""
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    rest = width - sum(widths[:-1]) - len(GAP) * (len(widths) - 1)
    if rest < min(widths[-1], TEXT_CHARS_MIN):
        return []
    lines = []
    for *row, text in cells:
        for part in _wrapped(text, rest):
            padded = [cell + " " * (size - cell_len(cell)) for cell, size in zip(row, widths, strict=False)]
            lines.append(GAP.join([*padded, part]).rstrip())
            row = [""] * len(row)
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of a text, broken after spaces and commas only."""
    lines = [""]
    for part in re.split(r"(?<=[ ,])", text):
        if lines[-1] and cell_len(f"{lines[-1]}{part}".rstrip()) > width:
            lines.append(part)
        else:
            lines[-1] += part
    return [line.rstrip() for line in lines]


def address_note(address: str) -> dict[str, object]:
    """What is to be said of an address that a command prints, if it is one of this machine."""
    if not is_loopback(address):
        return {}
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname, parts.port or HTTP_PORT), LISTENS_S).close()
    except OSError:
        return {
            "note": "Nothing listens there now. If the service has another port, set its MYNA_PORT here too."
        }
    return {"note": "That address works only on this machine. For other machines set MYNA_PUBLIC_URL."}


def say_next(step: str) -> None:
    """Prints what to do next, for a person: on a terminal alone."""
    if step and sys.stdout.isatty() and sys.stderr.isatty():
        print(f"\n{step}", file=sys.stderr)


def seconds(millis: int) -> int:
    """Unix milliseconds to Unix seconds."""
    return millis // 1000


def moment(unix_s: int) -> str:
    """Formats Unix seconds in UTC."""
    if not unix_s:
        return "never"
    try:
        return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError):
        return "after the year 9999"


def _plain(name: str, value: object) -> str:
    """A value as text. Control characters are replaced."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name.endswith(("_at", "_until")):
        return moment(value)
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value))
