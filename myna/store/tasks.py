"""Queries on speech jobs. They end with the calls that pay for them: see `batch.End`; what happens to them
between queued and held by a node is in `queue.py`."""

from collections.abc import Sequence

from msgspec import Struct

from myna.store.batch import AUDIO_MARK, TASK_MARK
from myna.store.database import Connection, Reader


class TaskRow(Struct, frozen=True):
    """A speech job as its account sees it. `created_at` in ms; `audio` is a name in the audio store;
    `progress` in percent, while a node is at it."""

    id: int
    status: int
    text: str
    chars: int
    audio: str
    created_at: int
    progress: int


_COLUMNS = (
    "id, status, text, chars, CASE WHEN audio_removed_at = 0 THEN audio ELSE '' END, created_at, progress"
)


async def of_account(db: Reader, account_id: int, task_id: int) -> TaskRow | None:
    """The task, if it is this account's."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM tasks WHERE id = $1 AND account_id = $2", task_id, account_id
    )
    return TaskRow(*rows[0]) if rows else None


async def page(db: Reader, account_id: int, before: int, limit: int) -> list[TaskRow]:
    """The account's tasks with ids below `before`, newest first."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM tasks WHERE account_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3",
        account_id, before, limit,
    )  # fmt: skip
    return [TaskRow(*row) for row in rows]


async def old_audio(db: Reader, keep_ms: int, limit: int) -> list[tuple[int, str]]:
    """Tasks whose audio is older than `keep_ms`, oldest first: id and audio name."""
    rows = await db.fetch(
        "SELECT id, audio FROM tasks WHERE audio <> '' AND audio_removed_at = 0"
        " AND ended_at < now_ms() - $1 ORDER BY ended_at LIMIT $2",
        keep_ms, limit,
    )  # fmt: skip
    return [(int(task_id), str(audio)) for task_id, audio in rows]


async def audio_removed(db: Connection, task_id: int) -> None:
    """The record stays; its audio is gone from now on."""
    await db.fetch("UPDATE tasks SET audio_removed_at = now_ms() WHERE id = $1", task_id)


async def by_id(db: Reader, task_id: int) -> TaskRow | None:
    """The task, whosever it is."""
    rows = await db.fetch(f"SELECT {_COLUMNS} FROM tasks WHERE id = $1", task_id)
    return TaskRow(*rows[0]) if rows else None


async def leave_to_nodes(db: Connection, call_id: bytes, deadline_ms: int, draft: str | None) -> bool:
    """1 → 0 for a task that the site itself was at: it and its call, still open then, wait for a node from
    now on, `deadline_ms` at most. False, and nothing changed, where the task ended or a node has it. The
    account must be locked."""
    left = await db.fetch(
        "UPDATE tasks SET status = 0, deadline = now_ms() + $2"
        " WHERE call_id = $1 AND status = 1 AND lease_until = 0 RETURNING id, deadline",
        call_id, deadline_ms,
    )  # fmt: skip
    if not left:
        return False
    task_id, deadline = left[0]
    await db.fetch("UPDATE calls SET deadline = $2 WHERE id = $1", call_id, deadline)
    if draft is not None:
        whole = draft.replace(TASK_MARK, str(task_id))
        answer = None if AUDIO_MARK in whole else whole
        await db.fetch(
            "UPDATE reservations SET answer = $2, draft = $3 WHERE call_id = $1", call_id, answer, whole
        )
    return True


async def draft(db: Reader, call_id: bytes) -> str | None:
    """The answer under way of the call that ordered the task, where a copy of the request may ask for it."""
    rows = await db.fetch("SELECT draft FROM reservations WHERE call_id = $1 AND answer IS NULL", call_id)
    return rows[0][0] if rows else None


async def named(db: Reader, names: Sequence[str]) -> set[str]:
    """Those of these audio files that a task or a cloned voice names."""
    found = set()
    for name in names:
        if await db.fetch(
            "SELECT 1 FROM tasks WHERE audio = $1 AND audio <> ''"
            " UNION ALL SELECT 1 FROM clones WHERE preview = $1 AND preview <> ''",
            name,
        ):
            found.add(name)
    return found
