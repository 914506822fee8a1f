"""Queries on the whole installation: what all accounts store, its storage of files, and what the periodic
jobs of a process find to do.
"""

import secrets

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.queries.farm import able
from myna.store.rows import fetch_map, fetch_only, has_row
from myna.store.states import LEASED, OPEN, QUEUED

_STORED = """
SELECT account_id, audio_bytes AS bytes FROM tasks WHERE audio <> '' AND audio_removed_at = 0
UNION ALL SELECT account_id, sample_bytes + preview_bytes FROM clones
UNION ALL SELECT account_id, bytes FROM stored_responses"""


async def accounts_that_store(db: Queries, bytes_max: int) -> dict[int, int]:
    """The accounts that store at least `bytes_max`, with their bytes. Reads a row for every stored file."""
    sql = f"""SELECT account_id, sum(bytes) FROM ({_STORED}) AS stored
        GROUP BY account_id HAVING sum(bytes) >= $1"""
    return await fetch_map(db, int, int, sql, bytes_max)


async def stored_bytes(db: Queries, account_id: int) -> int:
    """How many bytes the account stores."""
    sql = f"SELECT coalesce(sum(bytes), 0) FROM ({_STORED}) AS stored WHERE account_id = $1"
    return await fetch_only(db, int, sql, account_id)


async def has_audio(db: Queries) -> bool:
    """Whether any speech is stored."""
    return await has_row(db, "SELECT 1 FROM tasks WHERE audio <> '' AND audio_removed_at = 0 LIMIT 1")


async def site_id(db: Transaction) -> str:
    """The id of this installation, which its storage has as a marker."""
    await db.fetch("UPDATE site SET id = $1 WHERE id = ''", secrets.token_hex(16))
    return await fetch_only(db, str, "SELECT id FROM site")


async def is_storage_marked(db: Queries) -> bool:
    """Whether a storage has the marker of this installation."""
    return await has_row(db, "SELECT 1 FROM site WHERE storage_marked = 1")


async def mark_storage(db: Transaction) -> bool:
    """Whether no storage had the marker. The caller writes it in this transaction, while others wait."""
    return await has_row(db, "UPDATE site SET storage_marked = 1 WHERE storage_marked = 0 RETURNING 1")


async def forget_storage(db: Transaction) -> None:
    """Makes this another installation: a restored one is not the one that was backed up."""
    await db.fetch("UPDATE site SET id = '', storage_marked = 0")


class Due(Struct, frozen=True):
    """The versions of the schema and of the configuration; whether calls are open past their deadline, jobs
    have an expired lease, or any lease; whether clones were refused and may have no other node; how many
    nodes are online."""

    schema: int
    config: int
    calls_overdue: bool
    leases_expired: bool
    leased: bool
    clones_refused: bool
    nodes_online: int

    @property
    def jobs(self) -> bool:
        """Whether jobs of compute nodes are to be requeued or to fail."""
        return self.leases_expired or self.clones_refused


def _exists(table: str, condition: str) -> str:
    return f"EXISTS (SELECT 1 FROM {table} WHERE {condition})"


def _jobs(condition: str) -> str:
    return " OR ".join(_exists(table, condition) for table in ("tasks", "clones"))


_DUE = f"""SELECT (SELECT coalesce(max(version), 0) FROM schema_version), (SELECT version FROM site),
    {_exists("calls", f"{OPEN} AND deadline < now_ms()")},
    {_jobs(f"{LEASED} AND lease_until <= now_ms()")},
    {_jobs(LEASED)},
    {_exists("clones", f"{QUEUED} AND refused_by <> ''")},
    (SELECT count(*) FROM nodes n WHERE {able.online("n")})"""


async def due(db: Queries) -> Due:
    """What is due now."""
    ((schema, config, *conditions, nodes),) = await db.fetch(_DUE)
    overdue, expired, leased, refused = map(bool, conditions)
    return Due(schema, config, overdue, expired, leased, refused, nodes)
