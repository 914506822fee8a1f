"""What the operator makes of the public voices: another name, a place in the list, or out of sight."""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from msgspec import Struct, structs

from myna.channels import Channels
from myna.engines.spoken import Voice
from myna.errors import CommandError
from myna.store import site
from myna.store import voices as store
from myna.store.database import Connection, Database, Reader
from myna.store.site import Config, VoiceMark

NAME_MAX_CHARS = 100
UNMARKED = VoiceMark("", 0, 0)


class Offered(Struct, frozen=True):
    """A public voice as the operator sees it: under the name it is shown by, who speaks it, and its mark."""

    voice: Voice
    by: tuple[str, ...]
    mark: VoiceMark


def marked(voices: Iterable[Voice], marks: Mapping[str, VoiceMark]) -> list[Voice]:
    """The voices that are not hidden, under the operator's names: first those that have a place, by it, then
    the others as they came."""
    shown = [voice for voice in voices if not marks.get(voice.voice_id, UNMARKED).hidden]
    return [_named(voice, marks) for voice in sorted(shown, key=lambda voice: _place(voice.voice_id, marks))]


async def offered(db: Reader, channels: Channels) -> list[Offered]:
    """The voices of all channels that are switched on and of all nodes that may work, the hidden ones too,
    in the order of the list."""
    config = await site.load(db)
    nodes = await store.node_names(db)
    voices: dict[str, Voice] = {}
    by: dict[str, list[str]] = {}
    for voice, who in _speaking(channels, config, nodes):
        voices.setdefault(voice.voice_id, _named(voice, config.marks))
        by.setdefault(voice.voice_id, []).append(who)
    return [
        Offered(voices[voice_id], tuple(by[voice_id]), config.marks.get(voice_id, UNMARKED))
        for voice_id in sorted(voices, key=lambda voice_id: _place(voice_id, config.marks))
    ]


async def hide(db: Database, channels: Channels, voice_id: str, hidden: bool) -> None:
    """Takes a voice out of sight, so that it can't be asked for either, or brings it back. Raises
    CommandError."""
    await _change(db, channels, [voice_id], lambda connection: store.hide(connection, voice_id, hidden))


async def rename(db: Database, channels: Channels, voice_id: str, name: str) -> None:
    """Gives a voice another name, or its own again where `name` is empty. Raises CommandError."""
    if name and (not name.strip() or len(name) > NAME_MAX_CHARS or not name.isprintable()):
        raise CommandError(f"A voice's name has 1 to {NAME_MAX_CHARS} printable characters.")
    await _change(db, channels, [voice_id], lambda connection: store.rename(connection, voice_id, name))


async def order(db: Database, channels: Channels, voice_ids: Sequence[str]) -> None:
    """Puts these voices first, in this order; all others come behind in their own. Raises CommandError."""
    if len(set(voice_ids)) < len(voice_ids):
        raise CommandError("A voice can have one place only; one is named twice.")
    await _change(db, channels, voice_ids, lambda connection: store.order(connection, voice_ids))


async def _change(
    db: Database, channels: Channels, voice_ids: Sequence[str], work: Callable[[Connection], Awaitable[None]]
) -> None:
    """A voice that is marked but that nobody speaks now may be changed: it may come back."""
    known = {offer.voice.voice_id for offer in await offered(db, channels)} | (
        await site.load(db)
    ).marks.keys()
    for voice_id in voice_ids:
        if voice_id not in known:
            raise CommandError(f"There is no public voice {voice_id!r}.")
    await db.transaction(work)


def _speaking(channels: Channels, config: Config, nodes: Mapping[int, str]) -> Iterable[tuple[Voice, str]]:
    """Each voice with each who speaks it."""
    for channel in channels.speech(config):
        for voice in channel.voices:
            yield voice, f"channel {channel.name}"
    for row in config.node_voices:
        if row.node_id in nodes:  # else it was removed in this moment
            voice = Voice(row.voice_id, row.name, row.gender, row.language)
            yield voice, f"node {nodes[row.node_id]}"


def _named(voice: Voice, marks: Mapping[str, VoiceMark]) -> Voice:
    name = marks.get(voice.voice_id, UNMARKED).name
    return structs.replace(voice, name=name) if name else voice


def _place(voice_id: str, marks: Mapping[str, VoiceMark]) -> float:
    return marks.get(voice_id, UNMARKED).place or math.inf
