"""Cloned voices: an account's own, made of a sample by a compute node, with the consent they stand on.

queued ──► cloning ──► ready        a node has heard the sample and spoken a preview in the voice
              └──────► failed       and `reason` says why; it can only be deleted

Making one costs nothing and is no call. The sample is private to the service and to the node that clones or
speaks the voice; the preview is audio like any other, for whoever knows its address.
"""

import asyncio
import re
import secrets
import unicodedata
from pathlib import Path

from msgspec import Struct

from myna.engines.listener import Listener, Sample, SampleRefused
from myna.engines.spoken import EngineFailed, Voice
from myna.errors import CommandError
from myna.sound.durable import remove
from myna.store import clones as store
from myna.store import site, voices
from myna.store.accounts import AccountRow
from myna.store.audio import AudioStore
from myna.store.clones import CloneRow, Deleted, NewClone, OwnedClone
from myna.store.database import Connection, Database, Reader
from myna.store.samples import SampleStore
from myna.wire.farm import CLONE_PREFIX

CLONES_MAX = 100
"""Of one account, the failed ones included."""
NAME_MAX_CHARS = 100
TRANSCRIPT_MAX_CHARS = 1000
CONSENT_BY_MAX_CHARS = 200
CONSENT = (
    "The voice in this sample is my own, or the person whose voice it is has agreed that it is cloned and"
    " that this account has speech made in it."
)
"""What is recorded with every cloned voice, as it stood when it was agreed to."""
PREVIEW = {
    "zh": "你好，这是我的声音。今天天气不错，我们一起去公园散步吧。",
    "yue": "你好，呢把係我嘅聲。今日天氣幾好，我哋一齊去公園行下啦。",
    "en": "Hello, this is my voice. The weather is lovely today; let us take a walk in the park.",
    "ja": "こんにちは、これは私の声です。今日は天気がいいので、公園を散歩しましょう。",
    "ko": "안녕하세요, 이것은 제 목소리입니다. 오늘은 날씨가 좋으니 공원을 산책합시다.",
    "de": "Hallo, das ist meine Stimme. Heute ist schönes Wetter, gehen wir doch im Park spazieren.",
    "fr": "Bonjour, voici ma voix. Il fait beau aujourd'hui, allons nous promener au parc.",
    "es": "Hola, esta es mi voz. Hoy hace buen tiempo, vamos a pasear por el parque.",
    "pt": "Olá, esta é a minha voz. Hoje o tempo está bom, vamos passear no parque.",
    "it": "Ciao, questa è la mia voce. Oggi è una bella giornata, andiamo a passeggiare nel parco.",
    "ru": "Здравствуйте, это мой голос. Сегодня хорошая погода, пойдёмте гулять в парк.",
}
"""What a node says in a new voice, by language."""
_PAGE = 500
_ID = re.compile(rf"{CLONE_PREFIX}[0-9a-f]{{32}}")
_LANGUAGE = re.compile(r"[a-z]{2,3}")


class Wish(Struct, frozen=True):
    """A voice somebody wants: its name, the language spoken in the sample (zh, en, …), what is said in it,
    and who agreed to CONSENT; "" for nobody. `sample` is a file as people record them."""

    name: str
    language: str
    transcript: str
    sample: Path
    consent_by: str


def is_clone(voice_id: str) -> bool:
    """Whether this is the id of a cloned voice, present or past."""
    return _ID.fullmatch(voice_id) is not None


def preview_text(language: str) -> str:
    """What a node says in a new voice of this language; English where we have no sentence for it."""
    return PREVIEW.get(language, PREVIEW["en"])


def voice_of(clone: CloneRow) -> Voice:
    """The catalogue's view of it. Nobody says whether a cloned voice is a woman's or a man's."""
    return Voice(clone.voice_id, clone.name, "neutral", clone.language)


async def clone(
    db: Database, samples: SampleStore, listener: Listener, account: AccountRow, wish: Wish
) -> CloneRow:
    """Checks and keeps the sample and queues the voice for a node. Raises CommandError, and nothing is kept.

    Where the database goes away in the middle, whether the voice is there isn't known; the sample stays
    then, and `remove_orphans` takes it away if nothing names it.
    """
    transcript = _checked(wish)
    if await store.count(db, account.id) >= CLONES_MAX:
        raise _no_room(account)
    name, path = await asyncio.to_thread(samples.new)
    try:
        sample = await _listen(listener, wish.sample, path)
        await asyncio.to_thread(samples.seal, name)
        new = _new(account, wish, transcript, name, sample)
        return await _queue(db, account, new)
    except CommandError:
        await asyncio.to_thread(remove, path)
        raise


