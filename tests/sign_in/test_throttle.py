"""Back-off after failed attempts, and whom it does not stop."""

import pytest

from myna.accounts.sign_in import passwords
from myna.accounts.throttle import FREE_FAILURES, SignInRefused, TooManyAttempts
from myna.server.maintenance import delete_expired_sign_ins
from myna.store.queries.sign_in import FORGET_MS
from tests.sign_in.conftest import (
    ADDRESS,
    ELSEWHERE,
    OTHER_PASSWORD,
    PASSWORD,
    at_once,
    person,
    session_of,
    signed_in,
)
from tests.store.books import Books
from tests.store.fixtures import each_database

PROXY = "127.0.0.1"
MANY = 30


async def fails(books: Books, name: str = "ann", address: str = PROXY, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(SignInRefused) as refused:
            await passwords.verify(books.db, name, OTHER_PASSWORD, address)
        assert not isinstance(refused.value, TooManyAttempts)


async def wait_s(books: Books, name: str = "ann", address: str = PROXY, plain: str = PASSWORD) -> int:
    """The seconds until another attempt; 0 if it succeeds."""
    try:
        await passwords.verify(books.db, name, plain, address)
    except TooManyAttempts as refused:
        assert f"try again in {refused.retry_after_s} second" in str(refused)
        return refused.retry_after_s
    return 0


async def test_from_the_fifth_failure_on_waits_double_up_to_five_minutes(books: Books) -> None:
    await person(books)
    await books.stop_clock()
    await fails(books, times=FREE_FAILURES)
    waits = []
    for _ in range(12):
        await fails(books)
        waits.append(await wait_s(books))
        await books.move_clock(waits[-1] * 1000 - 1)
        assert await wait_s(books) == 1
        await books.move_clock(1)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert await wait_s(books) == 0
    await fails(books, times=FREE_FAILURES)


async def test_a_name_without_an_account_waits_as_long(books: Books) -> None:
    await books.stop_clock()
    await fails(books, "nobody", times=FREE_FAILURES + 1)
    assert await wait_s(books, "NoBody") == 1
    await books.move_clock(1000)
    await fails(books, "nobody")
    assert await wait_s(books, "nobody") == 2


async def test_a_name_that_is_typed_is_not_stored(books: Books) -> None:
    await fails(books, "my password by mistake", ADDRESS)
    rows = await books.sql("SELECT subject FROM sign_in_failures")
    assert [len(subject) for (subject,) in rows] == [32, 32]


@pytest.mark.parametrize("name", ["ann", "nobody"])
async def test_a_wait_does_not_tell_whether_an_account_has_the_names(books: Books, name: str) -> None:
    await person(books, email="ann@example.com")
    await books.stop_clock()
    await fails(books, name, times=FREE_FAILURES + 1)
    tried = (name, name.upper(), f"{name}@example.com", f"{name.upper()}@example.com")
    waits = [await wait_s(books, one, plain=OTHER_PASSWORD) for one in tried[:2]]
    assert waits == [1, 1]
    for other in tried[2:]:
        await fails(books, other)


async def test_an_address_that_tries_many_names_waits_and_others_do_not(books: Books) -> None:
    await person(books)
    await books.stop_clock()
    for number in range(FREE_FAILURES + 1):
        await fails(books, f"person {number}", ADDRESS)
    assert await wait_s(books, address=ADDRESS) == 1
    assert await wait_s(books, address=ELSEWHERE) == 0


@pytest.mark.parametrize(
    ("address", "neighbour"),
    [("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"), ("::ffff:192.0.2.7", "192.0.2.7"), ("unix", "unix")],
)
async def test_an_ipv6_network_counts_as_one_address(books: Books, address: str, neighbour: str) -> None:
    await books.stop_clock()
    for number in range(FREE_FAILURES + 1):
        await fails(books, f"person {number}", address)
    assert await wait_s(books, "somebody", neighbour) == 1
    await fails(books, "somebody", "2001:db8:1:3::1")


@pytest.mark.parametrize("address", [PROXY, "::1", ""])
async def test_the_address_of_a_proxy_on_this_machine_is_not_counted(books: Books, address: str) -> None:
    for number in range(FREE_FAILURES + 2):
        await fails(books, f"person {number}", address)


async def test_signing_in_to_one_account_does_not_allow_more_tries_of_others(books: Books) -> None:
    await person(books)
    await books.stop_clock()
    for number in range(FREE_FAILURES):
        await fails(books, f"person {number}", ADDRESS)
        assert await wait_s(books, address=ADDRESS) == 0
    await fails(books, "another", ADDRESS)
    assert await wait_s(books, address=ADDRESS) == 1


async def test_a_person_is_not_locked_out_where_a_session_exists(books: Books) -> None:
    """A person who knows a name could lock its owner out, and so could others at the same address."""
    await person(books)
    await books.stop_clock()
    token = await signed_in(books)
    await fails(books, address=ELSEWHERE, times=FREE_FAILURES + 1)
    for number in range(FREE_FAILURES + 1):
        await fails(books, f"person {number}", ADDRESS)
    assert await wait_s(books, address=ELSEWHERE) == 1
    assert await wait_s(books, "nobody", address=ADDRESS) == 1
    assert await wait_s(books, address=ADDRESS) == 0
    await session_of(books, token)
    await fails(books, address=ADDRESS, times=FREE_FAILURES + 1)
    assert await wait_s(books, address=ADDRESS) == 1


async def test_a_session_is_found_while_its_account_and_its_address_wait(books: Books) -> None:
    await person(books)
    token = await signed_in(books)
    await books.stop_clock()
    await fails(books, address=ADDRESS, times=FREE_FAILURES + 1)
    assert await wait_s(books, address=ADDRESS) == 1
    await session_of(books, token)


@each_database
async def test_attempts_at_once_are_counted_before_they_are_verified(books: Books) -> None:
    await person(books)
    await books.stop_clock()
    _, failed = await at_once(passwords.verify(books.db, "ann", OTHER_PASSWORD, PROXY) for _ in range(MANY))
    assert len(failed) == MANY
    assert sum(not isinstance(error, TooManyAttempts) for error in failed) == FREE_FAILURES + 1


@each_database
async def test_failures_are_counted_for_all_processes(books: Books) -> None:
    await person(books)
    await books.stop_clock()
    other = await books.open_again(serving=False)
    try:
        for db in (books.db, other) * 3:
            with pytest.raises(SignInRefused):
                await passwords.verify(db, "ann", OTHER_PASSWORD, PROXY)
        with pytest.raises(TooManyAttempts):
            await passwords.verify(other, "ann", PASSWORD, PROXY)
    finally:
        await other.close()


@each_database
async def test_failures_are_forgotten_after_an_hour(books: Books) -> None:
    await person(books)
    await books.stop_clock()
    await fails(books, times=FREE_FAILURES)
    await books.move_clock(FORGET_MS - 1)
    await fails(books)
    assert await wait_s(books) == 1
    await books.move_clock(FORGET_MS)
    await fails(books, times=FREE_FAILURES)
    await books.db.transaction(delete_expired_sign_ins)
    assert len(await books.sql("SELECT * FROM sign_in_failures")) == 1
    await books.move_clock(FORGET_MS)
    await books.db.transaction(delete_expired_sign_ins)
    assert await books.sql("SELECT * FROM sign_in_failures") == []
