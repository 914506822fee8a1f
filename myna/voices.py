"""The catalogue: which voices there are, which can be used now, and what speaks them."""

from collections.abc import Iterable

from msgspec import Struct

from myna.channels import Channels, SpeechChannel
from myna.engines.spoken import Voice
from myna.errors import InvalidRequest, NoSpeechChannel
from myna.store.site import Config

NO_CHANNEL = "No speech channel is available now; nothing was charged, try again."


class Choice(Struct, frozen=True):
    """A voice and the channels that can speak it now, in the order in which to try them."""

    voice: Voice
    channels: tuple[SpeechChannel, ...]


def usable(channels: Channels, config: Config) -> list[Voice]:
    """What GET /voices lists: voices of channels that are up, in the operator's order, each once."""
    return _each_once(channel for channel in channels.speech(config) if channel.up)


def known(channels: Channels, config: Config) -> list[Voice]:
    """Voices of all channels that are switched on, up or not, each once."""
    return _each_once(channels.speech(config))


def need_a_channel(channels: Channels, config: Config) -> None:
    """Raises NoSpeechChannel where nothing at all can speak now."""
    if not usable(channels, config):
        raise NoSpeechChannel(NO_CHANNEL)


def choose(channels: Channels, config: Config, voice_id: str | None) -> Choice:
    """The voice of this id, or the first one. A voice nobody has is the caller's mistake; one that nobody
    can speak now is a 503."""
    speaking = channels.speech(config)
    if not voice_id:
        first = usable(channels, config)
        if not first:
            raise NoSpeechChannel(NO_CHANNEL)
        voice_id = first[0].voice_id
    having = [
        (channel, voice) for channel in speaking for voice in channel.voices if voice.voice_id == voice_id
    ]
    if not having:
        raise InvalidRequest("voice_id: there is no such voice; GET /voices lists those there are.")
    up = tuple(channel for channel, _ in having if channel.up)
    if not up:
        raise NoSpeechChannel(
            "This voice can't be spoken now; nothing was charged, take another or try again."
        )
    return Choice(having[0][1], up)


def _each_once(speaking: Iterable[SpeechChannel]) -> list[Voice]:
    voices: dict[str, Voice] = {}
    for channel in speaking:
        for voice in channel.voices:
            voices.setdefault(voice.voice_id, voice)
    return list(voices.values())
