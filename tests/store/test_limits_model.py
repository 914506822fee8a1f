"""Any order of charges, ends, changes of limits and moves of the clock, compared with a model of the limits.

The model keeps the list of calls and counts it again for each decision, without counters.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from myna.accounts.limits import as_texts
from myna.actions.accounts import LimitAccount
from myna.actions.keys import LimitKey
from myna.store.batch import (
    DAY_MS,
    MINUTE_MS,
    CallState,
    Charge,
    ChargeRefused,
    DefaultLimits,
    Limits,
    RefusalReason,
)
from tests.rig.actors import perform
from tests.store.books import Books, Customer, charge_of, keep_of, refund_of

STEPS = 250
DECIDED_MIN = 3
"""How often each decision must have come up."""
SITE = DefaultLimits(key=Limits(rpm=6, concurrent=5), account=Limits(units_per_day=60))
NAMES = ("rpm", "concurrent", "units_per_day")
REASONS = (RefusalReason.RPM, RefusalReason.CONCURRENT, RefusalReason.UNITS_PER_DAY)


@dataclass
class ModelCall:
    """A charged call."""

    charge: Charge
    at: int
    state: CallState = CallState.OPEN


@dataclass
class Model:
    """The limits of one key or account and the calls that count in them. Times in ms since the start."""

    default: Limits
    own: dict[str, int | None] = field(default_factory=dict)
    calls: list[ModelCall] = field(default_factory=list)
    minute: int = -MINUTE_MS
    day: int = -DAY_MS

    def limit(self, name: str) -> int:
        own = self.own.get(name)
        return int(getattr(self.default, name)) if own is None else own

    def refusal(self, now: int, units: int) -> RefusalReason | None:
        made = sum(call.at >= self.minute for call in self.calls) if now < self.minute + MINUTE_MS else 0
        still_open = sum(call.state == CallState.OPEN for call in self.calls)
        used = sum(
            call.charge.units
            for call in self.calls
            if now < self.day + DAY_MS and call.at >= self.day and call.state != CallState.REFUNDED
        )
        reached = (made + 1, still_open + 1, used + units)
        for name, value, why in zip(NAMES, reached, REASONS, strict=True):
            if self.limit(name) and value > self.limit(name):
                return why
        return None

    def count(self, now: int, call: ModelCall) -> None:
        if now >= self.minute + MINUTE_MS:
            self.minute = now
        if now >= self.day + DAY_MS:
            self.day = now
        self.calls.append(call)


@dataclass
class Site:
    """Two keys of one account, each with its model, and that of the account."""

    books: Books
    customers: list[Customer]
    models: list[Model]
    of_account: Model
    random: random.Random
    now: int = 0
    calls: list[ModelCall] = field(default_factory=list)
    decided: Counter[RefusalReason | None] = field(default_factory=Counter)

    async def charge(self) -> None:
        chosen = [self.random.randrange(2) for _ in range(self.random.randint(1, 4))]
        charges = [
            charge_of(
                self.customers[number],
                units=self.random.randint(0, 4),
                deadline_ms=99 * DAY_MS,
                default_limits=SITE,
            )
            for number in chosen
        ]
        expected = [self._decide(number, new) for number, new in zip(chosen, charges, strict=True)]
        self.decided.update(expected)
        outcomes = await self.books.charge(*charges)
        assert [one.why if isinstance(one, ChargeRefused) else None for one in outcomes] == expected

    def _decide(self, number: int, new: Charge) -> RefusalReason | None:
        model = self.models[number]
        why = model.refusal(self.now, new.units) or self.of_account.refusal(self.now, new.units)
        if why is None:
            call = ModelCall(new, self.now)
            self.calls.append(call)
            model.count(self.now, call)
            self.of_account.count(self.now, call)
        return why

    async def end(self) -> None:
        still_open = [call for call in self.calls if call.state == CallState.OPEN]
        ended = self.random.sample(still_open, min(len(still_open), self.random.randint(1, 6)))
        for call in ended:
            call.state = self.random.choice((CallState.KEPT, CallState.REFUNDED))
        end_of = {CallState.KEPT: keep_of, CallState.REFUNDED: refund_of}
        await self.books.end(*(end_of[call.state](call.charge) for call in ended))

    async def move_clock(self) -> None:
        ms = self.random.choice((1, 999, MINUTE_MS - 1, MINUTE_MS, 3 * MINUTE_MS, DAY_MS // 3, DAY_MS))
        self.now += ms
        await self.books.move_clock(ms)

    async def set_limits(self) -> None:
        values: tuple[int | None, ...] = (None, 0, 1, 3, 8, 30)
        given = {name: self.random.choice(values) for name in self.random.sample(NAMES, 2)}
        number = self.random.randrange(3)
        if number == 2:
            self.of_account.own |= given
            await perform(self.books.db, LimitAccount(name=self.customers[0].name, **as_texts(given)))
        else:
            self.models[number].own |= given
            await perform(self.books.db, LimitKey(key=str(self.customers[number].key_id), **as_texts(given)))


@pytest.mark.parametrize("seed", range(2))
async def test_any_order_of_events_is_decided_as_the_model_does(books: Books, seed: int) -> None:
    await books.stop_clock()
    customer = await books.customer(units=1_000_000)
    site = Site(
        books=books,
        customers=[customer, await books.second_key(customer)],
        models=[Model(SITE.key), Model(SITE.key)],
        of_account=Model(SITE.account),
        random=random.Random(seed),
    )
    for _ in range(STEPS):
        (step,) = site.random.choices((site.charge, site.end, site.move_clock, site.set_limits), (8, 6, 6, 1))
        await step()
    assert all(site.decided[why] >= DECIDED_MIN for why in (None, *REASONS)), site.decided
    assert await books.audit() == []
