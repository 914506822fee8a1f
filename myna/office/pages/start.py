"""The first minute of an operator: a chat server, then a first key. The other pages need none of it."""

from urllib.parse import urlsplit

from msgspec import Struct, structs
from starlette.responses import Response

from myna.actions.accounts import GrantFirstUnits
from myna.actions.channels import AddChannel
from myna.actions.keys import IssueKey
from myna.channels.channels import PARROT, Channel
from myna.errors import CommandError
from myna.gateway import models as server_models
from myna.gateway import trial as channel_trial
from myna.lib.net import is_base_url, without_login
from myna.office.page import Page
from myna.office.pages.keys import made
from myna.office.pages.site.channels import TRIAL_MAX_S
from myna.office.visit import Visit

FIRST_UNITS = 1000
MEMO = "first units"


class NewServer(Struct):
    """The form that adds a chat server. `untested`: it is added without a trial."""

    url: str = ""
    name: str = ""
    model: str = ""
    key: str = ""
    untested: bool = False


class FirstKey(Struct):
    """The form that makes the first key."""

    name: str = ""
    units: int = 0


async def show(
    visit: Visit, form: NewServer | None = None, error: str = "", *, failed: bool = False
) -> Response:
    """Offers the chat servers of this machine, any other, and the parrot. After a `failed` trial the form can
    add its server without one."""
    found = await server_models.find_servers(visit.parts.http_client, visit.parts.settings.port)
    return visit.page(
        "start.html",
        status=400 if error else 200,
        found=found,
        form=form or NewServer(),
        parrot=PARROT,
        channels=await _chat_channels(visit),
        failed=failed,
        error=error,
    )


async def add_server(visit: Visit) -> Response:
    """Tries the server, adds it as a chat channel, and stores its key."""
    form = visit.fields(NewServer)
    url, form.key = form.url.rstrip("/"), form.key.strip()
    name = form.name or _name_of(url)
    action = AddChannel(kind="chat", name=name, url=url, model=form.model, key=form.key)
    action.check()
    if not form.untested and (failure := await _failure_of(visit, form, url)):
        return await show(visit, form, visit.said(failure), failed=True)
    await visit.perform(action)
    return visit.redirect("/start/key", "Chats go to {name} now.", name=name)


async def _failure_of(visit: Visit, form: NewServer, url: str) -> CommandError | None:
    """Why the server does not answer a chat; None if it does. Without a model in the form, the first one that
    the server lists is requested. Circuits don't count this trial: the server is no channel yet."""
    parts = visit.parts
    channel = Channel(kind="chat", name=without_login(url), url=url, model=form.model, key=form.key)
    if not form.model and url != PARROT:
        models = await server_models.models_of(parts.http_client, url, form.key)
        channel = structs.replace(channel, model=models[0] if models else "")
    deadline_s = min(parts.settings.call_deadline_s, TRIAL_MAX_S)
    try:
        await channel_trial.chat(parts.http_client, parts.channels, parts.settings, channel, deadline_s)
    except CommandError as failure:
        return failure
    finally:
        parts.channels.circuits.succeeded(channel.name)
    return None


async def show_key(visit: Visit) -> Response:
    """Asks for the name of the first key, and for units if the account has none."""
    return visit.page(
        "start_key.html",
        form=FirstKey(name=visit.text("my first key"), units=FIRST_UNITS),
        channels=await _chat_channels(visit),
        memo=MEMO,
    )


async def make_key(visit: Visit) -> Response:
    """Grants the units if the account has none, makes the key, and shows it."""
    form, name = visit.fields(FirstKey), visit.account.name
    if form.units:
        await visit.perform(GrantFirstUnits(name=name, units=form.units, memo=MEMO))
    return await made(visit, await visit.perform(IssueKey(account=name, name=form.name)))


def _name_of(url: str) -> str:
    """A name for the channel of this URL: its host. A URL that has none is refused with its own message."""
    if url == PARROT or not is_base_url(url):
        return "parrot"
    return urlsplit(url).hostname or ""


async def _chat_channels(visit: Visit) -> list[str]:
    """The names of the enabled chat channels."""
    return [channel.name for channel in visit.parts.channels.chat(await visit.config())]


PAGES = [
    Page("/start", show=show, submit=add_server, recent=True, secrets=("key",)),
    Page("/start/key", show=show_key, submit=make_key, recent=True),
]
