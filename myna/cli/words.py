"""myna voice word add|list|remove"""

from typing import Annotated

from cyclopts import App, Parameter
from msgspec import structs

from myna.accounts import accounts
from myna.actions.words import AddWord, RemoveWord
from myna.cli.actions import register
from myna.cli.console import Json, seconds, show_rows, with_database
from myna.store.database import Database
from myna.store.queries import voices as store
from myna.store.queries.voices import SITE, WordRow

app = App(name="word", help="How words are read, for the site or for one account.")


@app.command(name="list")
def list_all(
    *,
    account: Annotated[
        str, Parameter(help="List the words of this account; default: those of the site.")
    ] = "",
    json: Json = False,
) -> None:
    """List the words of the site, or of an account."""

    async def work(db: Database) -> list[WordRow]:
        return await store.words(db, (await accounts.find(db, account)).id if account else SITE)

    rows = [_shown(row, account) for row in with_database(work, json=json)]
    show_rows(rows, json, empty="There is no word yet.")


def _shown(row: WordRow, account: str) -> dict[str, object]:
    return {**structs.asdict(row), "created_at": seconds(row.created_at), "account": account}


register(app, AddWord, lambda action, row: _shown(row, action.account))
register(app, RemoveWord, lambda action, _: {"word": action.word, "account": action.account, "removed": True})
