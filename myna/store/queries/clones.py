"""Queries on cloned voices. Their leases are in `farm/queue.py`."""

from collections.abc import Sequence

from msgspec import Struct, structs

from myna.store.batch import CallState, End, EndOutcome
from myna.store.database import Queries, Transaction
from myna.store.queries import accounts
from myna.store.queries.config import raise_version
from myna.store.rows import (
    NOW,
    columns,
    fetch_only,
    fetch_row,
    fetch_rows,
    fetch_value,
    fetch_values,
    insert_row,
    parameters,
)
from myna.store.states import FAILED, LEASED, PROCESSING, QUEUED, READY, CloneStatus, leased

SAMPLE_LEFT_OUT = "its sample was left out of the backup that the site was restored from"
VOICE_DELETED = "the voice was deleted"
"""The reason of tasks that fail with it."""
_IN_LIST_MAX = 500
"""How many values one IN list has at most: each number of values is another statement."""


class NewClone(Struct, frozen=True):
    """A voice to be cloned. `sample` is a name in the sample store, empty if a backup left it out."""

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


class CloneRow(NewClone, frozen=True):
    """A cloned voice. `preview` is a name in the audio store, empty until there is one. `reason` is why it
    failed. Times in ms, 0 for never."""

    id: int
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


class Deleted(Struct, frozen=True):
    """The account of a deleted voice, the files that are to be removed, and how many tasks were refunded."""

    account_id: int
    sample: str
    preview: str
    refunded: int


_COLUMNS = columns(CloneRow, "c")


async def ready(db: Queries, account_id: int) -> list[CloneRow]:
    """The account's voices that can be spoken, oldest first."""
    sql = f"SELECT {_COLUMNS} FROM clones c WHERE c.account_id = $1 AND c.{READY} ORDER BY c.id"
    return await fetch_rows(db, CloneRow, sql, account_id)


async def by_voice_id(db: Queries, voice_id: str) -> CloneRow | None:
    """The voice of any account, in any status."""
    return await fetch_row(db, CloneRow, f"SELECT {_COLUMNS} FROM clones c WHERE c.voice_id = $1", voice_id)


async def of_account(db: Queries, account_id: int, voice_id: str) -> CloneRow | None:
    """The voice in any status, if it is one of the account."""
    sql = f"SELECT {_COLUMNS} FROM clones c WHERE c.voice_id = $1 AND c.account_id = $2"
    return await fetch_row(db, CloneRow, sql, voice_id, account_id)


async def owned_by(db: Queries, account_id: int) -> list[OwnedClone]:
    """An account's voices in any status, oldest first."""
    return await _owned(db, "c.account_id = $1 ORDER BY c.id", account_id)


async def page(db: Queries, after: int, limit: int) -> list[OwnedClone]:
    """Voices of all accounts with ids above `after`, oldest first."""
    return await _owned(db, "c.id > $1 ORDER BY c.id LIMIT $2", after, limit)


async def _owned(db: Queries, condition: str, *args: int) -> list[OwnedClone]:
    sql = f"SELECT a.name, {_COLUMNS} FROM clones c JOIN accounts a ON a.id = c.account_id WHERE {condition}"
    return [OwnedClone(CloneRow(*clone), account) for account, *clone in await db.fetch(sql, *args)]


async def count(db: Queries, account_id: int) -> int:
    """How many voices the account has, in any status."""
    return await fetch_only(db, int, "SELECT count(*) FROM clones WHERE account_id = $1", account_id)


async def samples_in_use(db: Queries) -> frozenset[str]:
    """The samples that voices use."""
    return frozenset(await fetch_values(db, str, "SELECT sample FROM clones"))


async def add(db: Transaction, new: NewClone, most: int) -> bool:
    """Queues a voice to be cloned; False if the account has `most` voices already.

    The account's row is locked first, so that two requests can't both pass the limit.
    """
    await accounts.lock(db, new.account_id)
    if await count(db, new.account_id) >= most:
        return False
    await insert_row(db, "clones", **structs.asdict(new), consent_at=NOW, created_at=NOW)
    return True


