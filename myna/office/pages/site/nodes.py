"""Compute nodes: a line to paste on a machine, its way to the first sentence, and its states."""

from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import quote

from msgspec import Struct
from starlette.responses import Response

from myna.errors import CommandError, NotFound
from myna.farm.nodes import Invitation, Nodes, NodeState, NodeStatus, node_channel
from myna.office import live
from myna.office.channel_usage import strips
from myna.office.live import Part
from myna.office.messages import N_
from myna.office.page import Page, Who
from myna.office.pages.site.channels import Named
from myna.office.visit import Visit

PATH = "/site/nodes"
STATES = {
    NodeState.INVITED: (N_("waits for its machine"), "accent"),
    NodeState.ONLINE: (N_("online"), "good"),
    NodeState.OFFLINE: (N_("offline"), "bad"),
    NodeState.DISABLED: (N_("disabled"), ""),
    NodeState.DRAINING: (N_("draining"), "accent"),
}


class Enrolment(Struct):
    """The form that invites a machine; `again` for a node that has joined."""

    name: str = ""
    again: bool = False


class Removal(Struct):
    """The form that removes a node: its name, and the name as typed."""

    name: str = ""
    typed: str = ""


async def show(visit: Visit, name: str = "", error: str = "") -> Response:
    """All nodes, and the form for a new one."""
    part = await _table(visit)
    status = 400 if error else 200
    return visit.page("site/nodes.html", status=status, part=part.html, name=name, error=error)


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
    form = visit.fields(Enrolment)
    try:
        invitation = await Nodes(visit.db).enroll(form.name, again=form.again, by=visit.actor)
    except CommandError as error:
        return await show(visit, form.name, visit.said(error))
    page = await show_one(visit, form.name, invitation=invitation)
    return visit.result(f"{PATH}/one?name={quote(form.name)}", page)


async def show_one(
    visit: Visit, name: str = "", invitation: Invitation | None = None, error: str = ""
) -> Response:
    """One node: the line for its machine if it was just invited, its steps, and its actions."""
    name = name or visit.parameter("name")
    node = await _found(visit, name)
    return visit.page(
        "site/node.html",
        status=400 if error else 200,
        known=node,
        part=(await _steps(visit, name)).html,
        invitation=invitation,
        join=f"myna node join {visit.base_url} {invitation.token} && myna node run" if invitation else "",
        error=error,
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
    return await _change(visit, Nodes(visit.db).drain)


async def enable(visit: Visit) -> Response:
    """Has the node work again."""
    return await _change(visit, Nodes(visit.db).enable)


async def disable(visit: Visit) -> Response:
    """Refuses the node's requests and requeues its jobs."""
    return await _change(visit, Nodes(visit.db).disable)


async def _change(visit: Visit, change: Callable[..., Awaitable[None]]) -> Response:
    name = visit.fields(Named).name
    try:
        await change(name, by=visit.actor)
    except CommandError as error:
        return await show(visit, error=visit.said(error))
    return visit.redirect(f"{PATH}/one?name={quote(name)}")


async def remove(visit: Visit) -> Response:
    """Deletes the node."""
    form = visit.fields(Removal)
    try:
        if form.typed != form.name:
            raise CommandError(visit.text("Type the name to remove it."))
        await Nodes(visit.db).remove(form.name, by=visit.actor)
    except CommandError as error:
        return await show_one(visit, form.name, error=visit.said(error))
    return visit.redirect(PATH, visit.text("{name} is removed.").format(name=form.name))


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
