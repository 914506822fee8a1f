"""The public voices: their order, names, whether they are listed, and blends. And the neural models: which
are installed and can be fetched, with the progress of a fetch.
"""

import asyncio

from starlette.responses import Response

from myna.actions.media import DeleteVoice
from myna.actions.site import GetModel, RemoveModel
from myna.actions.voices import BlendVoice, HideVoice, OrderVoices, RenameVoice, ShowVoice
from myna.engines.registry import AUTO
from myna.engines.voices import EXAMPLE, sample_text
from myna.errors import CommandError
from myna.gateway import trial as channel_trial
from myna.office.page import Page, Values, live_pages, performs
from myna.office.render import N_
from myna.office.visit import Visit
from myna.voices import overrides as voice_overrides
from myna.voices.overrides import PublicVoice

PATH = "/site/voices"
ONE = f"{PATH}#{{voice_id}}"
SPEAKERS = (N_("channel"), N_("node"))
"""The kinds of a voice's sources, which are named after their kind."""


async def show(visit: Visit, spoken: str = "", audio: str = "") -> Response:
    """All public voices in their order, hidden ones included; the `spoken` one with the name of its audio."""
    voices, config = await _list(visit), await visit.config()
    by_channels = {
        voice.voice_id for channel in visit.parts.channels.speech(config) for voice in channel.voices
    }
    return visit.page(
        "site/voices.html",
        voices=voices,
        sources={one.voice.voice_id: [_said(visit, source) for source in one.sources] for one in voices},
        by_channels=by_channels,
        example=EXAMPLE,
        spoken=spoken,
        audio=audio,
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
    text = sample_text(found.voice.language)
    await channel_trial.listen(parts.channels, parts.config.current, voice_id, text, path)
    await parts.audio.keep(audio)
    return visit.result(PATH, await show(visit, voice_id, audio))


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
    action = visit.fields(RenameVoice, name=visit.typed("name"))
    await visit.perform(action)
    return visit.redirect(ONE.format(voice_id=action.voice_id))


async def blend(visit: Visit) -> Response:
    """Mixes a voice from others."""
    row = await visit.perform(visit.fields(BlendVoice))
    return visit.redirect(f"{PATH}#{row.voice_id}", "{name} is mixed.", name=row.voice_id)


async def delete_blend(visit: Visit) -> Response:
    """Deletes a blend."""
    action = visit.fields(DeleteVoice)
    await visit.perform(action)
    return visit.redirect(PATH, "{name} is removed.", name=action.voice_id)


MODELS_PATH = "/site/models"
WORDS = (N_("Apache-2.0; its export to ONNX: MIT"), N_("and others"))
"""Of the licences and languages of the models."""


async def _models(visit: Visit) -> Values:
    """All published models."""
    channels = visit.parts.channels.speech(visit.parts.config.current)
    return {
        "states": await asyncio.to_thread(visit.parts.models.states),
        "speaking": {channel.name.removeprefix("default-") for channel in channels},
        "speech": visit.parts.settings.speech,
        "automatic": visit.parts.settings.speech == AUTO,
    }


async def get_model(visit: Visit) -> Response:
    """Starts the command that fetches a model."""
    action = visit.fields(GetModel)
    await visit.claim()
    await asyncio.to_thread(visit.parts.models.start, action.name)
    await visit.perform(action)
    return visit.redirect(MODELS_PATH)


async def remove_model(visit: Visit) -> Response:
    """Removes a model."""
    action = visit.fields(RemoveModel)
    visit.confirm(action.name)
    await visit.claim()
    await asyncio.to_thread(visit.parts.models.remove, action.name)
    await visit.perform(action)
    return visit.redirect(MODELS_PATH, "{name} is removed.", name=action.name)


PAGES = [
    Page(PATH, show=show),
    Page(f"{PATH}/listen", submit=listen),
    Page(f"{PATH}/move", submit=move),
    Page(f"{PATH}/rename", submit=rename),
    Page(f"{PATH}/hide", submit=performs(HideVoice, ONE)),
    Page(f"{PATH}/show", submit=performs(ShowVoice, ONE)),
    Page(f"{PATH}/blend", submit=blend),
    Page(f"{PATH}/blend/delete", submit=delete_blend),
    *live_pages(MODELS_PATH, "site/models.html", _models),
    Page(f"{MODELS_PATH}/get", submit=get_model, recent=True),
    Page(f"{MODELS_PATH}/remove", submit=remove_model, recent=True),
]
