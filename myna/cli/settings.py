"""myna settings list|get|set"""

import os
import sys
from typing import Annotated

from cyclopts import App, Parameter

from myna import config
from myna import settings as process_settings
from myna.actions.site import SetSetting
from myna.cli.channels import site_channels
from myna.cli.commands import perform, register
from myna.cli.console import Json, Row, listing, show, with_database
from myna.store.database import Database
from myna.store.queries import config as store
from myna.store.queries.config import Config

app = App(name="settings", help="Site settings and process settings.")
Name = Annotated[str, Parameter(help="The name of a site setting in `myna settings list`.")]


@app.command(name="list")
@listing(empty="", brief=("name", "source", "value"))
async def list_settings(db: Database) -> list[Row]:
    """List site settings and process settings, each with the source of its value."""
    stored = await store.load(db)
    _warn(stored)
    return [
        {"name": one.name, "value": one.value, "source": one.source, "meaning": one.setting.english}
        for one in [*config.applied(stored), *process_settings.load(os.environ)[1]]
    ]


@app.command(name="get")
def get_setting(name: Name, *, json: Json = False) -> None:
    """Print one site setting."""
    stored = with_database(store.load, json=json)
    config.check_name(name)
    show(_shown(stored, name), json)


def _shown(stored: Config, name: str) -> Row:
    _warn(stored, name)
    one = next(one for one in config.applied(stored) if one.name == name)
    return {"name": name, "value": one.value, "source": one.source}


def _warn(stored: Config, only: str | None = None) -> None:
    """Warns on stderr of stored values that this build can't read."""
    for one in config.unreadable(stored):
        if only in (None, one.name):
            print(f"myna: the stored site setting {one}; its default applies", file=sys.stderr)


async def _set(db: Database, action: SetSetting) -> Row:
    if action.name == "openai_voices":
        async with site_channels() as channels:
            await perform(db, action, channels=channels)
    else:
        await perform(db, action)
    return _shown(await store.load(db), action.name)


register(app, SetSetting, run=_set)
