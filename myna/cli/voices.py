"""myna voice list|hide|show|rename|order|blend|clone|delete|read, myna voice word add|list|remove, and
myna record list|delete"""

import asyncio
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from msgspec import structs

from myna.accounts import accounts
from myna.actions import Action, R
from myna.actions.media import CloneVoice, DeleteRecords, DeleteVoice
from myna.actions.voices import (
    AddWord,
    BlendVoice,
    HideVoice,
    OrderVoices,
    RemoveWord,
    RenameVoice,
    ShowVoice,
)
from myna.cli.channels import site_channels
from myna.cli.commands import perform, register
from myna.cli.console import (
    Json,
    Row,
    listing,
    owner_of_files,
    read_settings,
    seconds,
    show,
    site_storage,
    with_database,
)
from myna.cli.history import Id, Limit
from myna.engines.how_read import VOICES, readings
from myna.engines.interface import EngineFailed
from myna.engines.media.media import Inspector
from myna.errors import CommandError, ConfigError
from myna.farm.nodes import Nodes, NodeState
from myna.lib.sandbox import AllowedPaths
from myna.store.batch import TaskStatus
from myna.store.database import Database, Queries
from myna.store.files.named_files import SampleStore
from myna.store.files.storage import least_free_bytes
from myna.store.queries import clones as clones_store
from myna.store.queries import tasks, voices
from myna.store.queries.clones import OwnedClone
from myna.store.queries.voices import SITE, WordRow
from myna.store.states import CloneStatus
from myna.voices import clones, lexicon
from myna.voices import overrides as voice_overrides
from myna.voices.overrides import PublicVoice

app = App(name="voice", help="Public voices, and voices cloned by accounts.")
word_app = App(name="word", help="How words are read, for the site or for one account.")
app.command(word_app)


@app.command(name="list")
@listing(
    empty="There is no voice: no speech engine is enabled.",
    brief=("voice_id", "name", "language", "source", "status", "by"),
)
async def list_voices(
    db: Database,
    *,
    account: Annotated[str, Parameter(help="List the cloned voices of this account only.")] = "",
) -> list[Row]:
    """List public voices with their engines, and cloned voices; --account for those of one account."""
    if account:
        owner = await accounts.find(db, account)
        cloned = await clones_store.owned_by(db, owner.id)
    else:
        cloned = await clones.list_all(db)
    nodes = await clones.cloning_nodes(db)
    async with site_channels() as channels:
        public = [_public(offer) for offer in await voice_overrides.list_public(db, channels)]
    return public + [_cloned(owned, nodes.get(owned.clone.language, [])) for owned in cloned]


async def _clone(db: Database, action: CloneVoice) -> Row:
    action.check()
    sample, owner_of_file = Path(action.sample), owner_of_files(read_settings())
    _check_readable(sample)
    _check_space()
    owner, note = await accounts.find(db, action.account), await _note(db, action.language)
    samples = SampleStore(await site_storage(db), owner_of_file)
    inspector = Inspector(files=AllowedPaths.of(reads=(sample,), writes=(samples.folder,)))
    try:
        async with clones.stored_sample(samples, inspector, sample, owner.id) as stored:
            row = await perform(db, structs.replace(action, stored=stored))
    finally:
        await inspector.close()
    return {
        "voice_id": row.voice_id,
        "account": owner.name,
        "name": row.name,
        "language": row.language,
        "status": CloneStatus(row.status).name.lower(),
        "sample_s": round(row.sample_ms / 1000, 1),
        "consent_by": row.consent_by,
        "consent_at": seconds(row.consent_at),
        **({"note": note} if note else {}),
    }


async def _perform(db: Database, action: Action[R]) -> R:
    async with site_channels() as channels:
        return await perform(db, action, channels=channels)


register(app, HideVoice, lambda action, _: {"voice_id": action.voice_id, "hidden": True}, run=_perform)
register(app, ShowVoice, lambda action, _: {"voice_id": action.voice_id, "hidden": False}, run=_perform)
register(app, RenameVoice, lambda action, _: {"voice_id": action.voice_id, "name": action.name}, run=_perform)
register(app, OrderVoices, lambda action, _: {"voice_ids": list(action.voice_ids)}, run=_perform)
register(app, BlendVoice, lambda _, row: structs.asdict(row), run=_perform)
register(app, CloneVoice, run=_clone)
register(
    app,
    DeleteVoice,
    lambda action, found: {
        "voice_id": action.voice_id, "deleted": True, "tasks_refunded": found.refunded,
    },
)  # fmt: skip


async def _note(db: Database, language: str) -> str:
    """Why a voice of this language can't be cloned now; empty if a node can clone it."""
    if language not in await clones.cloning_nodes(db):
        return f"No compute node clones in {language!r} now; the voice waits for one."
    if any(node.state is NodeState.ONLINE and language in node.clones for node in await Nodes(db).list()):
        return ""
    return f"No compute node that clones in {language!r} is online; the voice waits until one is."


