"""The operation of the site: settings, health with the last audit, the activity log, and compute nodes."""

import platform
from urllib.parse import quote

from starlette.responses import Response

from myna import __version__, config, settings
from myna.accounts import activity
from myna.actions.site import (
    DisableNode,
    DrainNode,
    EnableNode,
    EnrollNode,
    Invitation,
    RemoveNode,
    SetSetting,
)
from myna.errors import NotFound
from myna.farm.nodes import Nodes, NodeState, NodeStatus, node_channel
from myna.office.page import Page, Values, live_page, live_pages, performs
from myna.office.pages.site.channels import strips
from myna.office.render import N_
from myna.office.visit import Visit
from myna.store.queries import accounts as accounts_store
from myna.store.queries import audit, audit_state
from myna.store.queries import config as store
from myna.store.queries.accounts import activity_page
from myna.store.schema import newest, schema_version

SOURCES = (N_("default"), N_("database"), N_("environment"), N_("unreadable"))
"""Where a value comes from; a file is named."""


UNREADABLE = N_("The stored value of {name} can't be read ({why}); its default applies.")


async def show_settings(visit: Visit) -> Response:
    """All settings."""
    stored = await visit.read(store.load)
    return visit.page(
        "site/settings.html",
        site=config.applied(stored),
        process=settings.load(visit.parts.environ)[1],
        unreadable=[
            visit.text(UNREADABLE).format(name=one.name, why=visit.said_of(one.why))
            for one in config.unreadable(stored)
        ],
        command_words=SetSetting(name="NAME", value="VALUE").words,
    )


async def change_setting(visit: Visit) -> Response:
    """Changes one site setting; every process uses it from its next call on."""
    action = visit.fields(SetSetting, value=visit.typed("value"))
    await visit.perform(action)
    return visit.redirect("/site/settings", "{name} is {value} now.", name=action.name, value=action.value)


async def show_health(visit: Visit) -> Response:
    """The last audit, the parts of the service, versions."""
    parts = visit.parts
    last = await visit.read(audit_state.state)
    schema = await visit.read(schema_version)
    missing = await parts.missing()
    low = parts.space.low
    books = N_("breaches: see the log") if last.breaches else N_("no breach found")
    storage = N_("low: new audio is refused") if low else N_("enough free space")
    return visit.page(
        "site/health.html",
        checks=[  # each with whether it passed, and its state
            (N_("Ledger entries"), not last.breaches, books),
            (N_("Database"), schema >= newest(visit.db.dialect), parts.settings.database_label),
            (N_("Chat"), not missing["chat"], missing["chat"] or N_("available")),
            (N_("Speech"), not missing["speech"], missing["speech"] or N_("available")),
            (N_("Storage"), not low, storage),
        ],
        last=last,
        rules=audit.RULES,
        waiting=parts.commits.waiting,
        versions={
            "Myna": __version__,
            "Python": platform.python_version(),
            visit.text(N_("database schema")): schema,
        },
    )


ROWS = 50
NOTES = (
    N_("a new password was set"),
    N_("all but the session of this change"),
    N_("the link was used to set the password"),
)
"""Behind commands, as they are stored."""


async def show_activity(visit: Visit) -> Response:
    """A page of changes, by the beginning of the command and by account."""
    prefix = visit.parameter("q").strip()[:200]
    name = visit.parameter("account").strip()[:200]
    owner = await visit.read(accounts_store.by_name, name=name) if name else None
    rows = (
        []
        if name and owner is None
        else await visit.read(
            activity_page,
            before=visit.row_id("before"),
            limit=ROWS + 1,
            prefix=prefix,
            account_id=owner.id if owner else None,
        )
    )
    return visit.page(
        "site/activity.html",
        rows=rows[:ROWS],
        more=len(rows) > ROWS,
        q=prefix,
        name=name,
        command_words=activity.words("activity", account=name or None),
    )


NODES_PATH = "/site/nodes"
NODE_PATH = f"{NODES_PATH}/one?name={{name}}"
NODE_STATES = {
    NodeState.INVITED: (N_("waits for its machine"), "accent"),
    NodeState.ONLINE: (N_("online"), "good"),
    NodeState.OFFLINE: (N_("offline"), "bad"),
    NodeState.DISABLED: (N_("disabled"), ""),
    NodeState.DRAINING: (N_("draining"), "accent"),
}


async def _nodes(visit: Visit) -> Values:
    """All nodes, beside the form for a new one."""
    nodes = await Nodes(visit.db).list()
    return {"nodes": nodes, "states": NODE_STATES, "strips": await strips(visit), "channel": node_channel}


async def enroll(visit: Visit) -> Response:
    """Makes a join token and shows it, once."""
    invitation = await visit.perform(visit.fields(EnrollNode))
    page = await _node_page(visit, invitation.name, invitation)
    return visit.result(NODE_PATH.format(name=quote(invitation.name)), page)


async def show_node(visit: Visit) -> Response:
    """One node: its steps, and its actions."""
    return await _node_page(visit, visit.parameter("name"))


async def _node_page(visit: Visit, name: str, invitation: Invitation | None = None) -> Response:
    """The page of a node, with the line for its machine if it was just invited."""
    return visit.page(
        "site/node.html",
        invitation=invitation,
        join=f"myna node join {visit.base_url} {invitation.token} && myna node run" if invitation else "",
        **await _node(visit, name),
    )


async def _node(visit: Visit, name: str = "") -> Values:
    """The node of this name, or of the address. Raises NotFound."""
    wanted = name or visit.parameter("name")
    for known in await Nodes(visit.db).list():
        if known.node.name == wanted:
            return {"known": known, "states": NODE_STATES, "voice": await _own_voice(visit, known)}
    raise NotFound("There is no such node.")


async def _own_voice(visit: Visit, known: NodeStatus) -> str:
    """The first voice of the node that no channel speaks, so that a node does; "" without one."""
    current = await visit.config()
    of_channels = {
        voice.voice_id for channel in visit.parts.channels.speech(current) for voice in channel.voices
    }
    hidden = {voice_id for voice_id, override in current.overrides.items() if override.hidden}
    return next((voice_id for voice_id in known.voices if voice_id not in of_channels | hidden), "")


PAGES = [
    Page("/site/settings", show=show_settings, submit=change_setting, recent=True),
    Page("/site/health", show=show_health),
    Page("/site/activity", show=show_activity),
    *live_pages(NODES_PATH, "site/nodes.html", _nodes),
    Page(f"{NODES_PATH}/one", show=show_node),
    live_page(f"{NODES_PATH}/one", "site/node.html", _node),
    Page(f"{NODES_PATH}/enroll", submit=enroll, recent=True),
    Page(f"{NODES_PATH}/drain", submit=performs(DrainNode, NODE_PATH)),
    Page(f"{NODES_PATH}/enable", submit=performs(EnableNode, NODE_PATH)),
    Page(f"{NODES_PATH}/disable", submit=performs(DisableNode, NODE_PATH)),
    Page(
        f"{NODES_PATH}/remove",
        submit=performs(RemoveNode, NODES_PATH, N_("{name} is removed."), confirmed=True),
        recent=True,
    ),
]
