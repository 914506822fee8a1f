"""Queries on cloned voices. Their leases are in `farm/queue.py`."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from myna.store.batch import CallState, End, EndOutcome
from myna.store.database import Queries, Transaction
from myna.store.queries import accounts
from myna.store.queries.config import raise_version
from myna.store.rows import columns
from myna.store.states import FAILED, LEASED, PROCESSING, QUEUED, READY, CloneStatus, leased

SAMPLE_LEFT_OUT = "its sample was left out of the backup that the site was restored from"
VOICE_DELETED = "the voice was deleted"
"""The reason of tasks that fail with it."""
IN_LIST_MAX: Final = 500
"""How many values one IN list has at most."""


class CloneRow(Struct, frozen=True):
    """A cloned voice. `sample` is a name in the sample store, empty if a backup left it out. `preview` is a
    name in the audio store, empty until there is one. `reason` is why it failed. Times in ms, 0 for never."""

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
    """The account of a deleted voice, the files that are to be removed, and how many tasks were refunded."""

    account_id: int
    sample: str
    preview: str
    refunded: int


_COLUMNS = columns(CloneRow, "c")


async def ready(db: Queries, account_id: int) -> list[CloneRow]:
    """The account's voices that can be spoken, oldest first."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM clones c WHERE c.account_id = $1 AND c.{READY} ORDER BY c.id",
        account_id,
    )
    return [CloneRow(*row) for row in rows]


async def by_voice_id(db: Queries, voice_id: str) -> CloneRow | None:
    """The voice of any account, in any status."""
    rows = await db.fetch(f"SELECT {_COLUMNS} FROM clones c WHERE c.voice_id = $1", voice_id)
    return CloneRow(*rows[0]) if rows else None


async def of_account(db: Queries, account_id: int, voice_id: str) -> CloneRow | None:
    """The voice in any status, if it is one of the account."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM clones c WHERE c.voice_id = $1 AND c.account_id = $2", voice_id, account_id
    )
    return CloneRow(*rows[0]) if rows else None


async def owned_by(db: Queries, account_id: int) -> list[OwnedClone]:
    """An account's voices in any status, oldest first."""
    rows = await db.fetch(
        f"SELECT a.name, {_COLUMNS} FROM clones c JOIN accounts a ON a.id = c.account_id"
        " WHERE c.account_id = $1 ORDER BY c.id",
        account_id,
    )
    return [OwnedClone(CloneRow(*clone), account) for account, *clone in rows]


async def page(db: Queries, after: int, limit: int) -> list[OwnedClone]:
    """Voices of all accounts with ids above `after`, oldest first."""
    rows = await db.fetch(
        f"SELECT a.name, {_COLUMNS} FROM clones c JOIN accounts a ON a.id = c.account_id"
        " WHERE c.id > $1 ORDER BY c.id LIMIT $2",
        after, limit,
    )  # fmt: skip
    return [OwnedClone(CloneRow(*clone), account) for account, *clone in rows]


async def count(db: Queries, account_id: int) -> int:
    """How many voices the account has, in any status."""
    ((number,),) = await db.fetch("SELECT count(*) FROM clones WHERE account_id = $1", account_id)
    return int(number)


async def samples_in_use(db: Queries) -> frozenset[str]:
    """The samples that voices use."""
    return frozenset(str(sample) for (sample,) in await db.fetch("SELECT sample FROM clones"))