def _check_space() -> None:
    settings = read_settings()
    if least_free_bytes(settings.data_folder) < settings.disk_reserve_bytes:
        raise CommandError("The data folder's disk has less free space than MYNA_DISK_RESERVE_BYTES.")


def _check_readable(path: Path) -> None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe may block forever
            raise CommandError(f"{path} is not a regular file; name a recording.")
        with path.open("rb"):
            return
    except OSError as error:
        raise CommandError(f"{path} can't be read: {error.strerror}.") from None


def _public(offer: PublicVoice) -> Row:
    voice = offer.voice
    return {
        "voice_id": voice.voice_id,
        "name": voice.name,
        "gender": voice.gender,
        "language": voice.language,
        "source": "public",
        "recipe": offer.recipe,
        "by": list(offer.sources),
        "place": offer.override.place,
        "hidden": bool(offer.override.hidden),
        "account": "",
        "status": "",
        "reason": "",
    }


def _cloned(owned: OwnedClone, nodes: list[str]) -> Row:
    return {
        **structs.asdict(clones.voice_of(owned.clone)),
        "source": "clone",
        "recipe": "",
        "by": [f"node {name}" for name in nodes],
        "place": 0,
        "hidden": False,
        "account": owned.account,
        "status": CloneStatus(owned.clone.status).name.lower(),
        "reason": owned.clone.reason,
    }


@word_app.command(name="list")
@listing(empty="There is no word yet.")
async def list_words(
    db: Database,
    *,
    account: Annotated[
        str, Parameter(help="List the words of this account; default: those of the site.")
    ] = "",
) -> list[Row]:
    """List the words of the site, or of an account."""
    return [_word(row, account) for row in await voices.words(db, await _owner(db, account))]


async def _owner(db: Database, account: str) -> int:
    return (await accounts.find(db, account)).id if account else SITE


def _word(row: WordRow, account: str) -> Row:
    return {**structs.asdict(row), "created_at": seconds(row.created_at), "account": account}


register(word_app, AddWord, lambda action, row: _word(row, action.account))
register(
    word_app,
    RemoveWord,
    lambda action, _: {"word": action.word, "account": action.account, "removed": True},
)


@app.command
def read(
    text: Annotated[str | None, Parameter(help="The text to read.")] = None,
    /,
    *,
    voice: Annotated[
        str, Parameter(help="The id of a voice of Kokoro or espeak-ng; default: Kokoro's first one.")
    ] = next(iter(VOICES)),
    account: Annotated[str, Parameter(help="Read as in the texts of this account.")] = "",
    lines: Annotated[bool, Parameter(help="Read the texts from standard input, one a line.")] = False,
    json: Json = False,
) -> None:
    """Print what a voice will say, in words and in phonemes, without saying it."""
    if voice not in VOICES:
        raise CommandError(f"No voice of Kokoro or espeak-ng has the id {voice!r}.")
    if lines == (text is not None):
        raise ConfigError("Give a text, or --lines and the texts on standard input.")
    known = _words(account)
    texts = (lexicon.with_readings(one, known) for one in (_lines() if text is None else (text,)))
    try:
        asyncio.run(_print(texts, voice, json))
    except EngineFailed as failure:
        raise CommandError(f"The text can't be read: {failure}") from None


def _words(account: str) -> dict[str, str]:
    """The words of the site and of the account. Without one, a database is not needed."""

    async def work(db: Database) -> dict[str, str]:
        return await lexicon.stored(db, await _owner(db, account))

    try:
        return with_database(work, json=True)
    except CommandError:
        if account:
            raise
        return {}


def _lines() -> Iterator[str]:
    try:
        for line in sys.stdin:
            line.encode()  # by locale, bytes that are not UTF-8 arrive as surrogates
            yield line.rstrip("\r\n")
    except UnicodeError:
        raise CommandError("Standard input is not UTF-8.") from None


async def _print(texts: Iterable[str], voice: str, json: bool) -> None:
    async with aclosing(readings(texts, voice)) as found:
        async for reading in found:
            show(structs.asdict(reading), json)


records_app = App(name="record", help="Speech records of an account.")
RECORDS_LATEST = 2**53


@records_app.command(name="list")
@listing(
    empty="The account has no records.", brief=("id", "status", "created_at", "chars", "text"), snapshot=True
)
async def list_records(
    db: Queries,
    account: Annotated[str, Parameter(help="The name of the account.")],
    *,
    limit: Limit = 50,
    before: Annotated[Id, Parameter(help="List records older than this `id` of the list.")] = RECORDS_LATEST,
) -> list[Row]:
    """List the speech records of an account, newest first."""
    owner = await accounts.find(db, account)
    return [
        {
            "id": row.id,
            "status": TaskStatus(row.status).name.lower(),
            "created_at": seconds(row.created_at),
            "chars": row.chars,
            "audio": row.audio,
            "text": row.text,
        }
        for row in await tasks.page(db, owner.id, min(before, RECORDS_LATEST), limit)
    ]


register(records_app, DeleteRecords, lambda _, count: {"deleted": count})
