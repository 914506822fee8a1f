"""The public voices: their order, names, whether they are listed, and blends."""

from msgspec import Struct
from starlette.responses import Response

from myna.actions.media import DeleteVoice
from myna.actions.voices import BlendVoice, HideVoice, OrderVoices, RenameVoice, ShowVoice
from myna.engines.blend import EXAMPLE
from myna.errors import CommandError
from myna.gateway import trial as channel_trial
from myna.office.messages import N_
from myna.office.page import Page, Who
from myna.office.visit import Visit
from myna.voices import overrides as voice_overrides
from myna.voices.overrides import PublicVoice

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


class Heard(Struct, frozen=True):
    """A voice that was just spoken, and the name of its audio."""

    voice_id: str
    audio: str


async def show(visit: Visit, heard: Heard | None = None) -> Response:
    """All public voices in their order, hidden ones included."""
    voices = await _list(visit)
    config = await visit.parts.config.with_nodes()
    by_channels = {
        voice.voice_id for channel in visit.parts.channels.speech(config) for voice in channel.voices
    }
    return visit.page(
        "site/voices.html",
        voices=voices,
        sources={one.voice.voice_id: [_said(visit, source) for source in one.sources] for one in voices},
        by_channels=by_channels,
        example=EXAMPLE,
        heard=heard,
        can_blend=any(channel.engine.blends for channel in visit.parts.channels.speech(config)),
    )


def _said(visit: Visit, source: str) -> str:
    """A source of a voice: its kind in the visitor's language, and its name."""
    kind, _, name = source.partition(" ")
    return f"{visit.text(kind)} {name}"


async def _list(visit: Visit) -> list[PublicVoice]:
    return await voice_overrides.list_public(visit.db, visit.parts.channels)


async def listen(visit: Visit) -> Response:
    """Speaks a sentence in the voice. No account is charged. The sound is deleted within two hours."""
    voice_id, parts = visit.typed("voice_id"), visit.parts
    found = next((one for one in await _list(visit) if one.voice.voice_id == voice_id), None)
    if found is None:
        raise CommandError("There is no public voice {voice_id!r}.", voice_id=voice_id)
    if parts.space.low:
        raise CommandError("The disk has less free space than MYNA_DISK_RESERVE_BYTES.")
    audio, path = parts.audio.new()
    text = sample_of(found.voice.language)
    await channel_trial.listen(parts.channels, parts.config.current, voice_id, text, path)
    await parts.audio.keep(audio)
    return visit.result(PATH, await show(visit, Heard(voice_id, audio)))


def sample_of(language: str) -> str:
    """A sentence in a voice's language, such as `zh-CN`; in English where there is none."""
    return next((text for begin, text in SAMPLES.items() if language.startswith(begin)), SAMPLE)


async def move(visit: Visit) -> Response:
    """Moves a voice up or down by one place, or to the first, which is the default."""
    voice_id, to = visit.typed("voice_id"), visit.typed("to")
    voices = await _list(visit)
    ids = [one.voice.voice_id for one in voices]
    if voice_id not in ids:
        raise CommandError("There is no public voice {voice_id!r}.", voice_id=voice_id)
    before = ids.index(voice_id)
    place = {"first": 0, "down": min(before + 1, len(ids) - 1)}.get(to, max(0, before - 1))
    ids.insert(place, ids.pop(before))
    # Only those that need a place get one: the others stay in the order of their channels.
    placed = sum(1 for one in voices if one.override.place)
    await visit.perform(OrderVoices(voice_ids=tuple(ids[: max(placed, place + 1, before + 1)])))
    return visit.redirect(f"{PATH}#{voice_id}")


async def rename(visit: Visit) -> Response:
    """Gives the voice another name; an empty one restores its own."""
    return await _changed(visit, visit.fields(RenameVoice, name=visit.typed("name")))


async def hide(visit: Visit) -> Response:
    """Takes the voice off the list; requests for it are refused."""
    return await _changed(visit, visit.fields(HideVoice))


async def show_again(visit: Visit) -> Response:
    """Lists the voice again."""
    return await _changed(visit, visit.fields(ShowVoice))


async def _changed(visit: Visit, action: RenameVoice | HideVoice | ShowVoice) -> Response:
    await visit.perform(action)
    return visit.redirect(f"{PATH}#{action.voice_id}")


async def blend(visit: Visit) -> Response:
    """Mixes a voice from others."""
    row = await visit.perform(visit.fields(BlendVoice))
    await visit.parts.config.refresh()
    notice = visit.text("{name} is mixed.").format(name=row.voice_id)
    return visit.redirect(f"{PATH}#{row.voice_id}", notice)


async def delete_blend(visit: Visit) -> Response:
    """Deletes a blend."""
    action = visit.fields(DeleteVoice)
    await visit.perform(action)
    await visit.parts.config.refresh()
    return visit.redirect(PATH, visit.text("{name} is removed.").format(name=action.voice_id))


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
