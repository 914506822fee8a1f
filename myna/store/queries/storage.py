"""Queries on the bytes that accounts store: speech, samples and previews of cloned voices, and responses."""

from myna.store.database import Queries

_STORED = """
SELECT account_id, audio_bytes AS bytes FROM tasks WHERE audio <> '' AND audio_removed_at = 0
UNION ALL SELECT account_id, sample_bytes + preview_bytes FROM clones
UNION ALL SELECT account_id, bytes FROM stored_responses"""


async def reached(db: Queries, bytes_max: int) -> dict[int, int]:
    """The accounts that store at least `bytes_max`, with their bytes. Reads a row for every stored file."""
    rows = await db.fetch(
        f"SELECT account_id, sum(bytes) FROM ({_STORED}) AS stored"
        " GROUP BY account_id HAVING sum(bytes) >= $1",
        bytes_max,
    )
    return {int(account_id): int(stored) for account_id, stored in rows}


async def of_account(db: Queries, account_id: int) -> int:
    """How many bytes the account stores."""
    ((stored,),) = await db.fetch(
        f"SELECT coalesce(sum(bytes), 0) FROM ({_STORED}) AS stored WHERE account_id = $1", account_id
    )
    return int(stored)
