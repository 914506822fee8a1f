"""The forms that add a channel, change it, store its key and remove it."""

from urllib.parse import quote

from msgspec import Struct
from starlette.responses import Response

from myna import channel_changes, channel_keys
from myna.channel_causes import likely_cause
from myna.channel_changes import PRIORITY_MAX, PRIORITY_STEP, Edit
from myna.channels import Channel, record_voices
from myna.engines.interface import EngineFailed
from myna.errors import CommandError, NotFound
from myna.office.page import Page, Who
from myna.office.pages.site.channels import KINDS, PATH, Named, found, keys_of, known
from myna.office.visit import Visit
from myna.routes import of_row
from myna.store.queries import routes
from myna.store.queries.config import ChannelRow
from myna.urls import without_login

SPEECH_MODEL = "tts-1"
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


class NewChannel(Struct):
    """The form that adds a channel."""

    kind: str = KINDS[0]
    name: str = ""
    url: str = ""
    model: str = ""
    key_env: str = ""
    concurrent: int = 0
    key: str = ""


class ChangedChannel(Struct):
    """The form that changes a channel."""

    name: str = ""
    url: str = ""
    model: str = ""
    key_env: str = ""
    concurrent: int = 0


class NewKey(Struct):
    """The form that stores a key."""

    name: str = ""
    key: str = ""


class Removal(Struct):
    """The form that removes a channel: its name, and the name as typed."""

    name: str = ""
    typed: str = ""


async def show_new(visit: Visit, error: str = "") -> Response:
    """Asks for a new channel."""
    return visit.page(
        "site/channel_new.html",
        status=400 if error else 200,
        form=visit.fields(NewChannel),
        kinds=KINDS,
        vendors=VENDORS,
        error=error,
        several_machines=not visit.parts.settings.on_sqlite,
    )


async def add(visit: Visit) -> Response:
    """Adds the channel behind the others, with its key."""
    form = visit.fields(NewChannel)
    try:
        if form.kind not in KINDS:
            raise CommandError("A channel is for chat or for speech.")
        form.key = form.key.strip()
        if form.key:
            channel_keys.check(form.name, form.key)
        await _add(visit, form)
    except CommandError as error:
        return await show_new(visit, visit.said(error))
    channel = await _look_up_voices(visit, form.name)
    notice = visit.text("{name} is added. Test it: it answers in a moment.")
    return visit.redirect(PATH, notice.format(name=form.name) + await _warning(visit, channel))


async def _add(visit: Visit, form: NewChannel) -> None:
    """Raises CommandError."""
    last = max((one.priority or 0 for one in await known(visit)), default=0)
    row = ChannelRow(
        kind=form.kind,
        name=form.name,
        url=form.url,
        model=form.model or (SPEECH_MODEL if form.kind == "speech" else ""),
        key_env=form.key_env,
        priority=min(PRIORITY_MAX, max(100, last + PRIORITY_STEP)),
        enabled=1,
        concurrent=form.concurrent,
    )
    keys = keys_of(visit)
    await channel_changes.add(visit.db, keys, row, by=visit.actor)
    if form.key:
        settings = visit.parts.settings
        await channel_changes.store_key(visit.db, settings, keys, form.name, form.key, by=visit.actor)


async def show_change(visit: Visit, name: str = "", error: str = "") -> Response:
    """The forms about one channel of the database."""
    name = name or visit.parameter("name")
    try:
        channel = await found(visit, name)
    except CommandError as missing:
        raise NotFound(missing.sentence, **missing.values) from None
    if channel.source != "database":
        raise NotFound("This channel comes from the settings, and is changed there.")
    return visit.page(
        "site/channel.html",
        status=400 if error else 200,
        channel=channel,
        form=ChangedChannel(
            channel.name, without_login(channel.url), channel.model, channel.key_env, channel.concurrent
        ),
        error=error,
        routes=[row.name for row in await visit.read(routes.load) if channel.name in of_row(row).channels],
        several_machines=not visit.parts.settings.on_sqlite,
    )


