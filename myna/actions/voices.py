"""Changes of public voices: their names, order, whether they are listed, and blends; and of the lexicon: how
words are read, for the site or for one account.

A blend is a public voice that the operator mixes from the voices of an engine, such as Kokoro's. It is a
voice of every speech channel whose engine can blend and has all of its parts. Compute nodes speak none.
"""

from typing import Annotated, ClassVar

import msgspec
from msgspec import structs

from myna.actions import Action, Change, Field
from myna.channels.channels import SpeechChannel
from myna.engines.interface import EngineVoice
from myna.engines.voices import EXAMPLE, BlendPart, parts_of
from myna.errors import CommandError
from myna.lib.names import check_name
from myna.store.queries import config as config_store
from myna.store.queries import voices as store
from myna.store.queries.config import BlendRow, Config
from myna.store.queries.voices import SITE, WordRow
from myna.voices.lexicon import WORDS_MAX, checked_reading, checked_word
from myna.voices.overrides import NAME_MAX_CHARS, list_public
from myna.wire.farm import CLONE_PREFIX, VoiceId

BLENDS_MAX = 100
PublicVoice = Annotated[str, Field("The voice, by its id or name in `myna voice list`.", argument="VOICE")]


class _HideVoice(Action[None], frozen=True):
    hidden: ClassVar[bool]
    voice_id: PublicVoice

    async def run(self, change: Change) -> None:
        await change.compare_configuration()
        await store.override(change.db, await _known(change, self), hidden=int(self.hidden))


class HideVoice(_HideVoice, frozen=True):
    """Remove a public voice from the list; requests for it are refused."""

    command = "voice hide"
    hidden = True


class ShowVoice(_HideVoice, frozen=True):
    """Show a hidden voice again."""

    command = "voice show"
    hidden = False


class RenameVoice(Action[None], frozen=True):
    """Rename a public voice; "" restores its original name."""

    command = "voice rename"
    voice_id: PublicVoice
    name: Annotated[str, Field("Its new name.", argument="NAME")]

    def check_values(self) -> None:
        if self.name:
            check_name(self.name, NAME_MAX_CHARS)

    async def run(self, change: Change) -> None:
        await change.compare_configuration()
        await store.override(change.db, await _known(change, self), name=self.name)


class OrderVoices(Action[None], frozen=True):
    """List these public voices first, in this order; the first one is the default."""

    command = "voice order"
    voice_ids: Annotated[tuple[str, ...], Field("Public voices, by their ids or names.", argument="VOICE")]

    async def run(self, change: Change) -> None:
        await change.compare_configuration()
        ids = await _ids(change, self.voice_ids)
        if len(set(ids)) < len(ids):
            raise CommandError("A voice can have one place only; one is named twice.")
        change.performed = [structs.replace(self, voice_ids=ids)]
        await store.order(change.db, ids)


class BlendVoice(Action[BlendRow], frozen=True):
    """Mix a public voice from voices of the neural model, or change its recipe and name."""

    command = "voice blend"
    voice_id: Annotated[str, Field("The id of the new voice.", argument="ID")]
    recipe: Annotated[str, Field(f"Voices with their weights: {EXAMPLE}.", argument="RECIPE")]
    name: Annotated[str, Field("The name of the voice; default: the names of its parts.")] = ""

    def check_values(self) -> None:
        if self.name:
            check_name(self.name, NAME_MAX_CHARS)
        _check_id(self.voice_id)
        self._parts()

    def _parts(self) -> tuple[BlendPart, ...]:
        try:
            return parts_of(self.recipe)
        except ValueError as error:
            raise CommandError("The recipe {recipe!r}: {error}.", recipe=self.recipe, error=error) from None

    async def run(self, change: Change) -> BlendRow:
        await change.compare_configuration()
        config = await config_store.load(change.db)
        speaking = change.channels.speech(config)
        _check_unused(self.voice_id, speaking, config)
        voices = _voices_of(self._parts(), speaking)
        row = BlendRow(
            voice_id=self.voice_id,
            name=self.name or " + ".join(voice.name for voice in voices),
            gender=voices[0].gender,
            language=voices[0].language,
            recipe=self.recipe,
        )
        await store.blend(change.db, row)
        if await store.count_blends(change.db) > BLENDS_MAX:
            raise CommandError(
                "There are {blends_max} blends, the maximum; delete one first.", blends_max=BLENDS_MAX
            )
        return row


async def _known(change: Change, action: _HideVoice | RenameVoice) -> str:
    """The id of the action's voice, by which it is recorded. Raises CommandError."""
    (voice_id,) = await _ids(change, (action.voice_id,))
    change.performed = [structs.replace(action, voice_id=voice_id)]
    return voice_id


async def _ids(change: Change, named: tuple[str, ...]) -> tuple[str, ...]:
    """The ids of public voices, named by their ids or by names that they alone have. An override makes one
    known even if nothing speaks it. Raises CommandError."""
    public = [one.voice for one in await list_public(change.db, change.channels)]
    known = {*(await config_store.load(change.db)).overrides, *(voice.voice_id for voice in public)}
    found: list[str] = []
    for name in named:
        ids = [name] if name in known else [voice.voice_id for voice in public if voice.name == name]
        if not ids:
            raise CommandError("There is no public voice {voice_id!r}.", voice_id=name)
        if len(ids) > 1:
            raise CommandError(
                "There are several voices {name!r}; name one by its id: {ids}.", name=name, ids=", ".join(ids)
            )
        found += ids
    return tuple(found)


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


Word = Annotated[str, Field("The word as it is written in texts.", argument="WORD")]
Account = Annotated[str, Field("The account whose texts it is for; default: those of all.")]


class AddWord(Action[WordRow], frozen=True):
    """Set how a word is read."""

    command = "voice word add"
    word: Word
    reading: Annotated[str, Field("Pinyin (hang2zhang3), words (MY-nuh) or IPA.", argument="READING")]
    account: Account = ""

    def check_values(self) -> None:
        checked_reading(checked_word(self.word), self.reading)

    async def run(self, change: Change) -> WordRow:
        word = checked_word(self.word)
        reading, owner = checked_reading(word, self.reading), await _owner(change, self.account)
        await config_store.lock(change.db)  # and the lexicons with it
        await change.compare(store.readings, owner)
        if await store.put_word(change.db, owner, word, reading) > WORDS_MAX:
            raise CommandError(
                "There are {words_max} words, the maximum; remove one first.", words_max=WORDS_MAX
            )
        change.performed = [structs.replace(self, word=word, reading=reading)]
        return next(row for row in await store.words(change.db, owner) if row.word == word)


class RemoveWord(Action[None], frozen=True):
    """Remove a word."""

    command = "voice word remove"
    word: Word
    account: Account = ""

    async def run(self, change: Change) -> None:
        if not await store.delete_word(change.db, await _owner(change, self.account), self.word):
            raise CommandError("There is no word {word!r}.", word=self.word)


async def _owner(change: Change, account: str) -> int:
    """The account of the words, or that of those of the site, which operators change."""
    if account:
        return (await change.account(account)).id
    if change.owner_id is not None:
        raise CommandError("Only an operator changes the words of the site.")
    return SITE
