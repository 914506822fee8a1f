"""Queries on speech tasks. A task ends with its call: see `batch.End`. Leasing and requeuing are in
`farm/queue.py`."""

from collections.abc import Sequence

from msgspec import Struct

from myna.store.batch import AUDIO_PLACEHOLDER, TASK_PLACEHOLDER
from myna.store.database import Queries, Transaction
from myna.store.rows import (
    columns,
    fetch_map,
    fetch_row,
    fetch_rows,
    fetch_value,
    fetch_values,
    parameters,
)
from myna.store.states import LOCAL, QUEUED, UNFINISHED


class TaskRow(Struct, frozen=True):
    """A speech task as its account sees it. `created_at` in ms; `audio` is a name in the audio store;
    `progress` in percent while it is leased; `reason` is why it failed, for the operator."""

    id: int
    status: int
    text: str
    chars: int
    audio: str
    created_at: int
    progress: int
    reason: str


_AUDIO = "CASE WHEN audio_removed_at = 0 THEN audio ELSE '' END"
_COLUMNS = columns(TaskRow, audio=_AUDIO)


async def of_account(db: Queries, account_id: int, task_id: int) -> TaskRow | None:
    """The task, if it is this account's."""
    sql = f"SELECT {_COLUMNS} FROM tasks WHERE id = $1 AND account_id = $2 AND deleted_at = 0"
    return await fetch_row(db, TaskRow, sql, task_id, account_id)


async def page(db: Queries, account_id: int, before: int, limit: int) -> list[TaskRow]:
    """The account's tasks with ids below `before`, newest first, without deleted ones."""
    sql = f"""SELECT {_COLUMNS} FROM tasks WHERE account_id = $1 AND id < $2 AND deleted_at = 0
        ORDER BY id DESC LIMIT $3"""
    return await fetch_rows(db, TaskRow, sql, account_id, before, limit)


class RecordRow(TaskRow, frozen=True):
    """A task as the back office lists it. `audio_bytes` is 0 without audio; `ended_at` in ms, 0 before."""

    call_id: bytes
    voice_id: str
    speed: float
    audio_bytes: int
    ended_at: int


class Found(Struct, frozen=True):
    """A page of a search. `searched_to` is the id before which the next search continues; 0 at the end."""

    rows: list[RecordRow]
    searched_to: int


_RECORD = columns(
    RecordRow,
    audio=_AUDIO,
    audio_bytes="CASE WHEN audio_removed_at = 0 THEN audio_bytes ELSE 0 END",
)
_SEARCH = f"""
SELECT {_RECORD} FROM (
    SELECT * FROM tasks WHERE account_id = $1 AND id < $2 AND deleted_at = 0 ORDER BY id DESC LIMIT $3
) AS newest
WHERE (CAST($4 AS BIGINT) < 0 OR status = $4)
  AND ($5 = '' OR replace(lower(text), lower($5), '') <> lower(text))
  AND ($6 = '' OR voice_id = $6)
ORDER BY id DESC LIMIT $7
"""
_SEARCHED_TO = """
SELECT min(id), count(*) FROM (
    SELECT id FROM tasks WHERE account_id = $1 AND id < $2 AND deleted_at = 0 ORDER BY id DESC LIMIT $3
) AS newest
"""


async def search(
    db: Queries, account_id: int, *, before: int, limit: int, scan: int, status: int, text: str, voice_id: str
) -> Found:
    """The account's tasks with this status (-1: any), with `text` in them and in this voice ("": any), newest
    first: `limit` at most, among the `scan` newest with ids below `before`."""
    rows = await db.fetch(_SEARCH, account_id, before, scan, status, text, voice_id, limit)
    found = [RecordRow(*row) for row in rows]
    if len(found) == limit:
        return Found(found, found[-1].id)
    ((lowest, count),) = await db.fetch(_SEARCHED_TO, account_id, before, scan)
    return Found(found, int(lowest) if count == scan else 0)


async def record(db: Queries, account_id: int, call_id: bytes) -> RecordRow | None:
    """The account's task of this call, deleted ones included."""
    sql = f"SELECT {_RECORD} FROM tasks WHERE call_id = $1 AND account_id = $2"
    return await fetch_row(db, RecordRow, sql, call_id, account_id)


