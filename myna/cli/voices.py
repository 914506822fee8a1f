"""myna voice list|hide|show|rename|order|blend|clone|delete|read|word"""

import contextlib
import dataclasses
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from msgspec import structs

from myna.accounts import accounts
from myna.actions import Action, R
from myna.actions.clones import CloneVoice, DeleteVoice
from myna.actions.voices import BlendVoice, HideVoice, OrderVoices, RenameVoice, ShowVoice
from myna.channels.channels import Channels
from myna.cli.actions import perform, register
from myna.cli.console import (
    Json,
    Wide,
    owner_of_files,
    read_settings,
    seconds,
    show_rows,
    site_storage,
    with_database,
)
from myna.engines.interface import EngineLimits
from myna.engines.media.media import Inspector
from myna.engines.registry import site_engines
from myna.errors import CommandError, ConfigError
from myna.farm.nodes import Nodes, NodeState
from myna.http.client import HttpClient
from myna.lib.sandbox import AllowedPaths
from myna.store.database import Database
from myna.store.files.named_files import SampleStore
from myna.store.files.storage import least_free_bytes
from myna.store.queries import clones as clones_store
from myna.store.queries.clones import OwnedClone
from myna.store.states import CloneStatus
from myna.voices import clones
from myna.voices import overrides as voice_overrides
from myna.voices.overrides import PublicVoice

app = App(name="voice", help="Public voices, and voices cloned by accounts.")
app.command("myna.cli.voice_reading:read", name="read")
app.command("myna.cli.words:app", name="word")


@app.command(name="list")
def list_all(
    *,
    account: Annotated[str, Parameter(help="List the cloned voices of this account only.")] = "",
    wide: Wide = False,
    json: Json = False,
) -> None:
    """List public voices with their engines, and cloned voices; --account for those of one account."""

    async def work(db: Database) -> list[dict[str, object]]:
        if account:
            owner = await accounts.find(db, account)
            cloned = await clones_store.owned_by(db, owner.id)
        else:
            cloned = await clones.list_all(db)
        nodes = await clones.cloning_nodes(db)
        async with _channels() as channels:
            public = [_public(offer) for offer in await voice_overrides.list_public(db, channels)]
        return public + [_cloned(owned, nodes.get(owned.clone.language, [])) for owned in cloned]

    rows = with_database(work, json=json)
    empty = "There is no voice: no speech engine is enabled."
    brief = ("voice_id", "name", "language", "source", "status", "by")
    show_rows(rows, json, empty=empty, brief=brief, wide=wide)


async def _clone(db: Database, action: CloneVoice) -> dict[str, object]:
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
    async with _channels() as channels:
        return await perform(db, action, channels=channels)


register(app, HideVoice, lambda action, _: {"voice_id": action.voice_id, "hidden": True}, run=_perform)
register(app, ShowVoice, lambda action, _: {"voice_id": action.voice_id, "hidden": False}, run=_perform)
register(app, RenameVoice, lambda action, _: {"voice_id": action.voice_id, "name": action.name}, run=_perform)
register(app, OrderVoices, lambda action, _: {"voice_ids": list(action.voice_ids)}, run=_perform)
register(app, BlendVoice, lambda _, row: structs.asdict(row), run=_perform)
register(app, CloneVoice, lambda _, shown: shown, run=_clone)
register(
    app,
    DeleteVoice,
    lambda action, found: {
        "voice_id": action.voice_id,
        "deleted": True,
        "tasks_refunded": found.refunded,
    },
)


@contextlib.asynccontextmanager
async def _channels() -> AsyncIterator[Channels]:
    """The channels with their stored voices. Sends no request and starts no process.

    Without the engine of MYNA_SPEECH, prints a warning: the voices of nodes and other channels don't need it.
    """
    settings, limits = read_settings(), EngineLimits(processes=1, queue_max=1, job_deadline_s=1.0)
    try:
        local = site_engines(settings.speech, settings.data_folder, limits)
    except ConfigError as error:
        print(f"myna: warning: {error} Its voices are left out.", file=sys.stderr)
        settings, local = dataclasses.replace(settings, speech="none"), {}
    http_client = HttpClient(connections_max=1)
    try:
        yield Channels(settings=settings, environ=os.environ, http_client=http_client, local=local)
    finally:
        await http_client.close()


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


def _public(offer: PublicVoice) -> dict[str, object]:
    return {
        **structs.asdict(offer.voice),
        "source": "public",
        "recipe": offer.recipe,
        "by": list(offer.sources),
        "place": offer.override.place,
        "hidden": bool(offer.override.hidden),
        "account": "",
        "status": "",
        "reason": "",
    }


def _cloned(owned: OwnedClone, nodes: list[str]) -> dict[str, object]:
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
