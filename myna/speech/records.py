"""Speech records: an account's texts and their audio."""

import asyncio
from collections.abc import Sequence

from myna.accounts import activity
from myna.accounts.activity import Actor
from myna.errors import CommandError
from myna.store.database import Database, Transaction
from myna.store.files.audio import AudioStore
from myna.store.queries import tasks as store
from myna.store.queries.accounts import AccountRow

AT_ONCE_MAX = 200


async def delete(
    db: Database, audio: AudioStore, account: AccountRow, task_ids: Sequence[int], by: Actor
) -> int:
    """Deletes records of the account: text and audio are removed, the call and its units stay. Returns how
    many were deleted. Raises CommandError, and deletes nothing, if one is not the account's or has not ended.
    """
    wanted = sorted(set(task_ids))
    if not 1 <= len(wanted) <= AT_ONCE_MAX:
        raise CommandError("Name 1 to {at_once_max} records.", at_once_max=AT_ONCE_MAX)
    found = await store.deletable(db, account.id, wanted)
    if missing := [task_id for task_id in wanted if task_id not in found]:
        raise CommandError(
            "{name!r} has no finished record {missing}.", name=account.name, missing=missing[0]
        )
    # The files first: if the process dies in between, the records are still there and can be deleted again.
    await asyncio.to_thread(audio.each, audio.delete, [name for name in found.values() if name])

    async def work(connection: Transaction) -> int:
        await store.delete(connection, account.id, wanted)
        command = activity.words("record", "delete", account.name, *wanted)
        await activity.record(connection, by, command, account.id)
        return len(wanted)

    return await db.transaction(work)
