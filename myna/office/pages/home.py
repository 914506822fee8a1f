"""The start page of an account: does it need units, and what is the next step?"""

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from functools import partial

from markupsafe import Markup
from msgspec import Struct
from starlette.responses import Response

from myna.accounts import keys
from myna.billing import reports
from myna.billing.reports import DAY_MS, SPARKLINE_DAYS, Usage
from myna.lib.times import EPOCH, day_of
from myna.office.charts import Series, stacked_bars
from myna.office.page import Page
from myna.office.pages.reports import LABELS, memo_of
from myna.office.visit import Visit
from myna.store.queries import accounts as account_store
from myna.store.queries import keys as key_store
from myna.store.queries.keys import KeyRow

RATE_DAYS = 7
"""The rate is the mean of this many days, the present one included."""
DAYS_MAX = 3650
"""A longer time is not a useful estimate."""
LOW_DAYS = 3
"""A balance that lasts fewer days is low."""
ENTRIES = 8


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


async def show(visit: Visit) -> Response:
    """Balance, how long it lasts, the next step, 30 days, and the last entries."""
    account = visit.account
    proof = await reports.balance_proof(visit.db, account.id)
    days = await _days(visit)
    all_keys = await visit.read(key_store.of_account, account_id=account.id)
    own = [key for key in reversed(all_keys) if not key.internal]
    used = [usage.units for _, usage in days]
    age_days = (visit.now_ms - account.created_at) // DAY_MS + 1
    lasts = estimate(proof.balance, used, age_days)
    wanted = await visit.read(account_store.preferences_of, account_id=account.id)
    return visit.page(
        "home.html",
        low_balance=wanted.low_balance if proof.balance < wanted.low_balance else 0,
        proof=proof,
        lasts=lasts,
        days=days,
        total=sum(used),
        chart=_chart(visit, [day for day, _ in days], used) if any(used) else None,
        next_step=await _next_step(visit, own, proof.balance),
        newest_key=own[0] if own else None,
        entries=(await reports.ledger_page(visit.db, account.id, limit=ENTRIES)).entries,
        labels=LABELS,
        memo_of=partial(memo_of, visit),
        names={key.id: visit.key_name(key) for key in all_keys},
    )


async def _days(visit: Visit) -> list[tuple[str, Usage]]:
    """The account's usage on each of the last 30 days, the present one last."""
    today = day_of(visit.time_zone, visit.now_ms)
    first = today - SPARKLINE_DAYS + 1
    found = [Usage()] * SPARKLINE_DAYS
    async for rows in reports.usage_by_week(visit.db, visit.account.id, first, today):
        for row in rows:
            found[row.at - first] = found[row.at - first].plus(row.usage)
    return [((EPOCH + timedelta(days=day)).isoformat(), usage) for day, usage in enumerate(found, first)]


def _chart(visit: Visit, days: list[str], units: list[int]) -> Markup:
    title = visit.text("Units by day, the last 30 days")
    series = [Series(visit.text("Units"), units)]
    return stacked_bars(days, series, title, 140, [day[5:] for day in days])


async def _next_step(visit: Visit, own: list[KeyRow], balance: int) -> str:
    """What is missing before the account can work: `chat`, `units`, `key`, `call`, or "" for nothing."""
    parts = visit.parts
    if visit.account.operator and not parts.channels.chat(parts.config.current):
        return "chat"
    if not balance:
        return "units"
    if not any(keys.state(key, visit.now_ms) == "active" for key in own):
        return "key"
    return "" if await reports.last_used(visit.db, visit.account.id) else "call"


PAGES = [Page("", show=show)]
