"""myna node enroll|list|disable|enable|drain|remove"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from cyclopts import App, Parameter
from msgspec import structs

from myna.activity import Actor, command_line
from myna.cli.console import Json, Wide, read_settings, seconds, show, show_rows, with_database
from myna.farm.nodes import Nodes, NodeStatus
from myna.urls import is_loopback

LOOPBACK_ADDRESS = (
    "That address works only on this machine. On another one use its address, or set MYNA_PUBLIC_URL."
)

app = App(
    name="node",
    help="Compute nodes: machines that speak for the site. On the node's machine: join, run, check.",
)
Name = Annotated[str, Parameter(help="The name of the node.")]


@app.command
def enroll(
    name: Name,
    *,
    again: Annotated[bool, Parameter(help="Replace the credential of a node that has joined.")] = False,
    json: Json = False,
) -> None:
    """Create a token with which a machine joins as a compute node. It is printed once, not stored, and works
    once, within an hour."""
    by = command_line()
    invited = with_database(lambda db: Nodes(db).enroll(name, again=again, by=by), json=json)
    address = read_settings().base_url
    command = f"myna node join {address} {invited.token}"
    note = {"note": LOOPBACK_ADDRESS} if is_loopback(address) else {}
    show({**structs.asdict(invited), "command": command, **note}, json)


@app.command(name="list")
def list_all(*, wide: Wide = False, json: Json = False) -> None:
    """List the nodes with their capabilities and states."""
    known = with_database(lambda db: Nodes(db).list(), json=json)
    rows = [_shown(node, whole=json) for node in known]
    empty = "There is no compute node yet: myna node enroll NAME"
    brief = ("name", "state", "slots", "jobs", "voices", "heard_at")
    show_rows(rows, json, empty=empty, brief=brief, wide=wide)


@app.command
def disable(name: Name, *, json: Json = False) -> None:
    """Disable a node: its requests are refused and its tasks requeued."""
    _change(name, "disabled", lambda nodes, by: nodes.disable(name, by=by), json)


@app.command
def enable(name: Name, *, json: Json = False) -> None:
    """Enable a node that is disabled or draining."""
    _change(name, "enabled", lambda nodes, by: nodes.enable(name, by=by), json)


@app.command
def drain(name: Name, *, json: Json = False) -> None:
    """Drain a node: it finishes its tasks and gets no more."""
    _change(name, "draining", lambda nodes, by: nodes.drain(name, by=by), json)


@app.command
def remove(name: Name, *, json: Json = False) -> None:
    """Delete a node; its tasks are requeued."""
    _change(name, "removed", lambda nodes, by: nodes.remove(name, by=by), json)


def _change(name: str, state: str, change: Callable[[Nodes, Actor], Awaitable[None]], json: bool) -> None:
    with_database(lambda db: change(Nodes(db), command_line()), json=json)
    show({"name": name, state: True}, json)


def _shown(known: NodeStatus, *, whole: bool) -> dict[str, object]:
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
