"""myna node join, myna node run, myna node check: for the machine that speaks."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter
from filelock import FileLock, Timeout

from myna import __version__, logs
from myna.cli.desk import Json, read_settings, show, show_rows
from myna.cli.nodes import app
from myna.errors import CommandError, ConfigError
from myna.node import config as node_config
from myna.node import membership, site
from myna.node.check import check as check_engines
from myna.node.membership import Membership
from myna.node.run import run as run_node
from myna.outbound import Outbound
from myna.wire.farm import Joined

__all__ = ["app"]

LOCK = "node.lock"
FOR_THE_OWNER_ALONE = 0o077

Data = Annotated[str, Parameter(help="The node's data folder, instead of MYNA_DATA's.")]
Config = Annotated[str, Parameter(help="The node.toml to go by, instead of the data folder's or this one's.")]


@app.command
def join(url: str, token: str, *, data: Data = "", again: bool = False, json: Json = False) -> None:
    """Make this machine a compute node of the service at URL, by the TOKEN that its operator made."""
    address = membership.site_url(url)
    folder = _folder(data)
    path = folder / membership.FILE
    if path.exists() and not again:
        raise CommandError(f"This machine has joined already, {path} says: --again replaces that.")
    _check_writable(folder)
    joined = asyncio.run(_join(address, token))
    try:
        membership.store(folder, Membership(address, joined.name, joined.credential))
    except OSError as error:
        raise CommandError(f"{path} can't be written: {error.strerror}; get a new token.") from None
    warning = {"warning": _in_the_clear(address)} if membership.in_the_clear(address) else {}
    show({"name": joined.name, "url": address, "credential": str(path), **warning}, json)


@app.command
def run(*, data: Data = "", config: Config = "") -> None:
    """Work as a compute node until SIGTERM or Ctrl-C: speak what the service asks for."""
    folder = _folder(data)
    logs.configure(read_settings().log_level)
    with _lock(folder):
        member = membership.load(folder)
        asyncio.run(run_node(member, node_config.load(_places(folder, config)), folder))


@app.command
def check(*, data: Data = "", config: Config = "", json: Json = False) -> int:
    """Start each engine of node.toml, let it speak a sentence, and tell how fast it is; asks no service."""
    folder = _folder(data, make=False)
    found = node_config.load(_places(folder, config))
    with _trial_folder(folder) as trials:
        rows = asyncio.run(check_engines(found.engines, Path(trials)))
    show_rows(rows if json else [_for_people(row) for row in rows], json, empty="There is no engine.")
    return 0 if all(row["ok"] for row in rows) else 1


async def _join(address: str, token: str) -> Joined:
    outbound = Outbound(connections_max=1)
    try:
        return await site.join(address, token, __version__, outbound)
    except site.SiteFailed as failed:
        raise CommandError(str(failed)) from None
    finally:
        await outbound.close()


def _folder(data: str, *, make: bool = True) -> Path:
    """The data folder. What is written from here on is for its owner alone. Raises ConfigError."""
    os.umask(FOR_THE_OWNER_ALONE)
    folder = Path(data).resolve() if data else read_settings().data_folder
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"The data folder {folder} can't be made: {error.strerror}.") from None
    return folder


def _check_writable(folder: Path) -> None:
    """Before the token is used up. Raises CommandError."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"The data folder {folder} can't be written to.")


def _lock(folder: Path) -> FileLock:
    """One node a folder. Raises CommandError."""
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise CommandError(f"Another node runs from {folder}; stop it first, or choose --data.") from None
    except OSError as error:
        raise ConfigError(f"The data folder {folder} can't be written to: {error.strerror}.") from None
    return lock


def _trial_folder(folder: Path) -> TemporaryDirectory[str]:
    """On the disk that `run` writes to, where there is a data folder by now. Raises ConfigError."""
    try:
        return TemporaryDirectory(prefix="trial-", dir=folder if folder.is_dir() else None)
    except OSError as error:
        raise ConfigError(f"The data folder {folder} can't be written to: {error.strerror}.") from None


def _places(folder: Path, config: str) -> Sequence[Path]:
    if not config:
        return folder / node_config.FILE, Path(node_config.FILE)
    if not Path(config).is_file():
        raise ConfigError(f"--config: there is no file {config}.")
    return (Path(config),)


def _in_the_clear(address: str) -> str:
    host = urlsplit(address).hostname
    return f"What is said to {host} can be read and changed on its way: use https, or a network of your own."


def _for_people(row: dict[str, object]) -> dict[str, object]:
    """How many voices, since a model may have hundreds; and the speed as one says it."""
    voices = row["voices"]
    count = len(voices) if isinstance(voices, list) else 0
    return {**row, "voices": count, "speed": f"{row['speed']} times real time" if row["ok"] else ""}
