"""Queries on the bytes that accounts store: speech, samples and previews of cloned voices, and responses; and
what the database says of the storage of files."""

import secrets

from myna.store.database import Queries, Transaction

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


async def has_audio(db: Queries) -> bool:
    """Whether any speech is stored."""
    return bool(await db.fetch("SELECT 1 FROM tasks WHERE audio <> '' AND audio_removed_at = 0 LIMIT 1"))


async def site_id(db: Transaction) -> str:
    """The id of this installation, which its storage has as a marker."""
    await db.fetch("UPDATE site SET id = $1 WHERE id = ''", secrets.token_hex(16))
    ((found,),) = await db.fetch("SELECT id FROM site")
    return str(found)


async def is_marked(db: Queries) -> bool:
    """Whether a storage has the marker of this installation."""
    return bool(await db.fetch("SELECT 1 FROM site WHERE storage_marked = 1"))


async def mark(db: Transaction) -> bool:
    """Whether no storage had the marker. The caller writes it in this transaction, while others wait."""
    return bool(await db.fetch("UPDATE site SET storage_marked = 1 WHERE storage_marked = 0 RETURNING 1"))


async def forget(db: Transaction) -> None:
    """Makes this another installation: a restored one is not the one that was backed up."""
    await db.fetch("UPDATE site SET id = '', storage_marked = 0")
