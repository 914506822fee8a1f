"""Cloned voices of an account, each made from a sample by a compute node, with recorded consent.

queued ──► cloning ──► ready        a node cloned the voice and spoke a preview
              └──────► failed       `reason` says why; it can only be deleted

Cloning is free and is not a call. The sample is private to the service and to the node that clones or speaks
the voice. The preview is audio like any other, public by its address.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from myna.engines.interface import EngineFailed, EngineVoice, SampleRefused
from myna.engines.media.job import Measured
from myna.engines.media.media import Inspector
from myna.errors import CommandError, StorageUnavailable
from myna.store.database import Queries
from myna.store.files.named_files import SampleStore
from myna.store.queries import clones as store
from myna.store.queries import config as config_store
from myna.store.queries import voices
from myna.store.queries.clones import CloneRow, OwnedClone
from myna.store.rows import ID_MAX
from myna.wire.farm import CLONE_PREFIX

CONSENT = (
    "The voice in this sample is my own, or the person whose voice it is has agreed that it is cloned and"
    " that this account has speech made in it."
)
CONSENTS = {
    "en": CONSENT,
    "zh": "我声明：此录音中的声音是我本人的声音，或声音本人已同意复刻其声音，并同意由本账户用它合成语音。",
}
"""Stored with every cloned voice, in the language in which it was agreed to."""
_ID = re.compile(rf"{CLONE_PREFIX}[0-9a-f]{{32}}")


class StoredSample(Struct, frozen=True):
    """A sample in the sample store, which is to be a voice."""

    name: str
    size_bytes: int
    sha256: bytes
    ms: int


def is_clone(voice_id: str) -> bool:
    """Whether this is the id of a cloned voice, existing or deleted."""
    return _ID.fullmatch(voice_id) is not None


def voice_of(clone: CloneRow) -> EngineVoice:
    """The catalogue's entry of a clone. Its gender is unknown, so it is neutral."""
    return EngineVoice(voice_id=clone.voice_id, name=clone.name, gender="neutral", language=clone.language)


@asynccontextmanager
async def stored_sample(
    samples: SampleStore, inspector: Inspector, recording: Path, account_id: int
) -> AsyncIterator[StoredSample]:
    """A recording of the account, checked and stored for a voice that is made with it here; a refusal removes
    it. Raises CommandError. If the voice's COMMIT is in doubt, the sample stays: `remove_orphans` deletes it
    if no voice has it."""
    name, path = await asyncio.to_thread(samples.new)
    try:
        sample = await _checked_sample(inspector, recording, path, account_id)
        await asyncio.to_thread(samples.make_private, name)
        await samples.keep(name)
        yield StoredSample(name, sample.size_bytes, sample.sha256, round(sample.seconds * 1000))
    except (CommandError, StorageUnavailable):
        await samples.discard(name)
        raise


async def list_all(db: Queries) -> list[OwnedClone]:
    """The cloned voices of all accounts, oldest first."""
    return await store.page(db, 0, ID_MAX)


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
    """Deletes samples written before `before` (Unix seconds) that no voice has: a process that dies while it
    makes or deletes a voice leaves one. Returns how many."""
    old = await asyncio.to_thread(lambda: list(samples.modified_between(0, before)))
    if not old:
        return 0
    in_use = await store.samples_in_use(db)
    orphans = [name for name in old if name not in in_use]
    await asyncio.to_thread(samples.each, samples.delete, orphans)
    return len(orphans)


async def _checked_sample(inspector: Inspector, source: Path, target: Path, account_id: int) -> Measured:
    """Decodes the recording, checks it and writes it to `target`. Raises CommandError."""
    try:
        return await inspector.sample(source, target, account_id)
    except SampleRefused as refusal:
        raise CommandError(str(refusal)) from None
    except EngineFailed as failure:
        raise CommandError("The sample could not be checked: {failure}", failure=failure) from None