async def delete(db: Database, samples: SampleStore, audio: AudioStore, voice_id: str) -> Deleted:
    """Removes a voice, its sample and its preview for good; tasks that wait for it fail and are refunded.

    The preview goes first, since its address works for whoever has it; the sample goes last, since the voice
    needs it for as long as it is there. Raises CommandError if there is no such voice.
    """
    found = await store.by_voice_id(db, voice_id)
    if found and found.preview:
        await asyncio.to_thread(audio.delete, found.preview)

    async def work(connection: Connection) -> Deleted | None:
        return await store.delete(connection, voice_id)

    deleted = await db.transaction(work)
    if deleted is None:
        raise CommandError(f"There is no cloned voice {voice_id!r}.")
    if deleted.preview:  # also one that a node completed in this moment
        await asyncio.to_thread(audio.delete, deleted.preview)
    await asyncio.to_thread(samples.delete, deleted.sample)
    return deleted


async def everyone(db: Reader) -> list[OwnedClone]:
    """The cloned voices of all accounts, oldest first."""
    found: list[OwnedClone] = []
    while page := await store.page(db, found[-1].clone.id if found else 0, _PAGE):
        found += page
    return found


async def cloning_nodes(db: Reader) -> dict[str, list[str]]:
    """The names of the nodes that may work, by the languages they clone in."""
    config = await site.load(db)
    names = await voices.node_names(db)
    nodes: dict[str, list[str]] = {}
    for row in config.node_clones:
        if row.node_id in names:  # else it was removed in this moment
            nodes.setdefault(row.language, []).append(names[row.node_id])
    return nodes


async def remove_orphans(db: Reader, samples: SampleStore, before: float) -> int:
    """Removes samples that were written before this moment (Unix seconds) and that no voice names: a process
    that ends in the middle of `clone` or `delete` leaves one. How many."""
    old = await asyncio.to_thread(lambda: list(samples.older(before)))
    if not old:
        return 0
    in_use = await store.samples_in_use(db)
    orphans = [name for name in old if name not in in_use]
    for name in orphans:
        await asyncio.to_thread(samples.delete, name)
    return len(orphans)


def _checked(wish: Wish) -> str:
    """The transcript in one line. Raises CommandError and says what to change."""
    if not wish.consent_by:
        raise CommandError(
            "A voice is cloned only with the consent of the person it belongs to. To give it, or to say that"
            f" it was given to you, add --consent; this is recorded: {CONSENT!r}"
        )
    _check_line("The voice's name", wish.name, NAME_MAX_CHARS)
    _check_line("The name of who gives the consent", wish.consent_by, CONSENT_BY_MAX_CHARS)
    if not _LANGUAGE.fullmatch(wish.language):
        raise CommandError(
            f"The language must be its code alone, such as zh, yue or en; it is {wish.language!r}."
        )
    transcript = " ".join(wish.transcript.split())
    if not any(unicodedata.category(char)[0] in "LN" for char in transcript):
        raise CommandError("The transcript must be what is said in the sample; it holds no letter or digit.")
    if len(transcript) > TRANSCRIPT_MAX_CHARS:
        raise CommandError(
            f"The transcript may have {TRANSCRIPT_MAX_CHARS} characters; it has {len(transcript)}."
        )
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in transcript):
        raise CommandError("The transcript holds a control character.")
    return transcript


def _check_line(what: str, text: str, chars_max: int) -> None:
    if not text.strip() or len(text) > chars_max or not text.isprintable():
        raise CommandError(f"{what} must be 1 to {chars_max} printable characters.")


def _no_room(account: AccountRow) -> CommandError:
    return CommandError(
        f"The account {account.name!r} has {CLONES_MAX} cloned voices, as many as it may; delete one first."
    )


async def _listen(listener: Listener, source: Path, target: Path) -> Sample:
    try:
        return await listener.sample(source, target)
    except SampleRefused as refusal:
        raise CommandError(str(refusal)) from None
    except EngineFailed as failure:
        raise CommandError(f"The sample could not be checked: {failure}") from None


def _new(account: AccountRow, wish: Wish, transcript: str, name: str, sample: Sample) -> NewClone:
    return NewClone(
        voice_id=CLONE_PREFIX + secrets.token_hex(16),
        account_id=account.id,
        name=wish.name,
        language=wish.language,
        transcript=transcript,
        sample=name,
        sample_bytes=sample.size_bytes,
        sample_sha256=sample.sha256,
        sample_ms=round(sample.seconds * 1000),
        consent_by=wish.consent_by,
        consent_text=CONSENT,
    )


async def _queue(db: Database, account: AccountRow, new: NewClone) -> CloneRow:
    async def work(connection: Connection) -> CloneRow | None:
        if not await store.add(connection, new, CLONES_MAX):
            return None
        return await store.by_voice_id(connection, new.voice_id)

    added = await db.transaction(work)
    if added is None:
        raise _no_room(account)
    return added
