"""myna node enroll|list|disable|enable|drain|remove"""

from collections.abc import Awaitable, Callable

from cyclopts import App
from msgspec import structs

from myna.cli.desk import Json, read_settings, seconds, show, show_rows, with_database
from myna.node.membership import leads_here
from myna.nodes import Known, Nodes

LEADS_HERE = (
    "That address is good on this machine alone. On another one type its own, or set MYNA_PUBLIC_URL."
)

app = App(
    name="node",
    help="Compute nodes: machines that speak for the site. On the node's machine: join, run, check.",
)


@app.command
def enroll(name: str, *, again: bool = False, json: Json = False) -> None:
    """Make a token by which a machine joins as a compute node. It is printed this once and kept nowhere; it
    works once, within an hour."""
    invited = with_database(lambda db: Nodes(db).enroll(name, again=again))
    address = read_settings().base_url
    command = f"myna node join {address} {invited.token}"
    note = {"note": LEADS_HERE} if leads_here(address) else {}
    show({**structs.asdict(invited), "command": command, **note}, json)


@app.command(name="list")
def list_all(*, json: Json = False) -> None:
    """List the nodes with what they can do and how they stand."""
    known = with_database(lambda db: Nodes(db).list())
    rows = [_shown(node, whole=json) for node in known]
    show_rows(rows, json, empty="There is no compute node yet: myna node enroll NAME")


@app.command
def disable(name: str, *, json: Json = False) -> None:
    """Let a node in no more; what it was at goes to others."""
    _put(name, "disabled", lambda nodes: nodes.disable(name), json)


@app.command
def enable(name: str, *, json: Json = False) -> None:
    """Let a node work again that was disabled or drained."""
    _put(name, "enabled", lambda nodes: nodes.enable(name), json)


@app.command
def drain(name: str, *, json: Json = False) -> None:
    """Let a node end what it is at, and give it nothing more."""
    _put(name, "draining", lambda nodes: nodes.drain(name), json)


@app.command
def remove(name: str, *, json: Json = False) -> None:
    """Delete a node; what it was at goes to others."""
    _put(name, "removed", lambda nodes: nodes.remove(name), json)


def _put(name: str, state: str, change: Callable[[Nodes], Awaitable[None]], json: bool) -> None:
    with_database(lambda db: change(Nodes(db)))
    show({"name": name, state: True}, json)


def _shown(known: Known, *, whole: bool) -> dict[str, object]:
    """For programs all voices, for people how many: a node may have hundreds."""
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
    }
