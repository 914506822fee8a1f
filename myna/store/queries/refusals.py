"""Queries on the last refused request of each key."""

from msgspec import Struct

from myna.store.columns import columns
from myna.store.database import Queries, Transaction


class Refusal(Struct, frozen=True):
    """A request that was answered with an error; `at` in ms, by the clock of the process that refused it.
    `kind` is the error's type, `request` its method and path. `key_id` is 0 for a request without a valid
    key."""

    key_id: int
    at: int
    status: int
    kind: str
    message: str
    request: str
    request_id: str


async def put(db: Transaction, refusal: Refusal) -> None:
    """Stores the refusal, unless the key has a later one."""
    await db.fetch(
        "INSERT INTO key_refusals (key_id, at, status, kind, message, request, request_id)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (key_id) DO UPDATE SET at = excluded.at,"
        " status = excluded.status, kind = excluded.kind, message = excluded.message,"
        " request = excluded.request, request_id = excluded.request_id"
        " WHERE key_refusals.at <= excluded.at",
        refusal.key_id, refusal.at, refusal.status, refusal.kind, refusal.message, refusal.request,
        refusal.request_id,
    )  # fmt: skip


async def of_key(db: Queries, account_id: int, key_id: int) -> Refusal | None:
    """The last refused request of this key of the account."""
    rows = await db.fetch(
        f"SELECT {columns(Refusal, 'r')} FROM key_refusals r JOIN keys k ON k.id = r.key_id"
        " WHERE k.account_id = $1 AND r.key_id = $2",
        account_id, key_id,
    )  # fmt: skip
    return Refusal(*rows[0]) if rows else None
