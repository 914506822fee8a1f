"""Queries on the forms of the back office that changed something."""

from msgspec import Struct

from myna.store.database import Queries, Transaction


class SubmissionRow(Struct, frozen=True):
    """A form that changed something. `attempt` names the request that did, `answer` is its sealed response,
    None while it has none, or no longer."""

    attempt: bytes
    answer: bytes | None
    age_ms: int


ANSWER_LIFE_MS = 600_000
"""How long a response is stored, for a form that is sent again and for a page that was not shown yet."""
LIFE_MS = 7 * 86_400_000
"""How long a form that was sent is known: the page of an older form has outlived its session."""


async def claim(db: Transaction, once_hash: bytes, attempt: bytes) -> bool:
    """Records that this attempt changes something; False if another one did. Of several transactions at the
    same time the others wait for the end of the first one."""
    rows = await db.fetch(
        "INSERT INTO form_submissions (once_hash, attempt, created_at) VALUES ($1, $2, now_ms())"
        " ON CONFLICT (once_hash) DO NOTHING RETURNING attempt",
        once_hash, attempt,
    )  # fmt: skip
    if rows:
        return True
    found = await by_hash(db, once_hash)
    return found is not None and found.attempt == attempt


async def by_hash(db: Queries, once_hash: bytes) -> SubmissionRow | None:
    """The submission of this form."""
    rows = await db.fetch(
        "SELECT attempt, answer, now_ms() - created_at FROM form_submissions WHERE once_hash = $1", once_hash
    )
    return SubmissionRow(*rows[0]) if rows else None


async def put_answer(db: Transaction, once_hash: bytes, attempt: bytes, answer: bytes) -> None:
    """Stores the response of the attempt that made the change."""
    await db.fetch(
        "UPDATE form_submissions SET answer = $3 WHERE once_hash = $1 AND attempt = $2",
        once_hash, attempt, answer,
    )  # fmt: skip


async def show(db: Transaction, once_hash: bytes) -> bytes | None:
    """The response whose page is to be shown; None if it was shown already."""
    rows = await db.fetch(
        "UPDATE form_submissions SET shown = 1 WHERE once_hash = $1 AND shown = 0 AND answer IS NOT NULL"
        " RETURNING answer",
        once_hash,
    )
    return bytes(rows[0][0]) if rows else None


async def show_again(db: Transaction, once_hash: bytes) -> None:
    """Lets the page of the response be shown, to the browser that sent the form again."""
    await db.fetch("UPDATE form_submissions SET shown = 0 WHERE once_hash = $1", once_hash)


async def delete_old(db: Transaction) -> None:
    """Deletes the responses of forms that were sent a while ago, and in the end what is known of them."""
    await db.fetch(
        "UPDATE form_submissions SET answer = NULL"
        " WHERE answer IS NOT NULL AND created_at <= now_ms() - CAST($1 AS BIGINT)",
        ANSWER_LIFE_MS,
    )
    await db.fetch("DELETE FROM form_submissions WHERE created_at <= now_ms() - CAST($1 AS BIGINT)", LIFE_MS)
