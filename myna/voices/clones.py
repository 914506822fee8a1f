"""Cloned voices of an account, each made from a sample by a compute node, with recorded consent.

queued ──► cloning ──► ready        a node cloned the voice and spoke a preview
              └──────► failed       `reason` says why; it can only be deleted

Cloning is free and is not a call. The sample is private to the service and to the node that clones or speaks
the voice. The preview is audio like any other, public by its address.
"""

import asyncio
import re
import secrets
import unicodedata
from pathlib import Path

from msgspec import Struct

from myna.accounts import activity
from myna.accounts.activity import Actor
from myna.config import MIB, settings_of
from myna.engines.interface import EngineFailed, EngineVoice, SampleRefused
from myna.engines.media.job import Measured
from myna.engines.media.media import Inspector
from myna.errors import CommandError
from myna.lib.names import is_name
from myna.store.database import Database, Queries, Transaction
from myna.store.files.audio import AudioStore
from myna.store.files.samples import SampleStore
from myna.store.files.storage import StorageUnavailable
from myna.store.queries import clones as store
from myna.store.queries import config as config_store
from myna.store.queries import storage, voices
from myna.store.queries.accounts import AccountRow
from myna.store.queries.clones import CloneRow, Deleted, NewClone, OwnedClone
from myna.wire.farm import CLONE_PREFIX

CLONES_MAX = 100
"""Voices of one account, including failed ones."""
NAME_MAX_CHARS = 100
TRANSCRIPT_MAX_CHARS = 1000
CONSENT_BY_MAX_CHARS = 200
CONSENT = (
    "The voice in this sample is my own, or the person whose voice it is has agreed that it is cloned and"
    " that this account has speech made in it."
)
CONSENTS = {
    "en": CONSENT,
    "zh": "我声明：此录音中的声音是我本人的声音，或声音本人已同意复刻其声音，并同意由本账户用它合成语音。",
}
"""Stored with every cloned voice, in the language in which it was agreed to."""
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
    "hi": "नमस्ते, यह मेरी आवाज़ है। आज मौसम बहुत अच्छा है, चलिए पार्क में टहलने चलते हैं।",
    "ru": "Здравствуйте, это мой голос. Сегодня хорошая погода, пойдёмте гулять в парк.",
}
"""The text of a preview, by language."""
_PAGE = 500
_ID = re.compile(rf"{CLONE_PREFIX}[0-9a-f]{{32}}")
_LANGUAGE = re.compile(r"[a-z]{2,3}")


class CloneRequest(Struct, frozen=True):
    """A voice to clone: its name, the language of the sample (zh, en, …), the transcript of the sample, and
    the name of the person who agreed to `consent_text`, or "". `sample` is a recording in any common format;
    `sample_name` is its name for the activity, by default its path."""

    name: str
    language: str
    transcript: str
    sample: Path
    consent_by: str
    sample_name: str = ""
    consent_text: str = CONSENT


def is_clone(voice_id: str) -> bool:
    """Whether this is the id of a cloned voice, existing or deleted."""
    return _ID.fullmatch(voice_id) is not None


def preview_text(language: str) -> str:
    """The text of a preview in this language, else in English."""
    return PREVIEW.get(language, PREVIEW["en"])


def voice_of(clone: CloneRow) -> EngineVoice:
    """The catalogue's entry of a clone. Its gender is unknown, so it is neutral."""
    return EngineVoice(voice_id=clone.voice_id, name=clone.name, gender="neutral", language=clone.language)


async def clone(
    db: Database,
    samples: SampleStore,
    inspector: Inspector,
    account: AccountRow,
    request: CloneRequest,
    *,
    by: Actor,
) -> CloneRow:
    """Checks and stores the sample and queues the voice for a node. Raises CommandError; then nothing is
    stored.

    If the COMMIT is in doubt, the sample stays, and `remove_orphans` deletes it if no voice has it.
    """
    transcript = _checked(request)
    if await store.count(db, account.id) >= CLONES_MAX:
        raise _too_many(account)
    name, path = await asyncio.to_thread(samples.new)
    try:
        sample = await _checked_sample(inspector, request.sample, path, account.id)
        await asyncio.to_thread(samples.make_private, name)
        await samples.keep(name)
        new = _new(account, request, transcript, name, sample, by)
        return await _queue(db, account, new, request, by)
    except (CommandError, StorageUnavailable):
        await samples.discard(name)
        raise


async def delete(
    db: Database,
    samples: SampleStore,
    audio: AudioStore,
    voice_id: str,
    *,
    by: Actor,
    account_id: int | None = None,
) -> Deleted:
    """Deletes a voice, of `account_id` if given, its sample and its preview. Its queued tasks fail and are
    refunded.

    The preview is deleted first, since it is public; the sample last, since the voice needs it until it is
    deleted. Raises CommandError if there is no such voice.
    """
    found = await store.by_voice_id(db, voice_id)
    if found is None or account_id not in (None, found.account_id):
        raise CommandError("There is no cloned voice {voice_id!r}.", voice_id=voice_id)
    if found.preview:
        await asyncio.to_thread(audio.delete, found.preview)

    async def work(connection: Transaction) -> Deleted:
        deleted = await store.delete(connection, voice_id)
        if deleted is None:
            raise CommandError("There is no cloned voice {voice_id!r}.", voice_id=voice_id)
        command = activity.words("voice", "delete", voice_id)
        await activity.record(connection, by, command, deleted.account_id)
        return deleted

    deleted = await db.transaction(work)
    if deleted.preview:  # a node may have completed it in between
        await asyncio.to_thread(audio.delete, deleted.preview)
    if deleted.sample:
        await asyncio.to_thread(samples.delete, deleted.sample)
    return deleted


