"""myna settings list|get|set, myna audit"""

import os
import sys
from collections.abc import Callable
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from myna import config
from myna import settings as process_settings
from myna.actions.settings import SetSetting
from myna.billing import audit as books
from myna.cli.actions import perform, register
from myna.cli.console import Json, Wide, moment, show, show_rows, site_storage, with_database
from myna.store.database import Database
from myna.store.files.named_files import AudioStore
from myna.store.queries import config as store
from myna.store.queries.audit import Counts
from myna.store.queries.config import Config

settings = App(name="settings", help="Site settings and process settings.")
Name = Annotated[str, Parameter(help="The name of a site setting in `myna settings list`.")]


@settings.command(name="list")
def list_settings(*, wide: Wide = False, json: Json = False) -> None:
    """List site settings and process settings, each with the source of its value."""
    stored = with_database(store.load, json=json)
    rows = [
        {"name": one.name, "value": one.value, "source": one.source, "meaning": one.setting.english}
        for one in [*config.applied(stored), *process_settings.load(os.environ)[1]]
    ]
    show_rows(rows, json, empty="", brief=("name", "source", "value"), wide=wide)
    _warn(stored)


@settings.command(name="get")
def get_setting(name: Name, *, json: Json = False) -> None:
    """Print one site setting."""
    _show_setting(with_database(store.load, json=json), name, json)


def _show_setting(stored: Config, name: str, json: bool) -> None:
    config.check_name(name)
    one = next(one for one in config.applied(stored) if one.name == name)
    show({"name": name, "value": one.value, "source": one.source}, json)
    _warn(stored, name)


def _warn(stored: Config, only: str | None = None) -> None:
    """Warns on stderr of stored values that this build can't read."""
    for one in config.unreadable(stored):
        if only in (None, one.name):
            print(f"myna: the stored site setting {one}; its default applies", file=sys.stderr)


async def _set(db: Database, action: SetSetting) -> Callable[[bool], None]:
    await perform(db, action)
    stored = await store.load(db)
    return lambda as_json: _show_setting(stored, action.name, as_json)


register(settings, SetSetting, lambda _, printed: printed, run=_set, printed=lambda show, json: show(json))


def audit(
    *,
    full: Annotated[bool, Parameter(help="Check everything, and the checkpoints too.")] = False,
    audio: Annotated[bool, Parameter(help="Hash every audio file as well; implies --full.")] = False,
    json: Json = False,
) -> int:
    """Check the books: calls since the last audit, every balance. Exit 1 and a line for each breach."""

    async def work(db: Database) -> books.Report:
        store = AudioStore(await site_storage(db))
        return await books.run(db, store, full=full or audio, hash_audio=audio)

    report = with_database(work, json=json)
    if json:
        show(_report(report), True)
    else:
        print("The books have breaches." if report.breaches else "No breach found.")
        for line in _counted(report):
            print(line)
    for breach in report.breaches:
        print(f"myna: {breach.rule}: {breach.count} ({'; '.join(breach.examples)})", file=sys.stderr)
    return 1 if report.breaches else 0


def _report(report: books.Report) -> dict[str, object]:
    return {
        "ok": not report.breaches,
        "full": report.full,
        "checked": books.counted_of(report),
        "before": msgspec.structs.asdict(report.before),
        "since": report.since_ms // 1000,
        "breaches": [msgspec.structs.asdict(breach) for breach in report.breaches],
    }


def _counted(report: books.Report) -> list[str]:
    """Lines with the numbers of rows that this audit and earlier ones checked."""
    holders = f"{report.accounts} accounts' balances, {report.keys} keys' counters"
    lines = [f"Checked: {holders}, {_listed(report.checked)}."]
    if report.since:
        before = f"Checked by audits before: {_listed(report.before)}"
        lines.append(f"{before}, all from before {moment(report.since_ms // 1000)}.")
    return lines


def _listed(counts: Counts) -> str:
    found = f"{counts.calls} calls, {counts.entries} ledger entries, {counts.tasks} speech tasks"
    return f"{found}, {counts.files} audio files"
