"""Fair queueing: leases are round robin over accounts, regardless of the lengths of their queues."""

import itertools

import pytest

from tests.ledger.databases import each_database
from tests.store.books import AUDIO, Books, Customer
from tests.tasks.task_service import TaskService, proof_of

pytestmark = pytest.mark.anyio

QUEUED_TASKS = 5_000
OTHERS = 49
ARRIVALS = (1, 0, 2, 0)
"""The numbers of new accounts during each job, repeated."""
MANY_TASKS = (
    "INSERT INTO calls (id, account_id, key_id, pays, units, state, created_at, deadline)"
    " SELECT {id}, $1, $2, 2, 1, 0, now_ms(), now_ms() + 600000 FROM {numbers}",
    "INSERT INTO ledger (call_id, kind, account_id, units, created_at)"
    " SELECT id, 0, account_id, -1, created_at FROM calls WHERE account_id = $1",
    "UPDATE accounts SET balance = balance - CAST($2 AS BIGINT) WHERE id = $1",
    "INSERT INTO tasks (account_id, call_id, status, voice_id, speed, text, chars, created_at, deadline)"
    " SELECT account_id, id, 0, 'a voice', 1.0, '你好', 2, created_at, deadline FROM calls"
    " WHERE account_id = $1 ORDER BY id",
)


async def many_tasks(books: Books, customer: Customer, count: int) -> None:
    """Inserts charged tasks with a few statements."""
    if books.url:
        made = {"id": "decode(lpad(to_hex($1 * 1000000 + n), 32, '0'), 'hex')"}
        made["numbers"] = f"generate_series(1, {count}) AS s(n)"
    else:
        made = {"id": "unhex(printf('%032x', $1 * 1000000 + n))"}
        counted = f"SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count}"
        made["numbers"] = f"(WITH RECURSIVE s(n) AS ({counted}) SELECT n FROM s)"
    await books.sql(
        "UPDATE rollup_state SET filled = 0"
    )  # as after an upgrade: the reports lack these entries
    calls, *rest = MANY_TASKS
    await books.sql(calls.format(**made), customer.account_id, customer.key_id)
    for statement in rest:
        await books.sql(
            statement, *([customer.account_id, count] if "$2" in statement else [customer.account_id])
        )


async def test_a_long_queue_of_one_account_does_not_delay_others(service: TaskService) -> None:
    """The node has one slot, which is always used. A first order waits for at most two jobs."""
    node, busy = await service.node(slots=1), await service.books.customer(units=QUEUED_TASKS)
    await many_tasks(service.books, busy, QUEUED_TASKS)
    came: dict[str, int] = {}
    waited: dict[str, int] = {}
    for ended, arrivals in enumerate(itertools.cycle(ARRIVALS)):
        job = await service.leased(node)
        if job.text in came:
            waited[job.text] = ended - came[job.text]
        if len(waited) == OTHERS:
            break
        for _ in range(min(arrivals, OTHERS - len(came))):  # during the job
            newcomer = await service.books.customer()
            await service.ordered(newcomer, text=newcomer.name)
            came[newcomer.name] = ended
        assert await service.tasks.complete(node, proof_of(job), AUDIO)
    assert max(waited.values()) < 3
    assert await service.books.balance(busy) == 0


@each_database
async def test_leases_are_round_robin_over_accounts(service: TaskService) -> None:
    node, customers = await service.node(), [await service.books.customer(units=20) for _ in range(3)]
    for customer, count in zip(customers, (9, 3, 3), strict=True):
        for _ in range(count):
            await service.ordered(customer, text=customer.name)
    turns = [(await service.leased(node)).text for _ in range(15)]
    names = [customer.name for customer in customers]
    assert turns == [*names * 3, *[names[0]] * 6]


async def test_an_idle_account_is_served_first_without_accumulating_turns(service: TaskService) -> None:
    node, (steady, rare) = await service.node(), [await service.books.customer(units=30) for _ in range(2)]
    for _ in range(10):
        await service.ordered(steady, text="steady")
    await service.ordered(rare, text="rare")
    assert [(await service.leased(node)).text for _ in range(6)] == ["steady", "rare", *["steady"] * 4]
    for _ in range(3):
        await service.ordered(rare, text="rare")
    assert [(await service.leased(node)).text for _ in range(5)] == [
        "rare", "steady", "rare", "steady", "rare",
    ]  # fmt: skip
