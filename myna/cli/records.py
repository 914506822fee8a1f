"""myna record list|delete"""

from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from myna.accounts import accounts
from myna.actions.records import DeleteRecords
from myna.cli.actions import register
from myna.cli.console import Json, Whole, Wide, seconds, show_rows, with_database
from myna.store.batch import TaskStatus
from myna.store.database import Queries
from myna.store.queries import tasks as store
from myna.store.queries.tasks import TaskRow

app = App(name="record", help="Speech records of an account.")
Name = Annotated[str, Parameter(help="The name of the account.")]


@app.command(name="list")
def list_all(
    account: Name,
    *,
    limit: Annotated[
        Whole, Parameter(help="How many to list, 1 to 10000.", validator=Number(gte=1, lte=10_000))
    ] = 50,
    before: Annotated[
        Whole,
        Parameter(
            help="List records older than this `id` of the list.", validator=Number(gte=1), show_default=False
        ),
    ] = 2**53,
    wide: Wide = False,
    json: Json = False,
) -> None:
    """List the speech records of an account, newest first."""

    async def read(db: Queries) -> list[TaskRow]:
        owner = await accounts.find(db, account)
        return await store.page(db, owner.id, min(before, 2**53), limit)

    rows = with_database(lambda db: db.snapshot(read), json=json)
    brief = ("id", "status", "created_at", "chars", "text")
    shown = [_shown(row) for row in rows]
    show_rows(shown, json, empty="The account has no records.", brief=brief, wide=wide)


register(app, DeleteRecords, lambda _, count: {"deleted": count})


def _shown(row: TaskRow) -> dict[str, object]:
    return {
        "id": row.id,
        "status": TaskStatus(row.status).name.lower(),
        "created_at": seconds(row.created_at),
        "chars": row.chars,
        "audio": row.audio,
        "text": row.text,
    }
