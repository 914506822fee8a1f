"""myna settings list|get|set, myna audit"""

import os
import sys
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from myna import audit as books
from myna import settings as process_settings
from myna import site
from myna.cli.desk import Json, read_settings, show, show_rows, with_database
from myna.errors import CommandError
from myna.store import site as store
from myna.store.audio import AudioStore
from myna.store.audit import Breach
from myna.store.database import Database

settings = App(name="settings", help="Site settings, and what this process would start with.")


@settings.command(name="list")
def list_settings(*, json: Json = False) -> None:
    """List site settings and the process's own, each with where its value comes from."""
    config = with_database(store.load)
    rows = [
        {"name": name, "value": value, "source": source, "meaning": site.MEANINGS[name]}
        for name, value, source in site.as_rows(config)
    ]
    for found in process_settings.load(os.environ)[1]:
        name = process_settings.PREFIX + found.name.upper()
        meaning = process_settings.MEANINGS[found.name]
        rows.append({"name": name, "value": found.value, "source": found.source, "meaning": meaning})
    show_rows(rows, json, empty="")


@settings.command(name="get")
def get_setting(name: str, *, json: Json = False) -> None:
    """Print one site setting."""
    config = with_database(store.load)
    for found, value, source in site.as_rows(config):
        if found == name:
            show({"name": name, "value": value, "source": source}, json)
            return
    raise CommandError(f"There is no site setting {name!r}; there are {', '.join(site.MEANINGS)}.")


@settings.command(name="set")
def set_setting(name: str, value: str, *, json: Json = False) -> None:
    """Change one site setting; running servers go by it at once."""
    site.check(name, value)

    async def work(db: Database) -> None:
        await site.change(db, name, value)

    with_database(work)
    get_setting(name, json=json)


def audit(
    *,
    audio: Annotated[bool, Parameter(negative="", help="Hash every audio file as well.")] = False,
    json: Json = False,
) -> int:
    """Check the books: every rule, in one snapshot. Exit 1 and a line for each breach."""
    folder = read_settings().data_folder / "audio"

    async def work(db: Database) -> list[Breach]:
        return await books.run(db, AudioStore(folder), hash_audio=audio)

    breaches = with_database(work)
    if json:
        show({"ok": not breaches, "breaches": [msgspec.structs.asdict(breach) for breach in breaches]}, True)
    elif not breaches:
        print("The books are whole.")
    for breach in breaches:
        print(f"myna: {breach.rule}: {breach.count} ({'; '.join(breach.examples)})", file=sys.stderr)
    return 1 if breaches else 0
