"""The catalogue: the voices of an account, which of them are usable now, and what can speak them."""

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from myna.channels.channels import Channels, SpeechChannel
from myna.channels.routes import Route
from myna.engines.interface import EngineVoice
from myna.engines.voices import parts_of
from myna.errors import InvalidRequest, NoSpeechChannel
from myna.farm.nodes import NO_NODES, OnlineNodes
from myna.store.queries.clones import CloneRow
from myna.store.queries.config import Config
from myna.voices.clones import is_clone, voice_of
from myna.voices.overrides import overridden

NO_CHANNEL = "No speech channel is available now; nothing was charged, try again."
_RECIPE_MAX_CHARS = 600
NO_SUCH_VOICE = "there is no such voice; GET /voices lists the existing ones."
NO_SUCH_PART = "there is no voice {missing!r} for the recipe."
NOT_NOW = "This voice is unavailable now; nothing was charged, use another one or try again."


class VoiceChoice(Struct, frozen=True):
    """A voice, the channels that can speak it now, in the order to try them, and the online compute nodes
    that can."""

    voice: EngineVoice
    channels: tuple[SpeechChannel, ...]
    nodes: frozenset[int]


def usable(
    channels: Channels, config: Config, nodes: OnlineNodes = NO_NODES, route: Route | None = None
) -> list[EngineVoice]:
    """The public voices of GET /voices: those of available channels, of a route those that serve it, and of
    online nodes, without duplicates, with the operator's names and order."""
    up = [channel for channel in channels.speech(config, route) if channel.up]
    sources = [[channel.name for channel in up], nodes.keys()]
    known, key = channels.known(config), ("usable", route and route.channels)
    if key not in known or known[key][0] != sources:
        speaking = [voice for channel in up for voice in channel.voices]
        speaking += [voice for voice in config.node_voices if voice.node_id in nodes]
        public = [voice for voice in speaking if not is_clone(voice.voice_id)]
        known[key] = sources, overridden(_unique(public), config.overrides)
    return list(known[key][1])


def usable_clones(clones: Iterable[CloneRow], config: Config, nodes: OnlineNodes) -> list[EngineVoice]:
    """The cloned voices of GET /voices: ready clones of the account that an online node can speak."""
    return [voice_of(clone) for clone in clones if _cloning_nodes(clone, config, nodes)]


def require_channel(channels: Channels, config: Config, nodes: OnlineNodes = NO_NODES) -> None:
    """Raises NoSpeechChannel if no channel and no node can speak now."""
    cloning = any(row.node_id in nodes for row in config.node_clones)
    if not cloning and not usable(channels, config, nodes):
        raise NoSpeechChannel(NO_CHANNEL)


def needs_clones(channels: Channels, config: Config, nodes: OnlineNodes, voice_id: str | None) -> bool:
    """Whether `choose` needs the clones of the account."""
    return is_clone(voice_id) if voice_id else not usable(channels, config, nodes)


def choose(
    channels: Channels,
    config: Config,
    nodes: OnlineNodes,
    clones: Sequence[CloneRow],
    voice_id: str | None,
    route: Route | None = None,
    *,
    recipes: bool = False,
) -> VoiceChoice:
    """The voice of this id, or the first usable one, on the channels of the route if given. With `recipes`
    the id may be a recipe of listed voices.

    Raises InvalidRequest for an unknown voice or another account's clone, NoSpeechChannel if nothing can
    speak the voice now.
    """
    if not voice_id:
        first = usable(channels, config, nodes, route) or usable_clones(clones, config, nodes)
        if not first:
            raise NoSpeechChannel(NO_CHANNEL)
        voice_id = first[0].voice_id
    if is_clone(voice_id):  # never a public voice, even if a channel lists this id
        choice = _clone(config, nodes, clones, voice_id)
    else:
        choice = _public(channels, config, nodes, voice_id, route, recipes)
    if not choice.channels and not choice.nodes:
        raise NoSpeechChannel(NOT_NOW)
    return choice


def _public(
    channels: Channels, config: Config, nodes: OnlineNodes, voice_id: str, route: Route | None, recipes: bool
) -> VoiceChoice:
    """Raises InvalidRequest for a voice that no channel or node has, or that is hidden."""
    voices, up, able = [], [], set()
    for channel in channels.speech(config, route):
        for voice in channel.voices:
            if voice.voice_id == voice_id:
                voices.append(voice)
                up += [channel] * channel.up
    for row in config.node_voices:
        if row.voice_id == voice_id:
            voices.append(row)
            able.add(row.node_id)
    found = overridden(voices[:1], config.overrides)
    if not found and recipes and "+" in voice_id and len(voice_id) <= _RECIPE_MAX_CHARS:
        return _mixed(channels, config, voice_id, route)
    if not found:
        raise InvalidRequest(NO_SUCH_VOICE, field="voice_id")
    return VoiceChoice(found[0], tuple(up), frozenset(able & nodes.keys()))


def _mixed(channels: Channels, config: Config, recipe: str, route: Route | None) -> VoiceChoice:
    """The voice of a recipe, in the language of its largest part. Raises InvalidRequest if no channel can mix
    it from voices that are listed."""
    try:
        parts = parts_of(recipe)
    except ValueError as error:
        raise InvalidRequest(
            "the recipe {recipe!r}: {error}.", field="voice_id", recipe=recipe, error=error
        ) from None
    able = []
    missing: list[str] = []
    for channel in channels.speech(config, route):
        if not channel.engine.blends:
            continue
        listed = {voice.voice_id: voice for voice in overridden(channel.voices, config.overrides)}
        usable_parts = listed.keys() - channel.recipes.keys()
        lacking = [part.voice_id for part in parts if part.voice_id not in usable_parts]
        if not lacking:
            able.append((channel, listed[parts[0].voice_id]))
        missing = missing or lacking
    if not able and missing:
        raise InvalidRequest(NO_SUCH_PART, field="voice_id", missing=missing[0])
    if not able:
        raise InvalidRequest(NO_SUCH_VOICE, field="voice_id")
    voice = structs.replace(able[0][1], voice_id=recipe, name=recipe)
    return VoiceChoice(voice, tuple(channel for channel, _ in able if channel.up), frozenset())


def _clone(config: Config, nodes: OnlineNodes, clones: Sequence[CloneRow], voice_id: str) -> VoiceChoice:
    """Raises InvalidRequest for a clone that the account doesn't have."""
    for clone in clones:
        if clone.voice_id == voice_id:
            return VoiceChoice(voice_of(clone), (), _cloning_nodes(clone, config, nodes))
    raise InvalidRequest(NO_SUCH_VOICE, field="voice_id")


def _cloning_nodes(clone: CloneRow, config: Config, nodes: OnlineNodes) -> frozenset[int]:
    """The online nodes that can speak a clone of this language."""
    able = {row.node_id for row in config.node_clones if row.language == clone.language}
    return frozenset(able & nodes.keys())


def _unique(speaking: Iterable[EngineVoice]) -> list[EngineVoice]:
    voices: dict[str, EngineVoice] = {}
    for voice in speaking:
        voices.setdefault(voice.voice_id, voice)
    return list(voices.values())
