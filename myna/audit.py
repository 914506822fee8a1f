"""Checks every invariant of the books, and that the audio they speak of is there."""

import asyncio
import hashlib
import time

from myna import metrics
from myna.store import audit as store
from myna.store.audio import AudioStore
from myna.store.audit import Breach
from myna.store.database import Database

_PAGE = 1000
AUDIO_RULE = "a completed task's audio is in the store, whole"


async def run(db: Database, audio: AudioStore, *, hash_audio: bool) -> list[Breach]:
    """All breaches, of one snapshot; the metrics get the result. `hash_audio` reads every file as well."""
    found = await db.snapshot(store.breaches)
    found += await _audio_breaches(db, audio, hash_audio)
    metrics.AUDIT_BREACHES.set(sum(breach.count for breach in found))
    metrics.AUDIT_TIME.set(time.time())
    return found


async def _audio_breaches(db: Database, audio: AudioStore, hash_audio: bool) -> list[Breach]:
    wrong: list[str] = []
    after = 0
    while page := await store.audio_page(db, after, _PAGE):
        wrong += await asyncio.to_thread(_wrong, audio, page, hash_audio)
        after = page[-1][0]
    return [Breach(AUDIO_RULE, len(wrong), wrong[: store.SHOWN_MAX])] if wrong else []


def _wrong(audio: AudioStore, page: list[tuple[int, str, int, bytes]], hash_audio: bool) -> list[str]:
    found = []
    for task_id, name, size, sha256 in page:
        path = audio.find(name)
        if path is None:
            found.append(f"task {task_id}: {name} is missing")
        elif path.stat().st_size != size:
            found.append(f"task {task_id}: {name} has another size")
        elif hash_audio and hashlib.sha256(path.read_bytes()).digest() != sha256:
            found.append(f"task {task_id}: {name} has another SHA-256")
    return found
