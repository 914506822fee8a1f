"""The places of a pool: one holder gets its share of them, and leaves the rest to the others."""

import asyncio

import pytest

from myna.errors import Overloaded
from myna.shares import Shares

pytestmark = pytest.mark.anyio
LONG_S = 60.0


def pool(total: int, share: int) -> Shares[str]:
    return Shares[str](total, share, lambda: Overloaded("The pool is full.", 1))


def refused(shares: Shares[str], holder: str) -> bool:
    try:
        with shares.place(holder):
            return False
    except Overloaded as error:
        assert error.headers["Retry-After"] == "1"
        return True


def test_a_holder_gets_its_share_and_the_others_the_rest() -> None:
    shares = pool(5, 3)
    for _ in range(3):
        shares.take("a")
    assert refused(shares, "a") and not refused(shares, "b")
    shares.take("b", 2)
    assert refused(shares, "c") and (shares.in_use, shares.held_by("b")) == (5, 2)
    shares.release("a")
    assert not refused(shares, "a") and not refused(shares, "c")


def test_who_has_no_share_is_limited_by_the_total() -> None:
    shares = pool(3, 1)
    for _ in range(3):
        shares.take("")
    assert refused(shares, "") and refused(shares, "a")


async def test_who_waits_gets_a_place_in_turn_with_other_holders() -> None:
    shares = pool(2, 2)
    order: list[str] = []

    async def one(holder: str) -> None:
        await shares.wait_for(holder, LONG_S)
        order.append(holder)

    shares.take("a", 2)
    waiting = [asyncio.create_task(one(holder)) for holder in ("a", "a", "a", "b")]
    await asyncio.sleep(0)
    pending = set(waiting)
    while pending:
        shares.release(order[-1] if order else "a")
        _, pending = await asyncio.wait(pending, timeout=LONG_S, return_when=asyncio.FIRST_COMPLETED)
    assert order == ["a", "b", "a", "a"]
    assert shares.in_use == 2


async def test_who_waits_for_too_long_is_refused_and_holds_nothing() -> None:
    shares = pool(1, 1)
    await shares.wait_for("a", LONG_S)
    with pytest.raises(Overloaded):
        await shares.wait_for("b", 0.01)
    shares.release("a")
    assert shares.in_use == 0 and not refused(shares, "b")


@pytest.mark.parametrize("is_served", [False, True])
async def test_who_is_cancelled_holds_nothing(is_served: bool) -> None:
    shares = pool(1, 1)
    shares.take("a")
    waiting = asyncio.create_task(shares.wait_for("b", LONG_S))
    await asyncio.sleep(0)
    if is_served:
        shares.release("a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert shares.in_use == (0 if is_served else 1)


def test_each_change_is_noted() -> None:
    seen: list[tuple[str, int]] = []
    shares = Shares[str](2, 2, Overloaded, lambda holder, places: seen.append((holder, places)))
    with shares.place("a"), shares.place("a"):
        pass
    assert seen == [("a", 1), ("a", 2), ("a", 1), ("a", 0)]
