"""Compute nodes: a line to paste on a machine, its way to the first sentence, and its states."""

from urllib.parse import quote

from starlette.responses import Response

from myna.actions.site import DisableNode, DrainNode, EnableNode, EnrollNode, Invitation, RemoveNode
from myna.errors import NotFound
from myna.farm.nodes import Nodes, NodeState, NodeStatus, node_channel
from myna.office.messages import N_
from myna.office.page import Page, Values, live_page, live_pages, performs
from myna.office.pages.site.channels import strips
from myna.office.visit import Visit

PATH = "/site/nodes"
ONE = f"{PATH}/one?name={{name}}"
STATES = {
    NodeState.INVITED: (N_("waits for its machine"), "accent"),
    NodeState.ONLINE: (N_("online"), "good"),
    NodeState.OFFLINE: (N_("offline"), "bad"),
    NodeState.DISABLED: (N_("disabled"), ""),
    NodeState.DRAINING: (N_("draining"), "accent"),
}


async def _all(visit: Visit) -> Values:
    """All nodes, beside the form for a new one."""
    nodes = await Nodes(visit.db).list()
    return {"nodes": nodes, "states": STATES, "strips": await strips(visit), "channel": node_channel}


async def enroll(visit: Visit) -> Response:
    """Makes a join token and shows it, once."""
    invitation = await visit.perform(visit.fields(EnrollNode))
    page = await _page(visit, invitation.name, invitation)
    return visit.result(ONE.format(name=quote(invitation.name)), page)


async def show_one(visit: Visit) -> Response:
    """One node: its steps, and its actions."""
    return await _page(visit, visit.parameter("name"))


async def _page(visit: Visit, name: str, invitation: Invitation | None = None) -> Response:
    """The page of a node, with the line for its machine if it was just invited."""
    return visit.page(
        "site/node.html",
        invitation=invitation,
        join=f"myna node join {visit.base_url} {invitation.token} && myna node run" if invitation else "",
        **await _one(visit, name),
    )


async def _one(visit: Visit, name: str = "") -> Values:
    """The node of this name, or of the address. Raises NotFound."""
    wanted = name or visit.parameter("name")
    for known in await Nodes(visit.db).list():
        if known.node.name == wanted:
            return {"known": known, "states": STATES, "voice": await _own_voice(visit, known)}
    raise NotFound("There is no such node.")


async def _own_voice(visit: Visit, known: NodeStatus) -> str:
    """The first voice of the node that no channel speaks, so that a node does; "" without one."""
    config = await visit.config()
    of_channels = {
        voice.voice_id for channel in visit.parts.channels.speech(config) for voice in channel.voices
    }
    hidden = {voice_id for voice_id, override in config.overrides.items() if override.hidden}
    return next((voice_id for voice_id in known.voices if voice_id not in of_channels | hidden), "")


PAGES = [
    *live_pages(PATH, "site/nodes.html", _all),
    Page(f"{PATH}/one", show=show_one),
    live_page(f"{PATH}/one", "site/node.html", _one),
    Page(f"{PATH}/enroll", submit=enroll, recent=True),
    Page(f"{PATH}/drain", submit=performs(DrainNode, ONE)),
    Page(f"{PATH}/enable", submit=performs(EnableNode, ONE)),
    Page(f"{PATH}/disable", submit=performs(DisableNode, ONE)),
    Page(
        f"{PATH}/remove",
        submit=performs(RemoveNode, PATH, N_("{name} is removed."), confirmed=True),
        recent=True,
    ),
]
