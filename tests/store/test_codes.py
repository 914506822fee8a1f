"""Codes for units: a batch, its redemptions and its refusals."""

import asyncio
import re

import pytest

from myna.accounts import accounts
from myna.actions import codes
from myna.actions.codes import (
    ALPHABET,
    GUESS_EVERY_MS,
    GUESSES_AT_ONCE,
    AddCodes,
    DisableCodes,
    NewBatch,
    RedeemCode,
    Redeemed,
)
from myna.errors import CommandError
from tests.rig.actors import perform
from tests.store.books import Books

UNKNOWN = "AAAAA-AAAAA-AAAAA-AAAAA"


async def batch(
    books: Books, *, units: int = 7, count: int = 1, uses: int = 1, expires_s: int = 0, memo: str = ""
) -> NewBatch:
    expires = f"{expires_s}s" if expires_s else ""
    return await perform(books.db, AddCodes(units=units, count=count, uses=uses, expires=expires, memo=memo))


async def redeem(books: Books, name: str, code: str) -> Redeemed:
    return await perform(books.db, RedeemCode(account=name, code=code))


async def refusal(books: Books, name: str, code: str) -> str:
    with pytest.raises(CommandError) as refused:
        await redeem(books, name, code)
    return str(refused.value)


async def test_codes_differ_and_have_no_characters_that_look_alike(books: Books) -> None:
    made = await batch(books, count=200)
    form = re.compile(rf"[{ALPHABET}]{{5}}(-[{ALPHABET}]{{5}}){{3}}")
    assert not set("0O1IL") & set(ALPHABET)
    assert all(form.fullmatch(code) for code in made.codes)
    assert len(set(made.codes)) == 200
    stored = await books.sql("SELECT hash FROM codes")
    assert {len(code_hash) for (code_hash,) in stored} == {32}


async def test_a_code_gives_its_units_with_an_entry_in_the_ledger(books: Books) -> None:
    customer = await books.customer(units=5)
    made = await batch(books, memo="spring")
    redeemed = await redeem(books, customer.name, made.codes[0])
    assert (redeemed.units, redeemed.account.balance, await books.balance(customer)) == (7, 12, 12)
    memos = await books.sql("SELECT units, memo FROM ledger WHERE units = 7")
    assert memos == [(7, f"code of batch {made.batch.id}: spring")]


async def test_a_code_is_read_in_any_case_with_and_without_hyphens(books: Books) -> None:
    customer = await books.customer(units=0)
    for code, change in zip(
        (await batch(books, count=3)).codes,
        (str.lower, lambda code: code.replace("-", ""), lambda code: f" {code.replace('-', ' ')} "),
        strict=True,
    ):
        await redeem(books, customer.name, change(code))
    assert await books.balance(customer) == 21


@pytest.mark.parametrize("uses", [1, 3])
async def test_fifty_accounts_at_once_share_the_uses_of_a_code(books: Books, uses: int) -> None:
    customers = [await books.customer(units=0) for _ in range(50)]
    (code,) = (await batch(books, uses=uses)).codes
    results = await asyncio.gather(
        *(redeem(books, customer.name, code) for customer in customers), return_exceptions=True
    )
    assert sum(isinstance(result, Redeemed) for result in results) == uses
    assert {str(result) for result in results if isinstance(result, Exception)} == {"This code is used up."}
    assert sorted([await books.balance(customer) for customer in customers])[-uses - 1 :] == [0] + [7] * uses


async def test_fifty_at_once_of_one_account_redeem_a_code_once(books: Books) -> None:
    customer = await books.customer(units=0)
    (code,) = (await batch(books, uses=100)).codes
    results = await asyncio.gather(
        *(redeem(books, customer.name, code) for _ in range(50)), return_exceptions=True
    )
    assert sum(isinstance(result, Redeemed) for result in results) == 1
    refused = {str(result) for result in results if isinstance(result, Exception)}
    assert refused == {"This account has redeemed the code already."}
    assert await books.balance(customer) == 7


async def test_each_refusal_has_a_sentence_and_gives_nothing(books: Books) -> None:
    await books.stop_clock()
    customer, other = await books.customer(units=5), await books.customer(units=0)
    disabled, expired, used_up = [await batch(books, expires_s=n) for n in (0, 1, 0)]
    await perform(books.db, DisableCodes(batch=disabled.batch.id))
    await redeem(books, other.name, used_up.codes[0])
    await books.move_clock(1000)
    assert await refusal(books, customer.name, UNKNOWN) == "This code is unknown; check that it is complete."
    assert (
        await refusal(books, customer.name, disabled.codes[0]) == "This code is disabled; ask the operator."
    )
    assert await refusal(books, customer.name, expired.codes[0]) == "This code has expired."
    assert await refusal(books, customer.name, used_up.codes[0]) == "This code is used up."
    assert await refusal(books, other.name, used_up.codes[0]) == "This account has redeemed the code already."
    assert await refusal(books, "nobody", UNKNOWN) == "There is no account 'nobody'."
    assert await books.balance(customer) == 5


async def test_a_balance_never_exceeds_the_largest_by_a_code(books: Books) -> None:
    customer = await books.customer(units=accounts.UNITS_MAX)
    assert "at most" in await refusal(books, customer.name, (await batch(books, units=1)).codes[0])


async def test_an_account_that_guesses_waits_and_others_do_not(books: Books) -> None:
    await books.stop_clock()
    guesser, other = await books.customer(units=0), await books.customer(units=0)
    first, second = (await batch(books, count=2)).codes
    for _ in range(GUESSES_AT_ONCE):
        assert "unknown" in await refusal(books, guesser.name, UNKNOWN)
    assert "retry in 60 seconds" in await refusal(books, guesser.name, first)
    await redeem(books, other.name, second)
    await books.move_clock(GUESS_EVERY_MS - 1)
    assert "retry in 1 seconds" in await refusal(books, guesser.name, first)
    await books.move_clock(1)
    await redeem(books, guesser.name, first)


async def test_batches_are_listed_with_what_is_left(books: Books) -> None:
    await books.stop_clock()
    ((now,),) = await books.sql("SELECT now_ms()")
    first = await batch(books, count=3, uses=2, expires_s=5, memo="m")
    await batch(books)
    await redeem(books, (await books.customer()).name, first.codes[1])
    one, two = await codes.list_all(books.db)
    assert (one.units, one.uses, one.codes, one.memo, one.uses_left) == (7, 2, 3, "m", 5)
    assert (one.created_at, one.expires_at, two.expires_at) == (now, now + 5000, 0)
    assert codes.batch_state(one, now + 4999) == "active"
    assert codes.batch_state(one, now + 5000) == "expired"
    await redeem(books, (await books.customer()).name, (await batch(books)).codes[0])
    assert codes.batch_state((await codes.list_all(books.db))[2], now) == "used up"
    await perform(books.db, DisableCodes(batch=two.id))
    assert codes.batch_state((await codes.list_all(books.db))[1], now) == "disabled"
    with pytest.raises(CommandError, match="There is no batch 9"):
        await perform(books.db, DisableCodes(batch=9))


@pytest.mark.parametrize(
    "change", [{"units": 0}, {"units": 2**53}, {"count": 0}, {"count": 10_001}, {"uses": 0}, {"memo": "\n"}]
)
async def test_a_wrong_batch_is_refused(sqlite_books: Books, change: dict[str, int]) -> None:
    with pytest.raises(CommandError):
        await batch(sqlite_books, **change)  # type: ignore[arg-type]
    assert await codes.list_all(sqlite_books.db) == []
