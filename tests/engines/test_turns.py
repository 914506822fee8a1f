"""Who waits for an engine is served in turns that go round."""

import random

import pytest

from myna.engines.turns import Turns


def _filled(*items: str) -> Turns[str]:
    """The items, each under the turn of its first letter."""
    turns: Turns[str] = Turns()
    for item in items:
        turns.put(item[0], item)
    return turns


def _served(turns: Turns[str]) -> str:
    """Takes the next one and has it served."""
    item = turns.take()
    turns.served(item[0])
    return item


def test_turns_go_round_and_each_is_served_in_order_of_arrival() -> None:
    turns = _filled("a1", "a2", "a3", "b1", "b2", "c1")
    assert [_served(turns) for _ in range(6)] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    with pytest.raises(IndexError):
        turns.take()


def test_what_was_taken_in_vain_is_next_again() -> None:
    turns = _filled("a1", "b1", "a2")
    assert _served(turns) == "a1"
    turns.put_back("a", "a1")
    assert [turns.take() for _ in range(3)] == ["a1", "a2", "b1"]
    with pytest.raises(IndexError):
        turns.take()


def test_what_was_taken_in_vain_goes_before_who_came_before_the_rest_of_its_turn() -> None:
    turns = _filled("a1", "b1")
    assert _served(turns) == "a1"
    turns.put("a", "a2")
    turns.put_back("a", "a1")
    assert [_served(turns) for _ in range(3)] == ["a1", "b1", "a2"]


def test_what_is_taken_but_not_worth_its_turn_costs_nothing() -> None:
    turns = _filled("a1", "a2", "b1")
    assert turns.take() == "a1"
    assert [_served(turns), _served(turns)] == ["a2", "b1"]


def test_a_turn_that_had_nothing_waiting_keeps_its_place_behind_those_served_before_it() -> None:
    turns = _filled("a", "b")
    assert [_served(turns), _served(turns)] == ["a", "b"]
    turns.put("b", "b")
    turns.put("a", "a")
    assert turns.take() == "a"
    assert turns.remove("b", "b") and not turns.remove("b", "b") and not turns


def test_what_leaves_is_not_served() -> None:
    turns = _filled("a1", "b1", "b2", "c1")
    assert turns.remove("a", "a1") and not turns.remove("a", "a1") and not turns.remove("b", "c1")
    assert len(turns) == 3
    assert [_served(turns) for _ in range(3)] == ["b1", "c1", "b2"]


@pytest.mark.parametrize("others", ["b", "bcdef"])
def test_one_who_sends_much_has_no_more_than_each_of_the_others(others: str) -> None:
    """Who is served comes again, but only when the next one has already begun, as callers do."""
    turns = _filled(*"a" * 40, *others)
    served = [_served(turns)]
    for _ in range(100 * len("a" + others)):
        served.append(_served(turns))
        turns.put(served[-2], served[-2])
    assert all(99 <= served.count(who) <= 101 for who in "a" + others)


@pytest.mark.parametrize("callers", [8, 64])
@pytest.mark.parametrize("accounts", [64, 10_000])
def test_one_who_comes_again_does_not_wait_for_all_who_come_later(callers: int, accounts: int) -> None:
    """As many callers as ever, each time with another account. First come, first served would let all wait as
    long as the line is; with the turn that was served longest ago first, these bounds are passed."""
    turns: Turns[tuple[int, int]] = Turns()
    chance = random.Random(1)
    waits: list[int] = []
    for now in range(callers + 20_000):
        if now >= callers:
            account, came = turns.take()
            turns.served(account)
            waits.append(now - came)
        account = chance.randrange(accounts)
        turns.put(account, (account, now))
    waits.sort()
    assert waits[len(waits) * 99 // 100] <= 4 * callers
    assert waits[-1] <= 8 * callers
