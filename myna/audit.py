"""Checks every invariant of the books, and that the audio they speak of is there."""

import asyncio
import hashlib
import time
from pathlib import Path

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
        found = await asyncio.to_thread(_wrong, audio, page, hash_audio)
        if found:  # what was removed for its age meanwhile is no breach
            there = {row[0] for row in await store.audio_page(db, after, _PAGE)}
            wrong += [line for task_id, line in found if task_id in there]
        after = page[-1][0]
    return [Breach(AUDIO_RULE, len(wrong), wrong[: store.SHOWN_MAX])] if wrong else []


def _wrong(
    audio: AudioStore, page: list[tuple[int, str, int, bytes]], hash_audio: bool
) -> list[tuple[int, str]]:
    """Task id and what is wrong with its audio."""
    found = []
    for task_id, name, size, sha256 in page:
        fault = _fault(audio.find(name), size, sha256, hash_audio)
        if fault:
            found.append((task_id, f"task {task_id}: {name} {fault}"))
    return found


def _fault(path: Path | None, size: int, sha256: bytes, hash_audio: bool) -> str:
    try:
        if path is None:
            return "is missing"
        if path.stat().st_size != size:
            return "has another size"
        if hash_audio and hashlib.sha256(path.read_bytes()).digest() != sha256:
            return "has another SHA-256"
    except FileNotFoundError:
        return "is missing"
    return ""
