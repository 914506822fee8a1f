"""How long a balance lasts."""

import pytest

from myna.balance_estimate import DAYS_MAX, BalanceEstimate, estimate


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