async def deletable(db: Queries, account_id: int, task_ids: Sequence[int]) -> dict[int, str]:
    """Those of these tasks that are the account's, have ended and are not deleted: the name of their audio,
    "" for none, by id."""
    sql = f"SELECT id, {_AUDIO} FROM tasks WHERE {_deletable(task_ids)}"
    return await fetch_map(db, int, str, sql, *task_ids, account_id)


async def delete(db: Transaction, account_id: int, task_ids: Sequence[int]) -> None:
    """Removes text and audio of the account's tasks, which have ended, and marks them as deleted."""
    sql = f"""UPDATE tasks SET text = '', deleted_at = now_ms(), audio_removed_at =
        CASE WHEN audio = '' OR audio_removed_at > 0 THEN audio_removed_at ELSE now_ms() END
        WHERE {_deletable(task_ids)}"""
    await db.fetch(sql, *task_ids, account_id)


def _deletable(task_ids: Sequence[int]) -> str:
    """The condition for those of these tasks that are the account's and have ended. Their ids are the first
    parameters, the account's the last."""
    account = f"account_id = ${len(task_ids) + 1}"
    return f"id IN ({parameters(task_ids)}) AND {account} AND deleted_at = 0 AND NOT ({UNFINISHED})"


async def old_audio(db: Queries, keep_ms: int, limit: int) -> dict[int, str]:
    """The audio that is older than `keep_ms`, oldest first, by the ids of the tasks."""
    sql = """SELECT id, audio FROM tasks WHERE audio <> '' AND audio_removed_at = 0
        AND ended_at < now_ms() - $1 ORDER BY ended_at LIMIT $2"""
    return await fetch_map(db, int, str, sql, keep_ms, limit)


async def mark_audio_removed(db: Transaction, task_id: int) -> None:
    """Marks the task's audio as removed."""
    await db.fetch("UPDATE tasks SET audio_removed_at = now_ms() WHERE id = $1", task_id)


async def mark_all_audio_removed(db: Transaction) -> None:
    """Marks the audio of every task as removed."""
    await db.fetch("UPDATE tasks SET audio_removed_at = now_ms() WHERE audio <> '' AND audio_removed_at = 0")


async def by_id(db: Queries, task_id: int) -> TaskRow | None:
    """The task of any account."""
    return await fetch_row(db, TaskRow, f"SELECT {_COLUMNS} FROM tasks WHERE id = $1", task_id)


async def queue_for_nodes(db: Transaction, call_id: bytes, deadline_ms: int, draft: str | None) -> bool:
    """local → queued: the task and its open call wait for a node, `deadline_ms` from now at most. False, and
    nothing changed, if the task is not local. The account must be locked."""
    sql = f"""UPDATE tasks SET {QUEUED}, deadline = now_ms() + $2
        WHERE call_id = $1 AND {LOCAL} RETURNING id, deadline"""
    left = await db.fetch(sql, call_id, deadline_ms)
    if not left:
        return False
    task_id, deadline = left[0]
    await db.fetch("UPDATE calls SET deadline = $2 WHERE id = $1", call_id, deadline)
    if draft is not None:
        whole = draft.replace(TASK_PLACEHOLDER, str(task_id))
        answer = None if AUDIO_PLACEHOLDER in whole else whole
        sql = "UPDATE reservations SET answer = $2, draft = $3 WHERE call_id = $1"
        await db.fetch(sql, call_id, answer, whole)
    return True


async def draft(db: Queries, call_id: bytes) -> str | None:
    """The draft of the stored answer of an open call, if its request had an idempotency key."""
    sql = "SELECT draft FROM reservations WHERE call_id = $1 AND answer IS NULL"
    return await fetch_value(db, str, sql, call_id)


async def files_in_use(db: Queries, names: Sequence[str]) -> set[str]:
    """Those of these audio files that a task or a cloned voice uses."""
    if not names:
        return set()
    sql = f"""SELECT audio FROM tasks WHERE audio IN ({parameters(names)}) AND audio <> ''
        UNION ALL SELECT preview FROM clones WHERE preview IN ({parameters(names)}) AND preview <> ''"""
    return set(await fetch_values(db, str, sql, *names))
