"""How long a balance lasts at the present rate."""

from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

RATE_DAYS = 7
"""The rate is the mean of this many days, the present one included."""
DAYS_MAX = 3650
"""A longer time is not a useful estimate."""
LOW_DAYS = 3
"""A balance that lasts fewer days is low."""


class BalanceEstimate(Struct, frozen=True):
    """`units` were used in `days` days. At this rate the balance lasts `days_left` more days; None if nothing
    was used, or for more than ten years."""

    units: int
    days: int
    days_left: int | None

    @property
    def is_low(self) -> bool:
        return self.days_left is not None and self.days_left < LOW_DAYS


def estimate(balance: int, used: Sequence[int], age_days: int) -> BalanceEstimate:
    """The estimate from the units used on each of the last days, the present one last. `age_days` is how many
    days the account has existed, the present one included: an account of today has a rate of one day."""
    days = max(1, min(RATE_DAYS, age_days, len(used)))
    units = sum(used[-days:])
    left = int(balance * Fraction(days, units)) if units else None
    return BalanceEstimate(units, days, left if left is None or left <= DAYS_MAX else None)
