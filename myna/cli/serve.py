"""myna serve, myna migrate, myna version, myna completion"""

import asyncio
import contextlib
import logging
import os
import sys
import tempfile
from typing import Annotated, Literal

from cyclopts import Parameter

from myna import __version__, cli
from myna.accounts.sign_in import links
from myna.accounts.sign_in.links import LIFE_MS, Purpose
from myna.accounts.sign_in.oidc.provider import client_of
from myna.cli.console import (
    Json,
    check_not_moved,
    check_schema,
    exclusive,
    open_database,
    read_settings,
    show,
)
from myna.errors import CommandError
from myna.http import server
from myna.http.server import fitted, raise_limit
from myna.lib.sandbox import keep_to_ourselves
from myna.lib.telemetry import logs, metrics
from myna.server import app
from myna.settings import Settings
from myna.speech.engine_host import host_process
from myna.speech.shared_engines import SOCKET
from myna.speech.site_engines import speech_engines
from myna.store.files.storage import check_storage, open_storage
from myna.store.migrate import migrate as migrate_schema

FACTORY = "myna.server.app:create"
NO_OPERATOR = "no operator can sign in to the back office: 'myna account add NAME --operator' prints a link"

log = logging.getLogger(__name__)


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
    """Migrate the database to this build's schema. `serve` does so at startup, unless MYNA_MIGRATE is
    off."""
    settings = read_settings()
    # A server of an older build would write to a schema that it does not know.
    with exclusive(settings) if settings.on_sqlite else contextlib.nullcontext():
        check_not_moved(settings)
        show({"schema": asyncio.run(_migrate(settings))}, json)


def version(*, json: Json = False) -> None:
    """Print the version."""
    show({"version": __version__}, json)


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell.")], /) -> None:
    """Print a script with which a shell completes the commands and options of myna."""
    print(cli.build().generate_completion(shell=shell))


async def _migrate(settings: Settings) -> int:
    async with open_database(settings) as db:
        return await migrate_schema(db)


async def _prepare(settings: Settings) -> bool:
    """Migrates, unless MYNA_MIGRATE is off, and checks that the storage is this installation's. Returns
    whether no operator can sign in."""
    async with open_database(settings) as db:
        if settings.migrate == "on":
            await migrate_schema(db)
        else:
            await check_schema(db, settings, newer=True)
        await check_storage(db, open_storage(settings, os.environ), claim=True)
        return await links.first_is_needed(db)


def _run(settings: Settings) -> None:
    engines = speech_engines(settings, {})  # reports an error of the setting in one line
    client_of(settings)  # the same
    keep_to_ourselves()  # also in the parent of several workers, whose environment has all keys
    logs.configure(settings.log_level)
    raise_limit(settings)
    settings = fitted(settings)
    no_operator = asyncio.run(_prepare(settings))  # reports an error of the database in one line

    def welcome() -> None:
        if no_operator:
            asyncio.run(_welcome(settings))

    if settings.workers == 1:
        served = app.create(settings, os.environ)
        server.run(served, settings, welcome)
        if served.failure:
            raise CommandError(served.failure)
        return
    with tempfile.TemporaryDirectory(prefix="myna-metrics-") as folder, contextlib.ExitStack() as hosting:
        os.environ[metrics.MULTIPROCESS] = folder  # read by the workers, before they import the metrics
        if engines:
            os.environ[SOCKET] = hosting.enter_context(host_process())
        server.run(FACTORY, settings, welcome)


async def _welcome(settings: Settings) -> None:
    """Prints a link for the first operator: once, also for several workers, and to a
    terminal only. Other output is stored, as by journald or Docker, and a link in it would be a secret in a
    log."""
    if not sys.stdout.isatty():
        log.info(NO_OPERATOR)
        return
    async with open_database(settings) as db:
        token = await links.create_first(db)
    minutes = LIFE_MS[Purpose.FIRST] // 60_000
    print(f"\nTo begin, open this link within {minutes} minutes. It works once.\n", flush=True)
    print(f"    {links.url(settings.base_url, token)}\n", flush=True)
