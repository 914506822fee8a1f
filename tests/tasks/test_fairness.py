"""Fair queueing: leases are round robin over accounts, regardless of the lengths of their queues."""

import pytest

from tests.store.fixtures import each_database
from tests.tasks.task_service import TaskService

pytestmark = pytest.mark.anyio


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