async def delete(db: Transaction, voice_id: str) -> Deleted | None:
    """Deletes a voice, and fails and refunds its unfinished tasks; None if there is no such voice.

    The account's lock keeps tasks from starting or ending during the transaction. A node that completes the
    voice does so before (its preview is then returned here) or finds the row deleted.
    """
    account_id = await fetch_value(db, int, "SELECT account_id FROM clones WHERE voice_id = $1", voice_id)
    if account_id is None:
        return None
    await accounts.lock(db, account_id)
    deleted = await db.fetch("DELETE FROM clones WHERE voice_id = $1 RETURNING sample, preview", voice_id)
    if not deleted:
        return None
    await raise_version(db)  # a call that was decided before is decided again before its charge
    # Each half of the unfinished tasks, queued and leased ones, has a partial index.
    sql = f"""SELECT call_id FROM tasks WHERE account_id = $1 AND voice_id = $2 AND {QUEUED}
        UNION ALL SELECT call_id FROM tasks WHERE account_id = $1 AND voice_id = $2 AND {LEASED}"""
    unfinished = await fetch_values(db, bytes, sql, account_id, voice_id)
    ends = [End(call_id, CallState.REFUNDED, reason=VOICE_DELETED) for call_id in unfinished]
    outcomes = await db.end(ends) if ends else []
    refunded = sum(outcome is EndOutcome.DONE for outcome in outcomes)
    ((sample, preview),) = deleted
    return Deleted(account_id, sample, preview, refunded)


async def fail_all(db: Transaction) -> None:
    """Fails every clone, ready ones too, since no node can speak without the sample. The row of a clone that
    ended can't change its status, so it is replaced."""
    layout = {table.name: list(table.columns) for table in await db.tables.layout()}["clones"]
    rows = await db.fetch(f"SELECT {', '.join(layout)} FROM clones ORDER BY id")
    now = await fetch_only(db, int, "SELECT now_ms()")
    failed = []
    for row in rows:
        clone = dict(zip(layout, row, strict=True))
        if clone["status"] != CloneStatus.FAILED:
            clone |= {"status": int(CloneStatus.FAILED), "reason": SAMPLE_LEFT_OUT, "ended_at": now}
            clone |= {"preview": "", "preview_bytes": 0, "preview_sha256": b""}
        failed.append([*(clone | {"sample": ""}).values()])
    await db.fetch("DELETE FROM clones")
    await db.tables.load("clones", layout, failed)


async def leased_sample(db: Queries, node_id: int, sha256: bytes) -> str | None:
    """The sample's name in the sample store, if a job that this node has leased uses it."""
    sql = f"""SELECT c.sample FROM clones c WHERE c.sample_sha256 = $2 AND (
        (c.{PROCESSING} AND c.node_id = $1 AND c.lease_until > now_ms())
        OR EXISTS (SELECT 1 FROM tasks t WHERE t.voice_id = c.voice_id AND t.account_id = c.account_id
                   AND {leased("t")} AND t.node_id = $1 AND t.lease_until > now_ms()))"""
    return await fetch_value(db, str, sql, node_id, sha256)


async def known_samples(db: Queries, sha256s: Sequence[bytes]) -> set[bytes]:
    """Those of these samples that a clone uses."""
    found: set[bytes] = set()
    for start in range(0, len(sha256s), _IN_LIST_MAX):
        part = sha256s[start : start + _IN_LIST_MAX]
        sql = f"SELECT sample_sha256 FROM clones WHERE sample_sha256 IN ({parameters(part)})"
        found.update(await fetch_values(db, bytes, sql, *part))
    return found


async def complete_clone(
    db: Transaction, clone_id: int, preview: str, size_bytes: int, sha256: bytes
) -> None:
    """leased → ready, with the preview."""
    sql = f"""UPDATE clones SET {READY}, ended_at = now_ms(), preview = $2, preview_bytes = $3,
        preview_sha256 = $4 WHERE id = $1 AND {PROCESSING}"""
    await db.fetch(sql, clone_id, preview, size_bytes, sha256)


async def fail_clone(db: Transaction, clone_id: int, reason: str) -> None:
    """leased → failed."""
    sql = f"UPDATE clones SET {FAILED}, ended_at = now_ms(), reason = $2 WHERE id = $1 AND {PROCESSING}"
    await db.fetch(sql, clone_id, reason)
