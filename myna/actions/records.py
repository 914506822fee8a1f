"""Changes of speech records: an account's texts and their audio."""

from typing import Annotated

from msgspec import structs

from myna.accounts.accounts import find
from myna.actions import Action, Change, Field, Files
from myna.errors import CommandError
from myna.store.database import Queries
from myna.store.queries import tasks as store

RECORDS_MAX = 200


class DeleteRecords(Action[int], frozen=True):
    """Delete finished records: their text and audio. The calls and their units stay."""

    command = "record delete"
    account: Annotated[str, Field("The name of the account.", argument="ACCOUNT")]
    ids: Annotated[tuple[int, ...], Field("The ids of the records.", argument="ID")]

    def check(self) -> None:
        if not 1 <= len(set(self.ids)) <= RECORDS_MAX:
            raise CommandError("Name 1 to {records_max} records.", records_max=RECORDS_MAX)

    async def prepare(self, db: Queries, files: Files, owner_id: int | None) -> None:
        """Deletes the files first: if the process dies in between, the records are still there and can be
        deleted again."""
        account = await find(db, self.account)
        found = {} if owner_id not in (None, account.id) else await store.deletable(db, account.id, self.ids)
        if missing := sorted({*self.ids} - found.keys()):
            raise CommandError(
                "{name!r} has no finished record {missing}.", name=account.name, missing=missing[0]
            )
        await files.delete(audio=[name for name in found.values() if name])

    async def run(self, change: Change) -> int:
        account = await change.account(self.account)
        wanted = sorted(set(self.ids))
        await store.delete(change.db, account.id, wanted)
        change.performed = [structs.replace(self, ids=tuple(wanted))]
        return len(wanted)
