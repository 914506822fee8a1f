"""Ids, timeouts, shares of a pool, the estimate of a balance."""

import asyncio
import multiprocessing
import os
import threading
import time
import uuid
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from myna.errors import Overloaded
from myna.lib.aio import TICK_S, Timeouts
from myna.lib.ids import CHUNKS, new_id, new_name
from myna.lib.shares import Shares
from myna.office.pages.home import DAYS_MAX, BalanceEstimate, estimate

MANY = 3 * CHUNKS


def test_an_id_is_a_uuid_of_version_7_with_the_current_time() -> None:
    before = time.time_ns() // 1_000_000
    found = [new_id() for _ in range(MANY)]
    after = time.time_ns() // 1_000_000
    for one in found:
        read = uuid.UUID(bytes=one)
        assert (read.version, read.variant) == (7, uuid.RFC_4122)
        assert before <= int.from_bytes(one[:6], "big") <= after


def test_a_forked_process_makes_different_ids() -> None:
    new_name()  # the parent's stock of ids is not empty
    reading, writing = os.pipe()
    child = multiprocessing.get_context("fork").Process(
        target=lambda: os.write(writing, "".join(new_name() for _ in range(50)).encode())
    )
    child.start()
    child.join()
    output = os.read(reading, 1 << 16).decode()
    os.close(reading)
    os.close(writing)
    theirs = {output[begin : begin + 32] for begin in range(0, len(output), 32)}
    assert len(theirs) == 50
    assert not theirs & {new_name() for _ in range(CHUNKS)}


SOON_S = 60.0


def future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


async def test_a_callback_runs_soon_after_its_deadline_and_not_before() -> None:
    timeouts, waiting, called = Timeouts(), future(), future()
    start = time.monotonic()
    timeouts.add(waiting, start + 0.1, lambda: called.set_result(time.monotonic() - start))
    assert await asyncio.wait_for(called, SOON_S) >= 0.1
    assert not waiting.done()


async def test_only_expired_callbacks_run_and_each_once() -> None:
    timeouts, start, called = Timeouts(), time.monotonic(), []
    waits = [future() for _ in range(20)]
    for number, waiting in enumerate(waits):
        deadline = start + (0.01 if number % 2 else SOON_S)
        timeouts.add(waiting, deadline, partial(called.append, number))
    ends = future()
    timeouts.add(ends, start + 5 * TICK_S, partial(ends.set_result, None))
    await asyncio.wait_for(ends, SOON_S)
    assert called == list(range(1, 20, 2))


async def test_a_removed_callback_does_not_run() -> None:
    timeouts, start, called = Timeouts(), time.monotonic(), []
    done, other = future(), future()
    timeouts.add(done, start, partial(called.append, "done"))
    timeouts.add(other, start, partial(other.set_result, None))
    timeouts.remove(done)
    timeouts.remove(done)
    await asyncio.wait_for(other, SOON_S)
    assert called == []


async def test_a_callback_that_raises_is_reported_and_the_others_run() -> None:
    loop, reported = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    timeouts, start, fault = Timeouts(), time.monotonic(), RuntimeError("broken")
    other, later = future(), future()

    def fails() -> None:
        raise fault

    timeouts.add("one", start, fails)
    timeouts.add("two", start, partial(other.set_result, None))
    timeouts.add("three", start + 3 * TICK_S, partial(later.set_result, None))
    async with asyncio.timeout(SOON_S):
        await other
        await later
    assert reported == [fault]


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
    assert refused(shares, "c") and shares.in_use == 5
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


class Counted(str):
    """A holder that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


async def test_the_work_for_a_place_does_not_grow_with_those_who_wait() -> None:
    shares, count = pool(1, 1), 400
    shares.take("a")
    waiting = [asyncio.create_task(shares.wait_for(Counted("b"), LONG_S)) for _ in range(count)]
    await asyncio.sleep(0)
    Counted.compared = 0
    shares.release("a")
    for one in waiting:
        await one
        shares.release(Counted("b"))
    assert Counted.compared < 20 * count


@pytest.mark.parametrize(
    ("balance", "used", "age_days", "expected"),
    [
        (70, [10] * 30, 400, BalanceEstimate(70, 7, 7)),
        (69, [10] * 30, 400, BalanceEstimate(70, 7, 6)),  # a day that has begun isn't a whole one
        (70, [1000] * 23 + [0] * 6 + [7], 400, BalanceEstimate(7, 7, 70)),  # the last week counts
        (30, [0] * 27 + [10, 20, 30], 3, BalanceEstimate(60, 3, 1)),
        (30, [0] * 29 + [10], 1, BalanceEstimate(10, 1, 3)),  # an account of today
        (0, [10] * 30, 400, BalanceEstimate(70, 7, 0)),
        (70, [0] * 30, 400, BalanceEstimate(0, 7, None)),
        (2**53, [0] * 29 + [1], 400, BalanceEstimate(1, 7, None)),
        (DAYS_MAX, [0] * 29 + [1], 1, BalanceEstimate(1, 1, DAYS_MAX)),
    ],
)
def test_the_rate_is_that_of_the_last_week(
    balance: int, used: list[int], age_days: int, expected: BalanceEstimate
) -> None:
    assert estimate(balance, used, age_days) == expected


@pytest.mark.parametrize(("balance", "is_low"), [(29, True), (30, False)])
def test_a_balance_is_low_below_three_days(balance: int, is_low: bool) -> None:
    assert estimate(balance, [10] * 30, 400).is_low == is_low


def test_an_account_that_uses_nothing_is_not_low() -> None:
    assert not estimate(0, [0] * 30, 400).is_low


def test_ids_sort_by_age() -> None:
    found = []
    for _ in range(5):
        found.append(new_id())
        until = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 == until:
            pass
    assert all(earlier < later for earlier, later in pairwise(found))


def test_every_random_bit_is_random() -> None:
    ones = zeros = 0
    for _ in range(MANY):
        number = int.from_bytes(new_id()[6:], "big")
        ones, zeros = ones | number, zeros | ~number
    fixed = 0xF << 76 | 0b11 << 62
    assert (ones & zeros & ((1 << 80) - 1)) | fixed == (1 << 80) - 1


def test_threads_never_get_the_same_id() -> None:
    found: list[list[str]] = [[] for _ in range(8)]
    start = threading.Barrier(len(found))

    def take(mine: list[str]) -> None:
        start.wait()
        mine += [new_name() for _ in range(MANY)]

    threads = [threading.Thread(target=take, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [name for mine in found for name in mine]
    assert len(set(names)) == len(names)
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in names)
