"""The public voices: their order, names, whether they are listed, and blends."""

from msgspec import Struct
from starlette.responses import Response

from myna import channel_trial, voice_blends, voice_overrides
from myna.engines.blend import EXAMPLE
from myna.errors import CommandError
from myna.office.messages import N_
from myna.office.page import Page, Who
from myna.office.visit import Visit
from myna.voice_overrides import PublicVoice

PATH = "/site/voices"
SPEAKERS = (N_("channel"), N_("node"))
"""The kinds of a voice's sources, which are named after their kind."""
SAMPLES = {
    "zh-HK": "你好，好高興識到你。今日天氣唔錯，我哋出去行下啦。",
    "yue": "你好，好高興識到你。今日天氣唔錯，我哋出去行下啦。",
    "zh": "你好，很高兴认识你。今天天气不错，我们出去走走吧。",
}
"""By the beginning of the voice's language."""
SAMPLE = "Hello, nice to meet you. The weather is fine today, so let us go for a walk."


class OneVoice(Struct):
    """A form about one voice."""

    voice_id: str = ""
    name: str = ""


class Move(Struct):
    """The form of the arrows beside a voice: `to` is up, down or first."""

    voice_id: str = ""
    to: str = "up"


class Blend(Struct):
    """The form of a blend."""

    voice_id: str = ""
    recipe: str = ""
    name: str = ""


class Heard(Struct, frozen=True):
    """A voice that was just spoken, and the name of its audio."""

    voice_id: str
    audio: str


async def show(
    visit: Visit, error: str = "", heard: Heard | None = None, blend: Blend | None = None
) -> Response:
    """All public voices in their order, hidden ones included."""
    voices = await _list(visit)
    config = await visit.parts.config.with_nodes()
    by_channels = {
        voice.voice_id for channel in visit.parts.channels.speech(config) for voice in channel.voices
    }
    return visit.page(
        "site/voices.html",
        status=400 if error else 200,
        voices=voices,
        sources={one.voice.voice_id: [_said(visit, source) for source in one.sources] for one in voices},
        by_channels=by_channels,
        blend=blend or Blend(),
        example=EXAMPLE,
        heard=heard,
        can_blend=any(channel.engine.blends for channel in visit.parts.channels.speech(config)),
        error=error,
    )


def _said(visit: Visit, source: str) -> str:
    """A source of a voice: its kind in the visitor's language, and its name."""
    kind, _, name = source.partition(" ")
    return f"{visit.text(kind)} {name}"


async def _list(visit: Visit) -> list[PublicVoice]:
    return await voice_overrides.list_public(visit.db, visit.parts.channels)


async def listen(visit: Visit) -> Response:
    """Speaks a sentence in the voice. No account is charged. The sound is deleted within two hours."""
    voice_id = visit.fields(OneVoice).voice_id
    parts = visit.parts
    try:
        found = next((one for one in await _list(visit) if one.voice.voice_id == voice_id), None)
        if found is None:
            raise CommandError("There is no public voice {voice_id!r}.", voice_id=voice_id)
        if parts.space.low:
            raise CommandError("The disk has less free space than MYNA_DISK_RESERVE_BYTES.")
        audio, path = parts.audio.new()
        text = sample_of(found.voice.language)
        await channel_trial.listen(parts.channels, parts.config.current, voice_id, text, path)
    except CommandError as error:
        return await show(visit, visit.said(error))
    return visit.result(PATH, await show(visit, heard=Heard(voice_id, audio)))


def sample_of(language: str) -> str:
    """A sentence in a voice's language, such as `zh-CN`; in English where there is none."""
    return next((text for begin, text in SAMPLES.items() if language.startswith(begin)), SAMPLE)


async def move(visit: Visit) -> Response:
    """Moves a voice up or down by one place, or to the first, which is the default."""
    form = visit.fields(Move)
    voices = await _list(visit)
    ids = [one.voice.voice_id for one in voices]
    try:
        if form.voice_id not in ids:
            raise CommandError("There is no public voice {voice_id!r}.", voice_id=form.voice_id)
        place = ids.index(form.voice_id)
        to = {"first": 0, "down": min(place + 1, len(ids) - 1)}.get(form.to, max(0, place - 1))
        ids.insert(to, ids.pop(place))
        # Only those that need a place get one: the others stay in the order of their channels.
        placed = sum(1 for one in voices if one.override.place)
        await voice_overrides.order(
            visit.db, visit.parts.channels, ids[: max(placed, to + 1, place + 1)], by=visit.actor
        )
    except CommandError as error:
        return await show(visit, visit.said(error))
    return visit.redirect(f"{PATH}#{form.voice_id}")


async def rename(visit: Visit) -> Response:
    """Gives the voice another name; an empty one restores its own."""
    form = visit.fields(OneVoice)
    try:
        await voice_overrides.rename(visit.db, visit.parts.channels, form.voice_id, form.name, by=visit.actor)
    except CommandError as error:
        return await show(visit, visit.said(error))
    return visit.redirect(f"{PATH}#{form.voice_id}")


async def hide(visit: Visit) -> Response:
    """Takes the voice off the list; requests for it are refused."""
    return await _hide(visit, True)


async def show_again(visit: Visit) -> Response:
    """Lists the voice again."""
    return await _hide(visit, False)


async def _hide(visit: Visit, hidden: bool) -> Response:
    voice_id = visit.fields(OneVoice).voice_id
    try:
        await voice_overrides.hide(visit.db, visit.parts.channels, voice_id, hidden, by=visit.actor)
    except CommandError as error:
        return await show(visit, visit.said(error))
    return visit.redirect(f"{PATH}#{voice_id}")


async def blend(visit: Visit) -> Response:
    """Mixes a voice from others."""
    form = visit.fields(Blend)
    try:
        await voice_blends.blend(
            visit.db, visit.parts.channels, form.voice_id, form.recipe, form.name, by=visit.actor
        )
    except CommandError as error:
        return await show(visit, visit.said(error), blend=form)
    await visit.parts.config.refresh()
    return visit.redirect(
        f"{PATH}#{form.voice_id}", visit.text("{name} is mixed.").format(name=form.voice_id)
    )


async def delete_blend(visit: Visit) -> Response:
    """Deletes a blend."""
    voice_id = visit.fields(OneVoice).voice_id
    try:
        await voice_blends.delete(visit.db, voice_id, by=visit.actor)
    except CommandError as error:
        return await show(visit, visit.said(error))
    await visit.parts.config.refresh()
    return visit.redirect(PATH, visit.text("{name} is removed.").format(name=voice_id))


PAGES = [
    Page(path=PATH, show=show, who=Who.OPERATOR),
    Page(path=f"{PATH}/listen", submit=listen, who=Who.OPERATOR),
    Page(path=f"{PATH}/move", submit=move, who=Who.OPERATOR),
    Page(path=f"{PATH}/rename", submit=rename, who=Who.OPERATOR),
    Page(path=f"{PATH}/hide", submit=hide, who=Who.OPERATOR),
    Page(path=f"{PATH}/show", submit=show_again, who=Who.OPERATOR),
    Page(path=f"{PATH}/blend", submit=blend, who=Who.OPERATOR),
    Page(path=f"{PATH}/blend/delete", submit=delete_blend, who=Who.OPERATOR),
]