async def add(db: Transaction, new: NewClone, most: int) -> bool:
    """Queues a voice to be cloned; False if the account has `most` voices already.

    The account's row is locked first, so that two requests can't both pass the limit.
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


async def delete(db: Transaction, voice_id: str) -> Deleted | None:
    """Deletes a voice, and fails and refunds its unfinished tasks; None if there is no such voice.

    The account's lock keeps tasks from starting or ending during the transaction. A node that completes the
    voice does so before (its preview is then returned here) or finds the row deleted.
    """
    owner = await db.fetch("SELECT account_id FROM clones WHERE voice_id = $1", voice_id)
    if not owner:
        return None
    account_id = int(owner[0][0])
    await accounts.lock(db, account_id)
    deleted = await db.fetch("DELETE FROM clones WHERE voice_id = $1 RETURNING sample, preview", voice_id)
    if not deleted:
        return None
    await raise_version(db)  # a call that was decided before is decided again before its charge
    ends = [
        End(call_id, CallState.REFUNDED, reason=VOICE_DELETED)
        for call_id in await _unfinished(db, account_id, voice_id)
    ]
    outcomes = await db.end(ends) if ends else []
    ((sample, preview),) = deleted
    refunded = sum(outcome is EndOutcome.DONE for outcome in outcomes)
    return Deleted(account_id=account_id, sample=str(sample), preview=str(preview), refunded=refunded)


async def fail_all(db: Transaction) -> None:
    """Fails every clone, ready ones too, since no node can speak without the sample. The row of a clone that
    ended can't change its status, so it is replaced."""
    layout = {table.name: list(table.columns) for table in await db.tables.layout()}["clones"]
    rows = await db.fetch(f"SELECT {', '.join(layout)} FROM clones ORDER BY id")
    ((now,),) = await db.fetch("SELECT now_ms()")
    failed = []
    for row in rows:
        clone = dict(zip(layout, row, strict=True))
        if clone["status"] != CloneStatus.FAILED:
            clone |= {"status": int(CloneStatus.FAILED), "reason": SAMPLE_LEFT_OUT, "ended_at": now}
            clone |= {"preview": "", "preview_bytes": 0, "preview_sha256": b""}
        failed.append([*(clone | {"sample": ""}).values()])
    await db.fetch("DELETE FROM clones")
    await db.tables.load("clones", layout, failed)


async def _unfinished(db: Transaction, account_id: int, voice_id: str) -> list[bytes]:
    """The calls of queued and leased tasks. Each half has a partial index."""
    rows = await db.fetch(
        f"SELECT call_id FROM tasks WHERE account_id = $1 AND voice_id = $2 AND {QUEUED}"
        " UNION ALL SELECT call_id FROM tasks"
        f" WHERE account_id = $1 AND voice_id = $2 AND {LEASED}",
        account_id, voice_id,
    )  # fmt: skip
    return [bytes(row[0]) for row in rows]


async def leased_sample(db: Queries, node_id: int, sha256: bytes) -> str | None:
    """The sample's name in the sample store, if a job that this node has leased uses it."""
    rows = await db.fetch(
        "SELECT c.sample FROM clones c WHERE c.sample_sha256 = $2 AND ("
        f" (c.{PROCESSING} AND c.node_id = $1 AND c.lease_until > now_ms()) OR EXISTS ("
        "  SELECT 1 FROM tasks t WHERE t.voice_id = c.voice_id AND t.account_id = c.account_id"
        f"  AND {leased('t')} AND t.node_id = $1 AND t.lease_until > now_ms()))",
        node_id, sha256,
    )  # fmt: skip
    return str(rows[0][0]) if rows else None


async def known_samples(db: Queries, sha256s: Sequence[bytes]) -> set[bytes]:
    """Those of these samples that a clone uses."""
    found: set[bytes] = set()
    for start in range(0, len(sha256s), IN_LIST_MAX):
        part = sha256s[start : start + IN_LIST_MAX]
        placeholders = ", ".join(f"${number}" for number in range(1, len(part) + 1))
        rows = await db.fetch(
            f"SELECT sample_sha256 FROM clones WHERE sample_sha256 IN ({placeholders})", *part
        )
        found |= {bytes(row[0]) for row in rows}
    return found


async def complete_clone(
    db: Transaction, clone_id: int, preview: str, size_bytes: int, sha256: bytes
) -> None:
    """leased → ready, with the preview."""
    await db.fetch(
        f"UPDATE clones SET {READY}, ended_at = now_ms(), preview = $2, preview_bytes = $3,"
        f" preview_sha256 = $4 WHERE id = $1 AND {PROCESSING}",
        clone_id, preview, size_bytes, sha256,
    )  # fmt: skip


async def fail_clone(db: Transaction, clone_id: int, reason: str) -> None:
    """leased → failed."""
    await db.fetch(
        f"UPDATE clones SET {FAILED}, ended_at = now_ms(), reason = $2 WHERE id = $1 AND {PROCESSING}",
        clone_id, reason,
    )  # fmt: skip
