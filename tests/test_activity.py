"""Who changed what: recorded in the transaction of the change, listed newest first."""

import shlex

import pytest

from myna import activity
from myna.activity import Actor, words
from myna.cli import build
from myna.errors import CommandError
from myna.store.database import Transaction
from tests.store.books import Books
from tests.store.conftest import dialect as dialect

pytestmark = pytest.mark.anyio
ROOT = Actor(account_id=0, name="root", address="")


async def recorded(books: Books, actor: Actor, *command: str, account_id: int = 0) -> None:
    await books.db.transaction(lambda connection: activity.record(connection, actor, command, account_id))


async def test_a_change_has_its_time_its_actor_its_command_and_its_account(sqlite_books: Books) -> None:
    books = sqlite_books
    await books.stop_clock()
    ann = await books.customer()
    await recorded(
        books, Actor(7, "bob", "192.0.2.1"), "account", "grant", "a b", "5", account_id=ann.account_id
    )
    ((now,),) = await books.sql("SELECT now_ms()")
    row = (await activity.page(books.db))[0]
    assert (row.created_at, row.actor_id, row.actor, row.address) == (now, 7, "bob", "192.0.2.1")
    assert (row.command, row.account_id, row.account) == (
        "myna account grant 'a b' 5",
        ann.account_id,
        ann.name,
    )


async def test_a_change_that_is_rolled_back_leaves_no_row(books: Books) -> None:
    async def work(connection: Transaction) -> None:
        await activity.record(connection, ROOT, ["key", "revoke", "1"])
        raise CommandError("There is no key 1.")

    with pytest.raises(CommandError):
        await books.db.transaction(work)
    assert await activity.page(books.db, prefix="key") == []


async def test_changes_are_listed_newest_first_in_pages(sqlite_books: Books) -> None:
    books = sqlite_books
    for n in range(5):
        await recorded(books, ROOT, "node", "drain", str(n))
    first = await activity.page(books.db, limit=2, prefix="node")
    rest = await activity.page(books.db, limit=9, prefix="node", before=first[-1].id)
    assert [row.command[-1] for row in [*first, *rest]] == list("43210")


async def test_changes_are_selected_by_actor_account_and_command(books: Books) -> None:
    ann, bob = await books.customer(), await books.customer()
    await recorded(books, Actor(ann.account_id, "ann", ""), "node", "a", account_id=bob.account_id)
    await recorded(books, ROOT, "node", "b", account_id=bob.account_id)
    await recorded(books, ROOT, "node", "c", account_id=ann.account_id)
    await recorded(books, ROOT, "channel", "d")

    async def found(prefix: str = "node", **select: int) -> list[str]:
        return [row.command[-1] for row in await activity.page(books.db, prefix=prefix, **select)]

    assert await found() == ["c", "b", "a"]
    assert await found(prefix="channel") == ["d"]
    assert await found(prefix="%") == []
    assert await found(actor_id=ann.account_id) == ["a"]
    assert await found(actor_id=0) == ["c", "b"]
    assert await found(account_id=bob.account_id) == ["b", "a"]
    assert await found(account_id=bob.account_id, actor_id=0) == ["b"]


@pytest.mark.parametrize(
    ("name", "memo", "units"),
    [
        ("ann", "thanks", 5),
        ("-ann", "", -5),
        ("--json", "-1", 5),
        ("--", "--json", -5),
        ("a 'b' $c", "a\\b", 5),
        ("-5", "", 5),
    ],
)
async def test_words_parse_again_to_the_same_call(name: str, memo: str, units: int) -> None:
    line = shlex.join(words("account", "grant", name, units, memo=memo))
    command, bound, _ = build().parse_args(line, exit_on_error=False, print_error=False)
    assert command.__name__ == "grant"
    assert {**bound.arguments} == {"name": name, "units": units, "memo": memo}


def test_options_without_a_value_are_left_out() -> None:
    assert words("a", "b", c=None, d=False, e=True, f=["x", "-y"], g_h=0) == [
        *("a", "b", "--e", "--f", "x", "--f=-y", "--g-h", "0")
    ]
