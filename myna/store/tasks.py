"""Queries on speech jobs. Their moves belong to the calls that pay for them: see `batch.End`."""

from msgspec import Struct

from myna.store.database import Connection, Reader


class TaskRow(Struct, frozen=True):
    """A speech job as its account sees it. `created_at` in ms; `audio` is a name in the audio store."""

    id: int
    status: int
    text: str
    chars: int
    audio: str
    created_at: int


_COLUMNS = "id, status, text, chars, CASE WHEN audio_removed_at = 0 THEN audio ELSE '' END, created_at"


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
