"""myna node enroll|list|disable|enable|drain|remove"""

from cyclopts import App
from msgspec import structs

from myna.actions.nodes import DisableNode, DrainNode, EnableNode, EnrollNode, Invitation, RemoveNode
from myna.cli.actions import named, register
from myna.cli.console import Json, Wide, address_note, read_settings, seconds, show_rows, with_database
from myna.farm.nodes import Nodes, NodeStatus

app = App(
    name="node",
    help="Compute nodes: machines that speak for the site. On the node's machine: join, run, check.",
)


def _invited(_: EnrollNode, invited: Invitation) -> dict[str, object]:
    address = read_settings().base_url
    command = f"myna node join {address} {invited.token}"
    return {**structs.asdict(invited), "command": command, **address_note(address)}


register(
    app,
    EnrollNode,
    _invited,
    then=lambda *_: "Next, on the node's machine: the command above, then myna node run. More: docs/nodes.md",
)
register(app, DisableNode, named(disabled=True))
register(app, EnableNode, named(enabled=True))
register(app, DrainNode, named(draining=True))
register(app, RemoveNode, named(removed=True))


@app.command(name="list")
def list_all(*, wide: Wide = False, json: Json = False) -> None:
    """List the nodes with their capabilities and states."""
    known = with_database(lambda db: Nodes(db).list(), json=json)
    rows = [_shown(node, whole=json) for node in known]
    empty = "There is no compute node yet: myna node enroll NAME"
    brief = ("name", "state", "slots", "jobs", "voices", "heard_at")
    show_rows(rows, json, empty=empty, brief=brief, wide=wide)


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
