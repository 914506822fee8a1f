"""Responses about the limits of the key and the account."""

import pytest

from myna.accounts.limits import as_texts, parsed, rate_headers
from myna.actions.accounts import LimitAccount
from myna.actions.keys import LimitKey
from myna.actions.site import SetSetting
from myna.errors import CommandError, RateLimited
from myna.store.batch import Rate
from tests.ledger.ledger_service import LedgerService
from tests.rig.actors import perform
from tests.store.books import Books, Customer
from tests.store.fixtures import each_database

OF_RPM = {
    "Retry-After": "60",
    "x-ratelimit-limit-requests": "1",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "1m0s",
}
OF_DAY = {"Retry-After": "86400", "x-should-retry": "false"}
MADE = "has made the 1 calls that it may make in a minute; nothing was charged, try again in 60 s."
OPEN = "has 1 calls open and may have 1; nothing was charged, try again when one has ended."
USED = (
    "has used 1 of the 3 units that it may use in 24 hours, and this call costs 5; nothing was charged, try"
    " again in 24h0m0s."
)


async def refusal(service: LedgerService, customer: Customer, units: int) -> RateLimited:
    with pytest.raises(RateLimited) as refused:
        await service.admit(customer, service.order(units=units))
    return refused.value


@pytest.mark.parametrize("whose", ["This API key", "The account of this API key"])
@pytest.mark.parametrize(
    ("limits", "message", "headers"),
    [
        ({"rpm": 1}, MADE, OF_RPM),
        ({"concurrent": 1}, OPEN, {"Retry-After": "1"}),
        ({"units_per_day": 3}, USED, OF_DAY),
    ],
    ids=["rpm", "concurrent", "units_per_day"],
)
async def test_the_error_of_a_limit_says_whose_it_is_and_when_to_try_again(
    books: Books,
    service: LedgerService,
    whose: str,
    limits: dict[str, int],
    message: str,
    headers: dict[str, str],
) -> None:
    await books.stop_clock()
    customer = await books.customer(units=100)
    if whose.startswith("The account"):
        await perform(books.db, LimitAccount(name=customer.name, **as_texts(limits)))
    else:
        await perform(books.db, LimitKey(key=str(customer.key_id), **as_texts(limits)))
    await service.admit(customer)
    error = await refusal(service, customer, units=5)
    assert (error.message, dict(error.headers)) == (f"{whose} {message}", headers)
    assert await books.balance(customer) == 99


@each_database
async def test_the_limits_of_the_site_hold_from_the_next_charge(books: Books, service: LedgerService) -> None:
    customer = await books.customer()
    await service.admit(customer)
    await perform(books.db, SetSetting(name="key_rpm", value="1"))
    await service.admit(customer)
    await refusal(service, customer, units=1)
    await perform(books.db, SetSetting(name="key_rpm", value="0"))
    await service.admit(customer)


@pytest.mark.parametrize(
    ("ms", "text"),
    [(1, "1s"), (1000, "1s"), (59_001, "1m0s"), (72_000, "1m12s"), (3_600_000, "1h0m0s"), (0, "0s")],
)
def test_the_time_until_a_limit_is_unused_is_written_as_openai_does(ms: int, text: str) -> None:
    assert rate_headers(Rate(limit=1, remaining=0, reset_ms=ms))["x-ratelimit-reset-requests"] == text


def test_limits_are_written_as_numbers_none_or_default() -> None:
    given = parsed(rpm="60", concurrent="none", units_per_day="default")
    assert given == {"rpm": 60, "concurrent": 0, "units_per_day": None}
    assert parsed(rpm="1", concurrent=None, units_per_day="1000000000000") == {
        "rpm": 1,
        "units_per_day": 1_000_000_000_000,
    }
    assert parsed(rpm=None, concurrent=None, units_per_day=None) == {}
    for text in ("0", "-1", "1.5", "", "None", "1e3", "1000000000001"):
        with pytest.raises(CommandError, match="The limit units_per_day must be a whole number from 1"):
            parsed(rpm=None, concurrent=None, units_per_day=text)


async def test_a_limited_call_notes_the_headers_of_its_answer(books: Books, service: LedgerService) -> None:
    await books.stop_clock()
    customer = await books.customer()
    await perform(books.db, LimitKey(key=str(customer.key_id), **as_texts({"rpm": 9})))
    call = await service.admit(customer)
    assert call.details.rate_headers == rate_headers(Rate(limit=9, remaining=8, reset_ms=60_000))
    call = await service.admit(await books.customer())
    assert call.details.rate_headers == {}
