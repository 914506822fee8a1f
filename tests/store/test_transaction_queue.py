"""Transactions of one account wait for each other, not charges and not other accounts for them."""

import asyncio

import pytest

from myna.accounts.sign_in import sessions
from myna.errors import Overloaded
from myna.store.batch import Charged
from myna.store.database import Queries, Transaction
from myna.store.transaction_queue import OWNER_WAITING_MAX, OWNERS, TransactionQueue, transactions_of
from tests.rig.waiting import SOON_S
from tests.sign_in.conftest import ADDRESS, BROWSER, PASSWORD, person
from tests.store.books import Books, charge_of
from tests.store.fixtures import each_database

WAITING_MAX = OWNERS * OWNER_WAITING_MAX

SYSTEM = ""


class Line:
    """Transactions that run until they are let go, in the order in which they got a place."""

    def __init__(self, places: int) -> None:
        self.queue = TransactionQueue(places)
        self.running: list[tuple[str, asyncio.Event]] = []
        self.served: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str) -> None:
        """Starts a transaction: its owner is the name's first letter, nobody's if that is `-`."""
        self.tasks[name] = asyncio.create_task(self._run(name))
        await asyncio.sleep(0)

    async def go(self) -> None:
        """Ends the transaction that got its place first."""
        self.running.pop(0)[1].set()
        await settle()

    async def finish(self) -> str:
        """Ends all, and returns the order in which they were served."""
        while self.running:
            await self.go()
        return " ".join(self.served)

    async def _run(self, name: str) -> None:
        with transactions_of(name[0].replace("-", SYSTEM)):
            async with self.queue.turn():
                ended = asyncio.Event()
                self.running.append((name, ended))
                self.served.append(name)
                await ended.wait()


async def settle() -> None:
    """Lets all tasks run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("places", "come", "served"),
    [
        (1, "a1 a2 a3 b1 b2 c1", "a1 a2 b1 c1 a3 b2"),  # owners in turn
        (1, "a1 -1 -2 a2 b1 -3", "a1 -1 a2 -2 b1 -3"),  # the system gets every second place
        (1, "-1 -2 -3", "-1 -2 -3"),
        (4, "a1 a2 a3 b1 a4 -1", "a1 a2 b1 -1 a3 a4"),  # half of the places at most
        (4, "-1 -2 -3 -4 -5", "-1 -2 -3 -4 -5"),
        (3, "a1 b1 c1 a2 b2", "a1 b1 c1 a2 b2"),
    ],
)
async def test_owners_are_served_in_turn_and_have_a_share_of_the_places(
    places: int, come: str, served: str
) -> None:
    line = Line(places)
    for name in come.split():
        await line.come(name)
    assert await line.finish() == served


async def test_only_so_many_transactions_wait_and_the_systems_always_may() -> None:
    line = Line(1)
    for number in range(1 + OWNER_WAITING_MAX):
        await line.come(f"a{number}")
    refusals: list[Overloaded] = []

    async def refused(name: str) -> None:
        await line.come(name)
        with pytest.raises(Overloaded) as error:
            await line.tasks[name]
        refusals.append(error.value)

    await refused("a")
    for number in range(WAITING_MAX - OWNER_WAITING_MAX):
        await line.come(f"{chr(ord('b') + number // OWNER_WAITING_MAX)}{number}")
    await refused("z")
    assert [error.headers["Retry-After"] for error in refusals] == ["1", "1"]
    assert "nothing was changed" in refusals[0].message
    for number in range(100):
        await line.come(f"-{number}")
    await line.finish()
    assert len(line.served) == 1 + WAITING_MAX + 100
    await line.come("a again")
    assert line.served[-1] == "a again"
    await line.finish()


async def test_a_charge_waits_for_one_transaction_of_sqlite_however_many_wait(sqlite_books: Books) -> None:
    customer = await sqlite_books.customer()
    ended = 0

    async def rename(connection: Transaction) -> None:
        await connection.fetch("UPDATE keys SET name = 'another' WHERE id = $1", customer.key_id)

    async def change() -> None:
        nonlocal ended
        with transactions_of("account 1"):
            await sqlite_books.db.transaction(rename)
        ended += 1

    changes = [asyncio.create_task(change()) for _ in range(1 + OWNER_WAITING_MAX)]
    await asyncio.sleep(0)
    (outcome,) = await asyncio.wait_for(sqlite_books.charge(charge_of(customer)), SOON_S)
    assert isinstance(outcome, Charged)
    before = ended
    await asyncio.gather(*changes)
    assert before <= 2


async def test_one_owner_does_not_take_all_connections(postgres_books: Books) -> None:
    go = asyncio.Event()

    async def hold(_: Transaction) -> None:
        await go.wait()

    async def at_once(connection: Transaction) -> None:
        await connection.fetch("SELECT 1")

    with transactions_of("a"):
        held = [asyncio.create_task(postgres_books.db.transaction(hold)) for _ in range(8)]
        await asyncio.sleep(0)
    async with asyncio.timeout(SOON_S):
        with transactions_of("b"):
            await postgres_books.db.transaction(at_once)
        await postgres_books.db.transaction(at_once)
    go.set()
    await asyncio.gather(*held)


@each_database
async def test_queries_of_pages_of_one_owner_leave_turns_to_others(books: Books) -> None:
    order: list[str] = []
    other_was_served = asyncio.Event()

    async def query(owner: str) -> None:
        async def work(connection: Queries) -> None:
            order.append(owner)
            if books.url and owner == "many":  # a transaction on SQLite may not wait
                await other_was_served.wait()
            await connection.fetch("SELECT 1")

        with transactions_of(owner):
            await books.db.read(work)
        if owner == "one":
            other_was_served.set()

    await asyncio.wait_for(asyncio.gather(*(query(owner) for owner in ["many"] * 30 + ["one"])), SOON_S)
    assert order.index("one") <= 3


async def test_who_is_signed_in_does_not_wait_for_others_of_the_same_address(postgres_books: Books) -> None:
    await person(postgres_books)
    await postgres_books.stop_clock()
    token = await sessions.sign_in(postgres_books.db, "ann", PASSWORD, ADDRESS, BROWSER)
    await postgres_books.move_clock(sessions.SEEN_EVERY_MS)
    go = asyncio.Event()

    async def hold(_: Transaction) -> None:
        await go.wait()

    with transactions_of(f"address {ADDRESS}"):
        held = [asyncio.create_task(postgres_books.db.transaction(hold)) for _ in range(30)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(sessions.find(postgres_books.db, token), SOON_S)
    go.set()
    await asyncio.gather(*held, return_exceptions=True)
