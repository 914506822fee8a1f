"""Queries on the activity: who changed what."""

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.rows import columns

PAST_ALL = 2**63 - 1
"""Above every id."""


class ActivityRow(Struct, frozen=True):
    """A change and the command line that makes the same. `actor_id` is 0 for the command line; `account_id`
    is the account concerned, 0 for none, and `account` its present name. Time in ms."""

    id: int
    created_at: int
    actor_id: int
    actor: str
    address: str
    command: str
    account_id: int
    account: str


_PAGE = f"""
SELECT {columns(ActivityRow, "r", account="coalesce(a.name, '')")}
FROM activity AS r LEFT JOIN accounts AS a ON a.id = r.account_id
WHERE r.id < $1 AND substr(r.command, 1, length($2)) = $2
"""


async def add(
    db: Transaction, *, actor_id: int, actor: str, address: str, command: str, account_id: int
) -> None:
    """Adds a row with the database's time."""
    await db.fetch(
        "INSERT INTO activity (created_at, actor_id, actor, address, command, account_id)"
        " VALUES (now_ms(), $1, $2, $3, $4, $5)",
        actor_id, actor, address, command, account_id,
    )  # fmt: skip


async def page(
    db: Queries, before: int, limit: int, *, prefix: str, actor_id: int | None, account_id: int | None
) -> list[ActivityRow]:
    """The rows with ids below `before` whose command begins with `prefix`, newest first: all, or those by an
    actor, or those that concern an account."""
    filters = {"actor_id": actor_id, "account_id": account_id}
    given = {column: value for column, value in filters.items() if value is not None}
    conditions = "".join(f" AND r.{column} = ${n}" for n, column in enumerate(given, 4))
    sql = f"{_PAGE}{conditions} ORDER BY r.id DESC LIMIT $3"
    rows = await db.fetch(sql, before, prefix, limit, *given.values())
    return [ActivityRow(*row) for row in rows]
