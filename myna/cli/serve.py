"""myna serve, myna migrate, myna version"""

import asyncio
import os
import tempfile

from filelock import FileLock, Timeout

from myna import __version__, app, server
from myna.api.health import MULTIPROCESS
from myna.cli.desk import Json, open_database, read_settings, show
from myna.errors import CommandError, ConfigError
from myna.settings import Settings
from myna.store.migrate import migrate as bring_up

FACTORY = "myna.app:create"


def serve() -> None:
    """Serve until SIGTERM or Ctrl-C. Settings come from the environment and myna.toml."""
    settings = read_settings()
    if not settings.on_sqlite:
        _run(settings)
        return
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
        _run(settings)


def migrate(*, json: Json = False) -> None:
    """Bring the database to this build's schema. `serve` does so by itself."""
    show({"schema": asyncio.run(_bring_up(read_settings()))}, json)


def version(*, json: Json = False) -> None:
    """Print the version."""
    show({"version": __version__}, json)


async def _bring_up(settings: Settings) -> int:
    async with open_database(settings) as db:
        return await bring_up(db)


def _run(settings: Settings) -> None:
    asyncio.run(_bring_up(settings))  # what is wrong with the database is told here, in one line
    if settings.workers == 1:
        server.run(app.create(settings, os.environ), settings)
        return
    with tempfile.TemporaryDirectory(prefix="myna-metrics-") as folder:
        os.environ[MULTIPROCESS] = folder  # read by the workers, before they import the metrics
        server.run(FACTORY, settings)
