"""Compute nodes: a line to paste on a machine, its way to the first sentence, and its states."""

from functools import partial
from urllib.parse import quote

from starlette.responses import Response

from myna.actions.site import DisableNode, DrainNode, EnableNode, EnrollNode, Invitation, RemoveNode
from myna.errors import NotFound
from myna.farm.nodes import Nodes, NodeState, NodeStatus, node_channel
from myna.office import live
from myna.office.channel_usage import strips
from myna.office.live import Part
from myna.office.messages import N_
from myna.office.page import Page, Who
from myna.office.visit import Visit

PATH = "/site/nodes"
STATES = {
    NodeState.INVITED: (N_("waits for its machine"), "accent"),
    NodeState.ONLINE: (N_("online"), "good"),
    NodeState.OFFLINE: (N_("offline"), "bad"),
    NodeState.DISABLED: (N_("disabled"), ""),
    NodeState.DRAINING: (N_("draining"), "accent"),
}


async def show(visit: Visit) -> Response:
    """All nodes, and the form for a new one."""
    return visit.page("site/nodes.html", part=(await _table(visit)).html)


async def follow(visit: Visit) -> Response:
    """The table of nodes, as server-sent events."""
    return live.stream(visit, partial(_table, visit))


async def _table(visit: Visit) -> Part:
    nodes = await Nodes(visit.db).list()
    return Part(
        visit.part(
            "site/nodes_part.html",
            nodes=nodes,
            states=STATES,
            strips=await strips(visit),
            channel=node_channel,
        )
    )


async def enroll(visit: Visit) -> Response:
    """Makes a join token and shows it, once."""
    invitation = await visit.perform(visit.fields(EnrollNode))
    page = await _page(visit, invitation.name, invitation)
    return visit.result(f"{PATH}/one?name={quote(invitation.name)}", page)


async def show_one(visit: Visit) -> Response:
    """One node: its steps, and its actions."""
    return await _page(visit, visit.parameter("name"))


async def _page(visit: Visit, name: str, invitation: Invitation | None = None) -> Response:
    """The page of a node, with the line for its machine if it was just invited."""
    return visit.page(
        "site/node.html",
        known=await _found(visit, name),
        part=(await _steps(visit, name)).html,
        invitation=invitation,
        join=f"myna node join {visit.base_url} {invitation.token} && myna node run" if invitation else "",
    )


async def follow_one(visit: Visit) -> Response:
    """The steps of a node, as server-sent events."""
    name = visit.parameter("name")
    await _found(visit, name)  # a 404 before the stream begins
    return live.stream(visit, partial(_steps, visit, name))


async def _found(visit: Visit, name: str) -> NodeStatus:
    """The node of this name. Raises NotFound."""
    for known in await Nodes(visit.db).list():
        if known.node.name == name:
            return known
    raise NotFound("There is no such node.")


async def _steps(visit: Visit, name: str) -> Part:
    known = await _found(visit, name)
    voice = await _own_voice(visit, known)
    return Part(visit.part("site/node_part.html", known=known, states=STATES, voice=voice))


async def _own_voice(visit: Visit, known: NodeStatus) -> str:
    """The first voice of the node that no channel speaks, so that a node does; "" without one."""
    config = await visit.parts.config.with_nodes()
    of_channels = {
        voice.voice_id for channel in visit.parts.channels.speech(config) for voice in channel.voices
    }
    hidden = {voice_id for voice_id, override in config.overrides.items() if override.hidden}
    return next((voice_id for voice_id in known.voices if voice_id not in of_channels | hidden), "")


async def drain(visit: Visit) -> Response:
    """Has the node finish its jobs and get no more."""
    return await _change(visit, visit.fields(DrainNode))


async def enable(visit: Visit) -> Response:
    """Has the node work again."""
    return await _change(visit, visit.fields(EnableNode))


async def disable(visit: Visit) -> Response:
    """Refuses the node's requests and requeues its jobs."""
    return await _change(visit, visit.fields(DisableNode))


async def _change(visit: Visit, action: DrainNode | EnableNode | DisableNode) -> Response:
    await visit.perform(action)
    return visit.redirect(f"{PATH}/one?name={quote(action.name)}")


async def remove(visit: Visit) -> Response:
    """Deletes the node."""
    action = visit.fields(RemoveNode)
    visit.confirm(action.name)
    await visit.perform(action)
    return visit.redirect(PATH, visit.text("{name} is removed.").format(name=action.name))


PAGES = [
    Page(path=PATH, show=show, who=Who.OPERATOR),
    Page(path=f"{PATH}/live", show=follow, who=Who.OPERATOR),
    Page(path=f"{PATH}/one", show=show_one, who=Who.OPERATOR),
    Page(path=f"{PATH}/one/live", show=follow_one, who=Who.OPERATOR),
    Page(path=f"{PATH}/enroll", submit=enroll, who=Who.OPERATOR, recent=True),
    Page(path=f"{PATH}/drain", submit=drain, who=Who.OPERATOR),
    Page(path=f"{PATH}/enable", submit=enable, who=Who.OPERATOR),
    Page(path=f"{PATH}/disable", submit=disable, who=Who.OPERATOR),
    Page(path=f"{PATH}/remove", submit=remove, who=Who.OPERATOR, recent=True),
]
