"""The fair queue serves keys round robin."""

import random

import pytest

from myna.engines.pool.fair_queue import FairQueue


def _filled(*items: str) -> FairQueue[str]:
    """The items, each under its first letter as the key."""
    queue: FairQueue[str] = FairQueue()
    for item in items:
        queue.put(item[0], item)
    return queue


def _served(queue: FairQueue[str]) -> str:
    """Takes the next item and records it as served."""
    item = queue.take()
    queue.served(item[0])
    return item


def test_keys_are_served_round_robin_and_each_in_order_of_arrival() -> None:
    queue = _filled("a1", "a2", "a3", "b1", "b2", "c1")
    assert [_served(queue) for _ in range(6)] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    with pytest.raises(IndexError):
        queue.take()


def test_a_requeued_item_is_next() -> None:
    queue = _filled("a1", "b1", "a2")
    assert _served(queue) == "a1"
    queue.requeue("a", "a1")
    assert [queue.take() for _ in range(3)] == ["a1", "a2", "b1"]
    with pytest.raises(IndexError):
        queue.take()


def test_a_requeued_item_precedes_later_items_of_its_key() -> None:
    queue = _filled("a1", "b1")
    assert _served(queue) == "a1"
    queue.put("a", "a2")
    queue.requeue("a", "a1")
    assert [_served(queue) for _ in range(3)] == ["a1", "b1", "a2"]


def test_an_item_taken_but_not_served_does_not_count_for_its_key() -> None:
    queue = _filled("a1", "a2", "b1")
    assert queue.take() == "a1"
    assert [_served(queue), _served(queue)] == ["a2", "b1"]


def test_the_key_served_last_is_served_after_the_others() -> None:
    queue = _filled("a", "b")
    assert [_served(queue), _served(queue)] == ["a", "b"]
    queue.put("b", "b")
    queue.put("a", "a")
    assert queue.take() == "a"
    assert queue.remove("b", "b") and not queue.remove("b", "b") and not queue


def test_a_removed_item_is_not_served() -> None:
    queue = _filled("a1", "b1", "b2", "c1")
    assert queue.remove("a", "a1") and not queue.remove("a", "a1") and not queue.remove("b", "c1")
    assert len(queue) == 3
    assert [_served(queue) for _ in range(3)] == ["b1", "c1", "b2"]


@pytest.mark.parametrize("others", ["b", "bcdef"])
def test_a_key_with_many_items_gets_the_share_of_every_other_key(others: str) -> None:
    """A served item is added again after the next one was taken, as callers send their next request."""
    queue = _filled(*"a" * 40, *others)
    served = [_served(queue)]
    for _ in range(100 * len("a" + others)):
        served.append(_served(queue))
        queue.put(served[-2], served[-2])
    assert all(99 <= served.count(who) <= 101 for who in "a" + others)


@pytest.mark.parametrize("callers", [8, 64])
@pytest.mark.parametrize("accounts", [64, 10_000])
def test_a_returning_key_does_not_wait_for_all_new_keys(callers: int, accounts: int) -> None:
    """A constant number of callers, each with a random account. A queue that served the key that was served
    longest ago would exceed these bounds."""
    queue: FairQueue[tuple[int, int]] = FairQueue()
    chance = random.Random(1)
    waits: list[int] = []
    for now in range(callers + 20_000):
        if now >= callers:
            account, came = queue.take()
            queue.served(account)
            waits.append(now - came)
        account = chance.randrange(accounts)
        queue.put(account, (account, now))
    waits.sort()
    assert waits[len(waits) * 99 // 100] <= 4 * callers
    assert waits[-1] <= 8 * callers
