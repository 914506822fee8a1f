"""myna serve, myna migrate, myna version"""

import asyncio
import os
import tempfile

from myna import __version__, app
from myna.api.health import MULTIPROCESS
from myna.cli.console import Json, check_not_moved, exclusive, open_database, read_settings, show
from myna.http import server
from myna.sandbox.confinement import keep_to_ourselves
from myna.settings import Settings
from myna.store.migrate import migrate as migrate_schema

FACTORY = "myna.app:create"


def serve() -> None:
    """Serve until SIGTERM or Ctrl-C. Settings come from the environment and myna.toml."""
    settings = read_settings()
    if not settings.on_sqlite:
        _run(settings)
        return
    with exclusive(settings):
        check_not_moved(settings)
        _run(settings)


def migrate(*, json: Json = False) -> None:
    """Migrate the database to this build's schema. `serve` does so at startup."""
    settings = read_settings()
    check_not_moved(settings)
    show({"schema": asyncio.run(_migrate(settings))}, json)


def version(*, json: Json = False) -> None:
    """Print the version."""
    show({"version": __version__}, json)


async def _migrate(settings: Settings) -> int:
    async with open_database(settings) as db:
        return await migrate_schema(db)


def _run(settings: Settings) -> None:
    app.speech_engines(settings)  # reports an error of the setting in one line
    keep_to_ourselves()  # also in the parent of several workers, whose environment has all keys
    asyncio.run(_migrate(settings))  # reports an error of the database in one line
    if settings.workers == 1:
        server.run(app.create(settings, os.environ), settings)
        return
    with tempfile.TemporaryDirectory(prefix="myna-metrics-") as folder:
        os.environ[MULTIPROCESS] = folder  # read by the workers, before they import the metrics
        server.run(FACTORY, settings)
