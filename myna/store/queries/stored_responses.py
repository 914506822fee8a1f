"""Queries on the responses that accounts keep."""

from collections.abc import Iterable

from msgspec import Struct, structs

from myna.store.database import Queries, Transaction
from myna.store.rows import NOW, columns, fetch_row, fetch_rows, has_row, insert_row


class StoredResponse(Struct, frozen=True):
    """A response, and what it answered beside the response that it continues. `input` are the items of the
    request, `answer` is the response, both as JSON."""

    id: str
    previous_id: str | None
    input: bytes
    answer: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.input) + len(self.answer)


_COLUMNS = columns(StoredResponse)
_CONVERSATION = f"""
WITH RECURSIVE conversation (account_id, step, total, {_COLUMNS}) AS (
    SELECT account_id, 0, bytes, {_COLUMNS} FROM stored_responses WHERE account_id = $1 AND id = $2
    UNION ALL
    SELECT r.account_id, c.step + 1, c.total + r.bytes, {columns(StoredResponse, "r")}
    FROM conversation c JOIN stored_responses r ON r.id = c.previous_id AND r.account_id = c.account_id
    WHERE c.total <= $3
) SELECT {_COLUMNS} FROM conversation ORDER BY step DESC"""


async def put(db: Transaction, account_id: int, row: StoredResponse) -> None:
    """Stores a response."""
    values = structs.asdict(row) | {"bytes": row.size_bytes, "created_at": NOW}
    await insert_row(db, "stored_responses", account_id=account_id, **values)


async def one(db: Queries, account_id: int, response_id: str) -> StoredResponse | None:
    """This response of the account."""
    sql = f"SELECT {_COLUMNS} FROM stored_responses WHERE account_id = $1 AND id = $2"
    return await fetch_row(db, StoredResponse, sql, account_id, response_id)


async def several(
    db: Queries, account_id: int, ids: Iterable[str], bytes_max: int
) -> dict[str, StoredResponse]:
    """Those of these responses that the account has, by id, up to the one that exceeds `bytes_max`."""
    found: dict[str, StoredResponse] = {}
    size_bytes = 0
    for response_id in ids:
        if size_bytes <= bytes_max and (row := await one(db, account_id, response_id)):
            found[row.id] = row
            size_bytes += row.size_bytes
    return found


async def conversation(
    db: Queries, account_id: int, response_id: str, bytes_max: int
) -> list[StoredResponse]:
    """This response of the account after those that it continues, as far back as one more than have
    `bytes_max`. Empty if there is none."""
    return await fetch_rows(db, StoredResponse, _CONVERSATION, account_id, response_id, bytes_max)


async def delete(db: Transaction, account_id: int, response_id: str) -> bool:
    """Deletes this response of the account; False if there is none."""
    sql = "DELETE FROM stored_responses WHERE account_id = $1 AND id = $2 RETURNING id"
    return await has_row(db, sql, account_id, response_id)


async def delete_old(db: Transaction, keep_ms: int, count: int) -> int:
    """Deletes up to `count` responses that are older, from the end of their conversation: one that is
    continued stays as long as what continues it. Returns how many."""
    sql = """DELETE FROM stored_responses WHERE id IN (SELECT r.id FROM stored_responses r
        WHERE r.created_at <= now_ms() - CAST($1 AS BIGINT) AND NOT EXISTS
        (SELECT 1 FROM stored_responses n WHERE n.previous_id = r.id AND n.account_id = r.account_id)
        ORDER BY r.created_at LIMIT $2) RETURNING id"""
    return len(await db.fetch(sql, keep_ms, count))
