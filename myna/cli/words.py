"""myna voice word add|list|remove"""

from typing import Annotated

from cyclopts import App, Parameter
from msgspec import structs

from myna import accounts, lexicon
from myna.activity import command_line
from myna.cli.console import Json, seconds, show, show_rows, with_database
from myna.store.database import Database, Queries
from myna.store.queries import words as store
from myna.store.queries.accounts import AccountRow
from myna.store.queries.words import SITE, WordRow

app = App(name="word", help="How words are read, for the site or for one account.")
Word = Annotated[str, Parameter(help="The word as it is written in texts.")]
Account = Annotated[str, Parameter(help="The account whose texts it is for; default: those of all.")]


@app.command
def add(
    word: Word,
    reading: Annotated[str, Parameter(help="Pinyin (hang2zhang3), words (MY-nuh) or IPA.")],
    /,
    *,
    account: Account = "",
    json: Json = False,
) -> None:
    """Set how a word is read."""

    async def work(db: Database) -> WordRow:
        return await lexicon.put(db, await _owner(db, account), word, reading, by=command_line())

    show(_shown(with_database(work, json=json), account), json)


@app.command(name="list")
def list_all(*, account: Account = "", json: Json = False) -> None:
    """List the words of the site, or of an account."""

    async def work(db: Database) -> list[WordRow]:
        owner = await _owner(db, account)
        return await store.of_owner(db, owner.id if owner else SITE)

    rows = [_shown(row, account) for row in with_database(work, json=json)]
    show_rows(rows, json, empty="There is no word yet.")


@app.command
def remove(word: Word, /, *, account: Account = "", json: Json = False) -> None:
    """Remove a word."""

    async def work(db: Database) -> None:
        await lexicon.remove(db, await _owner(db, account), word, by=command_line())

    with_database(work, json=json)
    show({"word": word, "account": account, "removed": True}, json)


async def _owner(db: Queries, account: str) -> AccountRow | None:
    return await accounts.find(db, account) if account else None


def _shown(row: WordRow, account: str) -> dict[str, object]:
    return {**structs.asdict(row), "created_at": seconds(row.created_at), "account": account}