async def change(visit: Visit) -> Response:
    """Changes the address, the model, the variable of the key and the limit of concurrent requests."""
    form = visit.fields(ChangedChannel)
    settings = visit.parts.settings
    try:
        before = await found(visit, form.name)
        concurrent = None if form.concurrent == before.concurrent else form.concurrent
        edit = Edit(form.url, form.model, form.key_env, concurrent=concurrent)
        if edit == Edit(before.url, before.model, before.key_env):
            return visit.redirect(PATH)
        await channel_changes.change(visit.db, settings, keys_of(visit), form.name, edit, by=visit.actor)
    except CommandError as error:
        return await show_change(visit, form.name, visit.said(error))
    after = await _look_up_voices(visit, form.name)
    notice = visit.text("{name} is changed.")
    if before.key_stored and not after.key_stored:
        notice = visit.text("{name} is changed. Its key was for another server and is removed.")
    return visit.redirect(PATH, notice.format(name=form.name) + await _warning(visit, after))


async def _look_up_voices(visit: Visit, name: str) -> Channel:
    """The channel. Looks up the voices of one for speech; where that fails, the service tries again later."""
    await visit.parts.config.refresh()
    channel = await found(visit, name)
    if channel.kind == "speech":
        try:
            await record_voices(visit.db, visit.parts.channels, channel)
        except EngineFailed:  # the channel's test says why
            return channel
        await visit.parts.config.refresh()
    return channel


async def _warning(visit: Visit, channel: Channel) -> str:
    """What may be wrong with a channel that was added or changed; empty if nothing."""
    cause = await likely_cause(visit.parts.http_client, channel)
    return " " + visit.text("It may not work.") + " " + visit.said(cause) if cause else ""


async def store_key(visit: Visit) -> Response:
    """Stores the channel's key, which no page shows."""
    form = visit.fields(NewKey)
    settings = visit.parts.settings
    try:
        await channel_changes.store_key(
            visit.db, settings, keys_of(visit), form.name, form.key.strip(), by=visit.actor
        )
    except CommandError as error:
        return await show_change(visit, form.name, visit.said(error))
    return visit.redirect(PATH, visit.text("The key of {name} is stored.").format(name=form.name))


async def remove_key(visit: Visit) -> Response:
    """Removes the stored key."""
    name = visit.fields(Named).name
    try:
        await channel_changes.remove_key(visit.db, visit.parts.settings, keys_of(visit), name, by=visit.actor)
    except CommandError as error:
        return await show_change(visit, name, visit.said(error))
    return visit.redirect(
        f"{PATH}/change?name={quote(name)}", visit.text("The key of {name} is removed.").format(name=name)
    )


async def remove(visit: Visit) -> Response:
    """Removes the channel."""
    form = visit.fields(Removal)
    try:
        if form.typed != form.name:
            raise CommandError(visit.text("Type the name to remove it."))
        await channel_changes.remove(
            visit.db, visit.parts.settings, keys_of(visit), form.name, by=visit.actor
        )
    except CommandError as error:
        return await show_change(visit, form.name, visit.said(error))
    return visit.redirect(PATH, visit.text("{name} is removed.").format(name=form.name))


PAGES = [
    Page(path=f"{PATH}/new", show=show_new, submit=add, who=Who.OPERATOR, recent=True, secrets=("key",)),
    Page(path=f"{PATH}/change", show=show_change, submit=change, who=Who.OPERATOR, recent=True),
    Page(path=f"{PATH}/key", submit=store_key, who=Who.OPERATOR, recent=True, secrets=("key",)),
    Page(path=f"{PATH}/key/remove", submit=remove_key, who=Who.OPERATOR, recent=True),
    Page(path=f"{PATH}/remove", submit=remove, who=Who.OPERATOR, recent=True),
]
