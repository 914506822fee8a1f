"""Blends: public voices that the operator mixes from the voices of an engine, such as Kokoro's.

A blend is a voice of every speech channel whose engine can blend and has all of its parts. Compute nodes do
not speak blends. Names, order and hiding of a blend are those of any public voice: see `voice_overrides.py`.
"""

import msgspec

from myna import activity
from myna.activity import Actor
from myna.channels import Channels, SpeechChannel
from myna.engines.blend import BlendPart, parts_of
from myna.engines.interface import EngineVoice
from myna.errors import CommandError
from myna.store.database import Database, Transaction
from myna.store.queries import config as config_store
from myna.store.queries import voices as store
from myna.store.queries.config import BlendRow, Config
from myna.voice_overrides import check_name
from myna.wire.farm import CLONE_PREFIX, VoiceId

BLENDS_MAX = 100


async def blend(
    db: Database, channels: Channels, voice_id: str, recipe: str, name: str, *, by: Actor
) -> BlendRow:
    """Stores a blend, in place of an earlier one of this id. Without `name` it has the names of its parts.
    An equal blend changes nothing. Raises CommandError."""
    if name:
        check_name(name)
    _check_id(voice_id)
    try:
        parts = parts_of(recipe)
    except ValueError as error:
        raise CommandError("The recipe {recipe!r}: {error}.", recipe=recipe, error=error) from None
    config = await config_store.load(db)
    speaking = channels.speech(config)
    _check_unused(voice_id, speaking, config)
    voices = _voices_of(parts, speaking)
    row = BlendRow(
        voice_id=voice_id,
        name=name or " + ".join(voice.name for voice in voices),
        gender=voices[0].gender,
        language=voices[0].language,
        recipe=recipe,
    )

    async def work(connection: Transaction) -> None:
        if not await store.blend(connection, row):
            return
        if await store.count_blends(connection) > BLENDS_MAX:
            raise CommandError(
                "There are {blends_max} blends, the maximum; delete one first.", blends_max=BLENDS_MAX
            )
        command = activity.words("voice", "blend", voice_id, recipe, name=name or None)
        await activity.record(connection, by, command)

    await db.transaction(work)
    return row


async def delete(db: Database, voice_id: str, *, by: Actor) -> None:
    """Deletes a blend. Raises CommandError if there is none of this id."""

    async def work(connection: Transaction) -> None:
        if not await store.delete_blend(connection, voice_id):
            raise CommandError("There is no blend or cloned voice {voice_id!r}.", voice_id=voice_id)
        await activity.record(connection, by, activity.words("voice", "delete", voice_id))

    await db.transaction(work)


def _check_id(voice_id: str) -> None:
    try:
        msgspec.convert(voice_id, VoiceId)
    except msgspec.ValidationError:
        raise CommandError(
            "The id of a voice has 1 to 100 letters, digits, dots, hyphens and underscores,"
            " begins with a letter or digit, and not with {clone_prefix}; it is {voice_id!r}.",
            clone_prefix=CLONE_PREFIX,
            voice_id=voice_id,
        ) from None


def _check_unused(voice_id: str, speaking: list[SpeechChannel], config: Config) -> None:
    for channel in speaking:
        if any(voice.voice_id == voice_id for voice in channel.voices) and voice_id not in channel.recipes:
            raise CommandError(
                "The channel {name!r} has a voice {voice_id!r}; choose another id.",
                name=channel.name,
                voice_id=voice_id,
            )
    if any(row.voice_id == voice_id for row in config.node_voices):
        raise CommandError("A compute node has a voice {voice_id!r}; choose another id.", voice_id=voice_id)


def _voices_of(parts: tuple[BlendPart, ...], speaking: list[SpeechChannel]) -> list[EngineVoice]:
    """The parts as voices of the first channel that can blend and has them."""
    blending = [channel for channel in speaking if channel.engine.blends]
    if not blending:
        raise CommandError(
            "No speech channel can blend voices: only the neural voice can, see 'myna models get kokoro'."
        )
    for channel in blending:
        own = {voice.voice_id: voice for voice in channel.engine.voices}
        if all(part.voice_id in own for part in parts):
            return [own[part.voice_id] for part in parts]
    own_ids = {voice.voice_id for voice in blending[0].engine.voices}
    missing = next(part.voice_id for part in parts if part.voice_id not in own_ids)
    raise CommandError(
        "The channel {name!r} has no voice {missing!r}; see 'myna voice list'.",
        name=blending[0].name,
        missing=missing,
    )
