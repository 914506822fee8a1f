"""The operator's overrides of public voices: another name, a place in the list, hidden."""

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from myna.channels.channels import Channels
from myna.engines.interface import EngineVoice
from myna.store.database import Queries
from myna.store.queries import config as config_store
from myna.store.queries import voices as store
from myna.store.queries.config import Config, VoiceOverride

NAME_MAX_CHARS = 100
NO_OVERRIDE = VoiceOverride("", 0, 0)


class PublicVoice(Struct, frozen=True):
    """A public voice under its shown name, the channels and nodes that speak it, its override, and the recipe
    of a blend."""

    voice: EngineVoice
    sources: tuple[str, ...]
    override: VoiceOverride
    recipe: str = ""


def overridden(voices: Iterable[EngineVoice], overrides: Mapping[str, VoiceOverride]) -> list[EngineVoice]:
    """The voices that aren't hidden, with the operator's names: first those with a place, in its order, then
    the others in the order given."""
    if not overrides:  # the usual case, in every call of speech
        return list(voices)
    shown = [voice for voice in voices if not overrides.get(voice.voice_id, NO_OVERRIDE).hidden]
    shown.sort(key=lambda voice: _place(voice.voice_id, overrides))
    return [_named(voice, overrides) for voice in shown]


async def list_public(db: Queries, channels: Channels) -> list[PublicVoice]:
    """The voices of all enabled channels and nodes, hidden ones included, in the order of GET /voices; and
    the blends that nothing can speak now, without a source."""
    config = await config_store.load(db)
    nodes = await store.node_names(db)
    voices: dict[str, EngineVoice] = {}
    sources: dict[str, list[str]] = {}
    for voice, source in _speaking(channels, config, nodes):
        voices.setdefault(voice.voice_id, _named(voice, config.overrides))
        sources.setdefault(voice.voice_id, []).append(source)
    for row in config.blends:
        voices.setdefault(row.voice_id, _named(row, config.overrides))
    recipes = {row.voice_id: row.recipe for row in config.blends}
    return [
        PublicVoice(
            voice=voices[voice_id],
            sources=tuple(sources.get(voice_id, ())),
            override=config.overrides.get(voice_id, NO_OVERRIDE),
            recipe=recipes.get(voice_id, ""),
        )
        for voice_id in sorted(voices, key=lambda voice_id: _place(voice_id, config.overrides))
    ]


def _speaking(
    channels: Channels, config: Config, nodes: Mapping[int, str]
) -> Iterable[tuple[EngineVoice, str]]:
    """Yields each voice with each channel or node that speaks it."""
    for channel in channels.speech(config):
        for voice in channel.voices:
            yield voice, f"channel {channel.name}"
    for row in config.node_voices:
        if row.node_id in nodes:  # else it was removed in between
            yield row, f"node {nodes[row.node_id]}"


def _named(voice: EngineVoice, overrides: Mapping[str, VoiceOverride]) -> EngineVoice:
    name = overrides.get(voice.voice_id, NO_OVERRIDE).name
    return structs.replace(voice, name=name) if name else voice


def _place(voice_id: str, overrides: Mapping[str, VoiceOverride]) -> float:
    return overrides.get(voice_id, NO_OVERRIDE).place or math.inf
