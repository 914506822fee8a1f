"""The catalogue: which voices there are for whom, which can be used now, and who speaks them."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from myna.channels import Channels, SpeechChannel
from myna.clones import is_clone, voice_of
from myna.engines.spoken import Voice
from myna.errors import InvalidRequest, NoSpeechChannel
from myna.marks import marked
from myna.outlook import NOBODY, Nodes
from myna.store.clones import CloneRow
from myna.store.site import Config

NO_CHANNEL = "No speech channel is available now; nothing was charged, try again."
NO_SUCH_VOICE = "voice_id: there is no such voice; GET /voices lists those there are."
NOT_NOW = "This voice can't be spoken now; nothing was charged, take another or try again."


class Choice(Struct, frozen=True):
    """A voice, the site's channels that can speak it now, in the order in which to try them, and the compute
    nodes online that can."""

    voice: Voice
    channels: tuple[SpeechChannel, ...]
    nodes: frozenset[int]


def usable(channels: Channels, config: Config, nodes: Nodes = NOBODY) -> list[Voice]:
    """The public part of GET /voices: voices of channels that are up and of nodes online, as the operator
    orders and names them, each once."""
    speaking = [voice for channel in channels.speech(config) if channel.up for voice in channel.voices]
    speaking += [voice for node_id, voice in _of_nodes(config) if node_id in nodes]
    public = [voice for voice in speaking if not is_clone(voice.voice_id)]
    return marked(_each_once(public), config.marks)


def usable_clones(clones: Iterable[CloneRow], config: Config, nodes: Nodes) -> list[Voice]:
    """The account's part of GET /voices: of its clones that are ready, those that a node online can speak."""
    return [voice_of(clone) for clone in clones if _cloning(clone, config, nodes)]


def need_a_channel(channels: Channels, config: Config, nodes: Nodes = NOBODY) -> None:
    """Raises NoSpeechChannel where nothing at all can speak now."""
    cloning = any(row.node_id in nodes for row in config.node_clones)
    if not cloning and not usable(channels, config, nodes):
        raise NoSpeechChannel(NO_CHANNEL)


def needs_clones(channels: Channels, config: Config, nodes: Nodes, voice_id: str | None) -> bool:
    """Whether a choice can't be made without knowing whose voices count."""
    return is_clone(voice_id) if voice_id else not usable(channels, config, nodes)


def choose(
    channels: Channels, config: Config, nodes: Nodes, clones: Sequence[CloneRow], voice_id: str | None
) -> Choice:
    """The voice of this id, or the first one. A voice nobody has is the caller's mistake, as is a clone of
    somebody else; one that nobody can speak now is a 503."""
    if not voice_id:
        first = usable(channels, config, nodes) or usable_clones(clones, config, nodes)
        if not first:
            raise NoSpeechChannel(NO_CHANNEL)
        voice_id = first[0].voice_id
    if is_clone(voice_id):  # never a public one, whoever says that it has it
        choice = _clone(config, nodes, clones, voice_id)
    else:
        choice = _public(channels, config, nodes, voice_id)
    if not choice.channels and not choice.nodes:
        raise NoSpeechChannel(NOT_NOW)
    return choice


def _public(channels: Channels, config: Config, nodes: Nodes, voice_id: str) -> Choice:
    """Raises InvalidRequest for a voice that neither a channel nor a node has, or that is hidden."""
    speaking = [
        (channel, voice)
        for channel in channels.speech(config)
        for voice in channel.voices
        if voice.voice_id == voice_id
    ]
    having = [(node_id, voice) for node_id, voice in _of_nodes(config) if voice.voice_id == voice_id]
    found = marked([voice for _, voice in [*speaking, *having]][:1], config.marks)
    if not found:
        raise InvalidRequest(NO_SUCH_VOICE)
    up = tuple(channel for channel, _ in speaking if channel.up)
    return Choice(found[0], up, frozenset(node_id for node_id, _ in having) & nodes.keys())


def _clone(config: Config, nodes: Nodes, clones: Sequence[CloneRow], voice_id: str) -> Choice:
    """Raises InvalidRequest for one that isn't among the account's."""
    for clone in clones:
        if clone.voice_id == voice_id:
            return Choice(voice_of(clone), (), _cloning(clone, config, nodes))
    raise InvalidRequest(NO_SUCH_VOICE)


def _cloning(clone: CloneRow, config: Config, nodes: Nodes) -> frozenset[int]:
    """The nodes online that clone in the voice's language."""
    able = {row.node_id for row in config.node_clones if row.language == clone.language}
    return frozenset(able & nodes.keys())


def _of_nodes(config: Config) -> Iterable[tuple[int, Voice]]:
    for row in config.node_voices:
        yield row.node_id, Voice(row.voice_id, row.name, row.gender, row.language)


def _each_once(speaking: Iterable[Voice]) -> list[Voice]:
    voices: dict[str, Voice] = {}
    for voice in speaking:
        voices.setdefault(voice.voice_id, voice)
    return list(voices.values())
