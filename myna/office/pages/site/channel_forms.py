"""The forms that add a channel, change it, store its key and remove it."""

import contextlib
from typing import Any

from msgspec import structs
from starlette.responses import Response

from myna.actions.channels import (
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    PRIORITY_STEP,
    AddChannel,
    RemoveChannel,
    SetChannel,
    SetChannelKey,
)
from myna.channels.channels import Channel, record_voices
from myna.channels.routes import of_row
from myna.engines.interface import EngineFailed
from myna.errors import CommandError, NotFound
from myna.gateway.trial import likely_cause
from myna.lib.net import without_login
from myna.office.messages import N_
from myna.office.page import Page, performs
from myna.office.pages.site.channels import KINDS, PATH, found, known
from myna.office.visit import Visit
from myna.store.queries import config as config_store

VENDORS = (
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("llama.cpp", "http://127.0.0.1:8080/v1"),
    ("LM Studio", "http://127.0.0.1:1234/v1"),
    ("vLLM", "http://127.0.0.1:8000/v1"),
    ("OpenAI", "https://api.openai.com/v1"),
    ("DeepSeek", "https://api.deepseek.com/v1"),
    ("OpenRouter", "https://openrouter.ai/api/v1"),
)
"""Addresses that the form suggests."""


async def show_new(visit: Visit) -> Response:
    """Asks for a new channel."""
    return visit.page(
        "site/channel_new.html",
        form=AddChannel(kind="chat", name="", url=""),
        kinds=KINDS,
        vendors=VENDORS,
        keys_in_files=visit.parts.settings.keys_in_files,
    )


async def add(visit: Visit) -> Response:
    """Adds the channel, with its key; behind the others, unless the form says otherwise."""
    last = max((one.priority for one in await known(visit)), default=0)
    behind = min(PRIORITY_MAX, max(PRIORITY_DEFAULT, last + PRIORITY_STEP))
    given = {} if visit.typed("priority") else {"priority": behind}
    row = await visit.perform(visit.fields(AddChannel, **given))
    channel = await _look_up_voices(visit, row.name)
    notice = visit.text("{name} is added. Test it: it answers in a moment.").format(name=row.name)
    return visit.redirect(PATH, notice + await _warning(visit, channel))


async def show_change(visit: Visit) -> Response:
    """The forms about one channel of the database."""
    channel = await _stored(visit, visit.parameter("name"))
    return visit.page(
        "site/channel.html",
        channel=channel,
        form=SetChannel(name=channel.name, **{**_present(channel), "url": without_login(channel.url)}),
        routes=[
            row.name
            for row in await visit.read(config_store.load_routes)
            if channel.name in of_row(row).channels
        ],
        keys_in_files=visit.parts.settings.keys_in_files,
    )


async def _stored(visit: Visit, name: str) -> Channel:
    """The channel of the database of this name. Raises NotFound."""
    try:
        channel = await found(visit, name)
    except CommandError as missing:
        raise NotFound(missing.sentence, **missing.values) from None
    if channel.source != "database":
        raise NotFound("This channel comes from the settings, and is changed there.")
    return channel


def _present(channel: Channel) -> dict[str, Any]:
    """The values that `SetChannel` can change."""
    return {name: getattr(channel, name) for name in SetChannel.__struct_fields__ if name != "name"}


async def change(visit: Visit) -> Response:
    """Changes what differs from the stored channel. What the form has no field for stays as it is; a field
    that was emptied gets the default of a new channel."""
    before = await _stored(visit, visit.typed("name"))
    present = _present(before)
    defaults = {one.name: one.default for one in structs.fields(AddChannel)}
    given = present | {name: visit.typed(name) or defaults[name] for name in present if name in visit.form}
    given |= {"url": visit.typed("url") or None, "responses": bool(visit.typed("responses"))}
    action = visit.fields(SetChannel, **given).differing(present)
    if action is None:
        return visit.redirect(PATH)
    await visit.perform(action)
    after = await _look_up_voices(visit, before.name)
    notice = visit.text("{name} is changed.")
    if before.key_stored and not after.key_stored:
        notice = visit.text("{name} is changed. Its key was for another server and is removed.")
    return visit.redirect(PATH, notice.format(name=before.name) + await _warning(visit, after))


async def _look_up_voices(visit: Visit, name: str) -> Channel:
    """The channel. Looks up the voices of one for speech; where that fails, the service tries again later."""
    channel = await found(visit, name)
    if channel.kind == "speech":
        with contextlib.suppress(EngineFailed):  # the channel's test says why
            await record_voices(visit.db, visit.parts.channels, channel)
    return channel


async def _warning(visit: Visit, channel: Channel) -> str:
    """What may be wrong with a channel that was added or changed; empty if nothing."""
    cause = await likely_cause(visit.parts.http_client, channel)
    return " " + visit.text("It may not work.") + " " + visit.said(cause) if cause else ""


PAGES = [
    Page(f"{PATH}/new", show=show_new, submit=add, recent=True, secrets=("key",)),
    Page(f"{PATH}/change", show=show_change, submit=change, recent=True),
    Page(
        f"{PATH}/key",
        submit=performs(SetChannelKey, PATH, N_("The key of {name} is stored.")),
        recent=True,
        secrets=("key",),
    ),
    Page(
        f"{PATH}/key/remove",
        submit=performs(
            SetChannelKey, f"{PATH}/change?name={{name}}", N_("The key of {name} is removed."), remove=True
        ),
        recent=True,
    ),
    Page(
        f"{PATH}/remove",
        submit=performs(RemoveChannel, PATH, N_("{name} is removed."), confirmed=True),
        recent=True,
    ),
]
