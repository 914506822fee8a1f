"""myna node enroll|list|disable|enable|drain|remove, and for the machine that speaks: join|run|check"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import App, Parameter
from filelock import FileLock, Timeout
from msgspec import structs

from myna import __version__
from myna.actions.site import DisableNode, DrainNode, EnableNode, EnrollNode, Invitation, RemoveNode
from myna.cli.commands import http_client, named, register
from myna.cli.console import (
    Json,
    Row,
    Wide,
    address_note,
    read_settings,
    say_next,
    seconds,
    show,
    show_rows,
    with_database,
)
from myna.errors import CommandError, ConfigError
from myna.farm.nodes import Nodes, NodeStatus
from myna.lib.sandbox import keep_to_ourselves
from myna.lib.telemetry import logs
from myna.node.benchmark import check as check_engines
from myna.node.engines import CONFIG_FILE, load_config
from myna.node.main import run as run_node
from myna.node.server_client import Credentials, ServerClient, ServerFailed, is_unencrypted, site_url
from myna.wire.farm import Joined

app = App(
    name="node",
    help="Compute nodes: machines that speak for the site. On the node's machine: join, run, check.",
)


def _invited(_: EnrollNode, invited: Invitation) -> Row:
    address = read_settings().base_url
    command = f"myna node join {address} {invited.token}"
    return {**structs.asdict(invited), "command": command, **address_note(address)}


register(
    app,
    EnrollNode,
    _invited,
    then=lambda *_: "Next, on the node's machine: the command above, then myna node run. More: docs/nodes.md",
    unseen=lambda action, _: action,  # another token, which is not shown, replaces it
)
register(app, DisableNode, named(disabled=True))
register(app, EnableNode, named(enabled=True))
register(app, DrainNode, named(draining=True))
register(app, RemoveNode, named(removed=True))


@app.command(name="list")
def list_all(*, wide: Wide = False, json: Json = False) -> None:
    """List the nodes with their capabilities and states."""
    rows = [_shown(node, whole=json) for node in with_database(lambda db: Nodes(db).list(), json=json)]
    empty = "There is no compute node yet: myna node enroll NAME"
    brief = ("name", "state", "slots", "jobs", "voices", "heard_at")
    show_rows(rows, json, empty=empty, brief=brief, wide=wide)


def _shown(known: NodeStatus, *, whole: bool) -> Row:
    """All voices for JSON, their number for a table: a node may have hundreds."""
    node = known.node
    return {
        "name": node.name,
        "state": str(known.state),
        "slots": node.slots,
        "jobs": known.jobs,
        "voices": known.voices if whole else len(known.voices),
        "clones": known.clones,
        "chars_per_s": round(node.chars_per_s, 1),
        "version": node.version,
        "heard_at": seconds(node.heard_at),
        "cooldown_until": seconds(node.cooldown_until if node.cooldown_until > node.now else 0),
    }


LOCK = "node.lock"

Data = Annotated[str, Parameter(help="The node's data folder, instead of MYNA_DATA's.")]
Config = Annotated[str, Parameter(help="The node.toml to use, instead of the data folder's or this one's.")]


@app.command
def join(
    url: Annotated[str, Parameter(help="The public URL of the service.")],
    token: Annotated[str, Parameter(help="The join token that `myna node enroll` printed.")],
    *,
    data: Data = "",
    again: Annotated[bool, Parameter(help="Replace the credential of this machine.")] = False,
    json: Json = False,
) -> None:
    """Make this machine a compute node of the service at URL, with a TOKEN from its operator."""
    address = site_url(url)
    folder = _folder(data)
    path = Credentials.path(folder)
    if path.exists() and not again:
        raise CommandError(f"This machine has joined already: {path} exists; --again replaces it.")
    _check_writable(folder)
    joined = asyncio.run(_join(address, token))
    try:
        Credentials(address, joined.name, joined.credential).store(folder)
    except OSError as error:
        raise CommandError(f"{path} can't be written: {error.strerror}; get a new token.") from None
    warning = {"warning": _in_the_clear(address)} if is_unencrypted(address) else {}
    show({"name": joined.name, "url": address, "credential": str(path), **warning}, json)
    if not json:
        say_next("Next: myna node run")


@app.command
def run(*, data: Data = "", config: Config = "") -> None:
    """Run as a compute node until SIGTERM or Ctrl-C: do the jobs that the service leases to it."""
    folder = _folder(data)
    logs.configure(read_settings().log_level)
    with _lock(folder):
        member = Credentials.load(folder)
        asyncio.run(run_node(member, load_config(_places(folder, config)), folder))


@app.command
def check(*, data: Data = "", config: Config = "", wide: Wide = False, json: Json = False) -> int:
    """Start each engine of node.toml, speak a sentence, and print its speed; contacts no service."""
    folder = _folder(data, make=False)
    found = load_config(_places(folder, config))
    with _trial_folder(folder) as trials:
        rows = asyncio.run(check_engines(found.engines, Path(trials)))
    brief = ("engine", "ok", "voices", "speed", "error")
    shown = rows if json else [_summary(row) for row in rows]
    show_rows(shown, json, empty="There is no engine.", brief=brief, wide=wide)
    return 0 if all(row["ok"] for row in rows) else 1


async def _join(address: str, token: str) -> Joined:
    async with http_client() as client:
        try:
            return await ServerClient(address, "", client).join(token, __version__)
        except ServerFailed as failed:
            raise CommandError(str(failed)) from None


def _folder(data: str, *, make: bool = True) -> Path:
    """The data folder. Sets the umask, so that only the owner can read new files. Raises ConfigError."""
    keep_to_ourselves()
    folder = Path(data).resolve() if data else read_settings().data_folder
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"The data folder {folder} can't be created: {error.strerror}.") from None
    return folder


def _check_writable(folder: Path) -> None:
    """Called before the token is used. Raises CommandError."""
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"The data folder {folder} can't be written to.")


def _lock(folder: Path) -> FileLock:
    """Allows one running node per folder. Raises CommandError or ConfigError."""
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise CommandError(f"Another node runs from {folder}; stop it first, or choose --data.") from None
    except OSError as error:
        raise ConfigError(f"The data folder {folder} can't be written to: {error.strerror}.") from None
    return lock


def _trial_folder(folder: Path) -> TemporaryDirectory[str]:
    """A temporary folder, in the data folder if that exists. Raises ConfigError."""
    try:
        return TemporaryDirectory(prefix="trial-", dir=folder if folder.is_dir() else None)
    except OSError as error:
        raise ConfigError(f"The data folder {folder} can't be written to: {error.strerror}.") from None


def _places(folder: Path, config: str) -> Sequence[Path]:
    if not config:
        return folder / CONFIG_FILE, Path(CONFIG_FILE)
    if not Path(config).is_file():
        raise ConfigError(f"--config: there is no file {config}.")
    return (Path(config),)


def _in_the_clear(address: str) -> str:
    host = urlsplit(address).hostname
    return f"Traffic to {host} can be read and changed on the way: use https, or a private network."


def _summary(row: Row) -> Row:
    """A row of the table: the number of voices, since a model may have hundreds, and the speed as text."""
    voices = row["voices"]
    count = len(voices) if isinstance(voices, list) else 0
    return {**row, "voices": count, "speed": f"{row['speed']} times real time" if row["ok"] else ""}