async def list_all(db: Queries) -> list[OwnedClone]:
    """The cloned voices of all accounts, oldest first."""
    found: list[OwnedClone] = []
    while page := await store.page(db, found[-1].clone.id if found else 0, _PAGE):
        found += page
    return found


async def cloning_nodes(db: Queries) -> dict[str, list[str]]:
    """The names of the enabled nodes, by the languages in which they clone."""
    config = await config_store.load(db)
    names = await voices.node_names(db)
    nodes: dict[str, list[str]] = {}
    for row in config.node_clones:
        if row.node_id in names:  # else it was removed in between
            nodes.setdefault(row.language, []).append(names[row.node_id])
    return nodes


async def remove_orphans(db: Queries, samples: SampleStore, before: float) -> int:
    """Deletes samples written before `before` (Unix seconds) that no voice has: a process that dies during
    `clone` or `delete` leaves one. Returns how many."""
    old = await asyncio.to_thread(lambda: list(samples.modified_between(0, before)))
    if not old:
        return 0
    in_use = await store.samples_in_use(db)
    orphans = [name for name in old if name not in in_use]
    await asyncio.to_thread(samples.each, samples.delete, orphans)
    return len(orphans)


def _checked(request: CloneRequest) -> str:
    """Validates the request and returns the transcript in one line. Raises CommandError."""
    if not request.consent_by:
        raise CommandError(
            "A voice is cloned only with the consent of the person whose voice it is. To"
            " declare it, add --consent; this declaration is recorded: {consent!r}",
            consent=CONSENT,
        )
    _check_line("The voice's name", request.name, NAME_MAX_CHARS)
    _check_line("The name of the person who consents", request.consent_by, CONSENT_BY_MAX_CHARS)
    if not _LANGUAGE.fullmatch(request.language):
        raise CommandError(
            "The language must be its code alone, such as zh, yue or en; it is {language!r}.",
            language=request.language,
        )
    transcript = " ".join(request.transcript.split())
    if not any(unicodedata.category(char)[0] in "LN" for char in transcript):
        raise CommandError("The transcript must be what is said in the sample; it has no letter or digit.")
    if len(transcript) > TRANSCRIPT_MAX_CHARS:
        raise CommandError(
            "The transcript may have {chars_max} characters; it has {chars}.",
            chars_max=TRANSCRIPT_MAX_CHARS,
            chars=len(transcript),
        )
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in transcript):
        raise CommandError("The transcript contains a control character.")
    return transcript


def _check_line(what: str, text: str, chars_max: int) -> None:
    if not is_name(text, chars_max):
        raise CommandError(
            "{what} must be 1 to {chars_max} printable characters.", what=what, chars_max=chars_max
        )


def _too_many(account: AccountRow) -> CommandError:
    return CommandError(
        "The account {name!r} has {clones_max} cloned voices, the maximum; delete one first.",
        name=account.name,
        clones_max=CLONES_MAX,
    )


async def _checked_sample(inspector: Inspector, source: Path, target: Path, account_id: int) -> Measured:
    """Decodes the recording, checks it and writes it to `target`. Raises CommandError."""
    try:
        return await inspector.sample(source, target, account_id)
    except SampleRefused as refusal:
        raise CommandError(str(refusal)) from None
    except EngineFailed as failure:
        raise CommandError("The sample could not be checked: {failure}", failure=failure) from None


def _new(
    account: AccountRow, request: CloneRequest, transcript: str, name: str, sample: Measured, by: Actor
) -> NewClone:
    given = "in the back office by" if by.account_id else "to the command line of"
    return NewClone(
        voice_id=CLONE_PREFIX + secrets.token_hex(16),
        account_id=account.id,
        name=request.name,
        language=request.language,
        transcript=transcript,
        sample=name,
        sample_bytes=sample.size_bytes,
        sample_sha256=sample.sha256,
        sample_ms=round(sample.seconds * 1000),
        consent_by=f"{request.consent_by} (given {given} {by.name})",
        consent_text=request.consent_text,
    )


async def _queue(
    db: Database, account: AccountRow, new: NewClone, request: CloneRequest, by: Actor
) -> CloneRow:
    command = activity.words(
        *("voice", "clone", account.name),
        name=request.name,
        language=request.language,
        sample=request.sample_name or str(request.sample),
        transcript=new.transcript,
        consent=True,
        consent_by=request.consent_by,
    )
    mib_max = settings_of(await config_store.load(db)).account_storage_mib

    async def work(connection: Transaction) -> CloneRow | None:
        if not await store.add(connection, new, CLONES_MAX):
            return None
        if mib_max and await storage.of_account(connection, account.id) > mib_max * MIB:
            raise CommandError(
                "The account {name!r} may store {mib_max} MiB of audio and samples"
                " (account_storage_mib), and this sample would exceed that. Delete some of its"
                " voices, keep audio for fewer days (audio_keep_days), or raise the quota.",
                name=account.name,
                mib_max=mib_max,
            )
        await activity.record(connection, by, command, account.id)
        return await store.by_voice_id(connection, new.voice_id)

    added = await db.transaction(work)
    if added is None:
        raise _too_many(account)
    return added
