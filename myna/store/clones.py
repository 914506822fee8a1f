"""Queries on cloned voices. What a node makes of them, from queued to ready, is in `queue.py`."""

from enum import IntEnum

from msgspec import Struct

from myna.store import accounts
from myna.store.batch import CallState, End, EndOutcome
from myna.store.database import Connection, Reader
from myna.store.site import changed

VOICE_DELETED = "the voice was deleted"
"""The reason of tasks that were waiting for it."""


class CloneStatus(IntEnum):
    """`clones.status`. READY and FAILED are final."""

    QUEUED = 0
    CLONING = 1
    READY = 2
    FAILED = 3


class CloneRow(Struct, frozen=True):
    """A cloned voice. `sample` is a name in the sample store, `preview` one in the audio store, empty while
    there is none; `reason` is why it failed. Times in ms, 0 for never."""

    id: int
    voice_id: str
    account_id: int
    name: str
    language: str
    transcript: str
    sample: str
    sample_bytes: int
    sample_sha256: bytes
    sample_ms: int
    consent_by: str
    consent_text: str
    consent_at: int
    status: int
    reason: str
    preview: str
    created_at: int
    ended_at: int


class OwnedClone(Struct, frozen=True):
    """A cloned voice and the name of its account."""

    clone: CloneRow
    account: str


class NewClone(Struct, frozen=True):
    """A voice to be cloned: see `CloneRow`."""

    voice_id: str
    account_id: int
    name: str
    language: str
    transcript: str
    sample: str
    sample_bytes: int
    sample_sha256: bytes
    sample_ms: int
    consent_by: str
    consent_text: str


class Deleted(Struct, frozen=True):
    """What a deleted voice leaves to be removed, and how many tasks failed with it."""

    sample: str
    preview: str
    refunded: int


_COLUMNS = """c.id, c.voice_id, c.account_id, c.name, c.language, c.transcript, c.sample, c.sample_bytes,
    c.sample_sha256, c.sample_ms, c.consent_by, c.consent_text, c.consent_at, c.status, c.reason, c.preview,
    c.created_at, c.ended_at"""


async def ready(db: Reader, account_id: int) -> list[CloneRow]:
    """The account's voices that can be spoken, oldest first."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM clones c WHERE c.account_id = $1 AND c.status = $2 ORDER BY c.id",
        account_id, int(CloneStatus.READY),
    )  # fmt: skip
    return [CloneRow(*row) for row in rows]


async def by_voice_id(db: Reader, voice_id: str) -> CloneRow | None:
    """The voice, whoever's it is and whatever its status."""
    rows = await db.fetch(f"SELECT {_COLUMNS} FROM clones c WHERE c.voice_id = $1", voice_id)
    return CloneRow(*rows[0]) if rows else None


async def owned_by(db: Reader, account_id: int) -> list[OwnedClone]:
    """All of an account, whatever their status, oldest first."""
    rows = await db.fetch(
        f"SELECT a.name, {_COLUMNS} FROM clones c JOIN accounts a ON a.id = c.account_id"
        " WHERE c.account_id = $1 ORDER BY c.id",
        account_id,
    )
    return [OwnedClone(CloneRow(*row[1:]), row[0]) for row in rows]


async def page(db: Reader, after: int, limit: int) -> list[OwnedClone]:
    """Those of all accounts with ids behind `after`, oldest first."""
    rows = await db.fetch(
        f"SELECT a.name, {_COLUMNS} FROM clones c JOIN accounts a ON a.id = c.account_id"
        " WHERE c.id > $1 ORDER BY c.id LIMIT $2",
        after, limit,
    )  # fmt: skip
    return [OwnedClone(CloneRow(*row[1:]), row[0]) for row in rows]


async def count(db: Reader, account_id: int) -> int:
    """How many voices the account has, whatever their status."""
    ((number,),) = await db.fetch("SELECT count(*) FROM clones WHERE account_id = $1", account_id)
    return int(number)


async def samples_in_use(db: Reader) -> frozenset[str]:
    """The samples that voices name, which no collector may take away."""
    return frozenset(str(sample) for (sample,) in await db.fetch("SELECT sample FROM clones"))


async def add(db: Connection, new: NewClone, most: int) -> bool:
    """Queues a voice to be cloned; False where the account has `most` of them already.

    The account's row is locked first, so that two at once are counted one after the other.
    """
    await accounts.lock(db, new.account_id)
    if await count(db, new.account_id) >= most:
        return False
    await db.fetch(
        "INSERT INTO clones (voice_id, account_id, name, language, transcript, sample, sample_bytes,"
        " sample_sha256, sample_ms, consent_by, consent_text, consent_at, created_at)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now_ms(), now_ms())",
        new.voice_id, new.account_id, new.name, new.language, new.transcript, new.sample, new.sample_bytes,
        new.sample_sha256, new.sample_ms, new.consent_by, new.consent_text,
    )  # fmt: skip
    return True


async def delete(db: Connection, voice_id: str) -> Deleted | None:
    """Deletes a voice, and fails and refunds what a node was still to speak in it; None if there is none.

    Behind the account's lock no task of it ends or is ordered meanwhile. A node that completes the voice
    itself comes before (then its preview is what is returned here) or finds the row gone.
    """
    owner = await db.fetch("SELECT account_id FROM clones WHERE voice_id = $1", voice_id)
    if not owner:
        return None
    account_id = int(owner[0][0])
    await accounts.lock(db, account_id)
    gone = await db.fetch("DELETE FROM clones WHERE voice_id = $1 RETURNING sample, preview", voice_id)
    if not gone:
        return None
    await changed(db)  # what was decided while the voice was there is decided anew before it is charged
    ends = [
        End(call_id, CallState.REFUNDED, reason=VOICE_DELETED)
        for call_id in await _unfinished(db, account_id, voice_id)
    ]
    outcomes = await db.end(ends) if ends else []
    ((sample, preview),) = gone
    return Deleted(str(sample), str(preview), sum(outcome is EndOutcome.DONE for outcome in outcomes))


async def _unfinished(db: Connection, account_id: int, voice_id: str) -> list[bytes]:
    """The calls whose tasks wait for a node or are with one. Each half has a partial index."""
    rows = await db.fetch(
        "SELECT call_id FROM tasks WHERE account_id = $1 AND voice_id = $2 AND status = 0"
        " UNION ALL SELECT call_id FROM tasks"
        " WHERE account_id = $1 AND voice_id = $2 AND status = 1 AND lease_until > 0",
        account_id, voice_id,
    )  # fmt: skip
    return [bytes(row[0]) for row in rows]
