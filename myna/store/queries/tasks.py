"""Queries on speech tasks. A task ends with its call: see `batch.End`. Leasing and requeuing are in
`farm/queue.py`."""

from collections.abc import Sequence

from msgspec import Struct

from myna.store.batch import AUDIO_PLACEHOLDER, TASK_PLACEHOLDER
from myna.store.columns import columns
from myna.store.database import Queries, Transaction
from myna.store.states import LOCAL, QUEUED


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


_COLUMNS = columns(TaskRow, audio="CASE WHEN audio_removed_at = 0 THEN audio ELSE '' END")


async def of_account(db: Queries, account_id: int, task_id: int) -> TaskRow | None:
    """The task, if it is this account's."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM tasks WHERE id = $1 AND account_id = $2", task_id, account_id
    )
    return TaskRow(*rows[0]) if rows else None


async def page(db: Queries, account_id: int, before: int, limit: int) -> list[TaskRow]:
    """The account's tasks with ids below `before`, newest first."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM tasks WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3",
        account_id, before, limit,
    )  # fmt: skip
    return [TaskRow(*row) for row in rows]


async def old_audio(db: Queries, keep_ms: int, limit: int) -> list[tuple[int, str]]:
    """Tasks whose audio is older than `keep_ms`, oldest first: id and audio name."""
    rows = await db.fetch(
        "SELECT id, audio FROM tasks WHERE audio <> '' AND audio_removed_at = 0"
        " AND ended_at < now_ms() - $1 ORDER BY ended_at LIMIT $2",
        keep_ms, limit,
    )  # fmt: skip
    return [(int(task_id), str(audio)) for task_id, audio in rows]


async def mark_audio_removed(db: Transaction, task_id: int) -> None:
    """Marks the task's audio as removed."""
    await db.fetch("UPDATE tasks SET audio_removed_at = now_ms() WHERE id = $1", task_id)


async def mark_all_audio_removed(db: Transaction) -> None:
    """Marks the audio of every task as removed."""
    await db.fetch("UPDATE tasks SET audio_removed_at = now_ms() WHERE audio <> '' AND audio_removed_at = 0")


async def by_id(db: Queries, task_id: int) -> TaskRow | None:
    """The task of any account."""
    rows = await db.fetch(f"SELECT {_COLUMNS} FROM tasks WHERE id = $1", task_id)
    return TaskRow(*rows[0]) if rows else None


async def queue_for_nodes(db: Transaction, call_id: bytes, deadline_ms: int, draft: str | None) -> bool:
    """local → queued: the task and its open call wait for a node, `deadline_ms` from now at most. False, and
    nothing changed, if the task is not local. The account must be locked."""
    left = await db.fetch(
        f"UPDATE tasks SET {QUEUED}, deadline = now_ms() + $2"
        f" WHERE call_id = $1 AND {LOCAL} RETURNING id, deadline",
        call_id, deadline_ms,
    )  # fmt: skip
    if not left:
        return False
    task_id, deadline = left[0]
    await db.fetch("UPDATE calls SET deadline = $2 WHERE id = $1", call_id, deadline)
    if draft is not None:
        whole = draft.replace(TASK_PLACEHOLDER, str(task_id))
        answer = None if AUDIO_PLACEHOLDER in whole else whole
        await db.fetch(
            "UPDATE reservations SET answer = $2, draft = $3 WHERE call_id = $1", call_id, answer, whole
        )
    return True


async def draft(db: Queries, call_id: bytes) -> str | None:
    """The draft of the stored answer of an open call, if its request had an idempotency key."""
    rows = await db.fetch("SELECT draft FROM reservations WHERE call_id = $1 AND answer IS NULL", call_id)
    return rows[0][0] if rows else None


async def files_in_use(db: Queries, names: Sequence[str]) -> set[str]:
    """Those of these audio files that a task or a cloned voice uses."""
    found = set()
    for name in names:
        if await db.fetch(
            "SELECT 1 FROM tasks WHERE audio = $1 AND audio <> ''"
            " UNION ALL SELECT 1 FROM clones WHERE preview = $1 AND preview <> ''",
            name,
        ):
            found.add(name)
    return found
