"""Any event of accounts, keys and calls, in any order, compared with a model of one page.

Every batch is decided by the model first and then by the database; the outcomes must be the same, and the
audit must find nothing at every step.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from msgspec import structs

from myna.accounts.keys import Scope
from myna.actions.accounts import DisableAccount, EnableAccount, GrantUnits
from myna.actions.keys import RevokeKey
from myna.errors import CommandError
from myna.store.batch import (
    CallState,
    Charge,
    Charged,
    ChargeOutcome,
    ChargeRefused,
    End,
    EndOutcome,
    NewTask,
    RefusalReason,
    Replayed,
    TaskStatus,
)
from myna.store.queries import ledger
from tests.rig.actors import perform
from tests.store.books import (
    AUDIO,
    Customer,
    charge_of,
    charged_of,
    idempotency_key_of,
    keep_of,
    refund_of,
    speech,
)
from tests.store.machine import BooksMachine, Run, with_examples

LIFE_MS = 10_000
OPEN, KEPT, REFUNDED = CallState.OPEN, CallState.KEPT, CallState.REFUNDED


@dataclass
class Key:
    """A key in the model; keys of one account share `purse`."""

    customer: Customer
    purse: dict[str, int]
    scopes: Scope
    revoked: bool = False


@dataclass
class Paid:
    """A call in the model."""

    charge: Charge
    key: Key
    state: CallState = OPEN
    overdue: bool = False


@dataclass
class Model:
    """The expected results."""

    keys: list[Key] = field(default_factory=list)
    calls: list[Paid] = field(default_factory=list)
    answers: dict[tuple[int, str], tuple[bytes, Paid, str | None]] = field(default_factory=dict)

    def end(self, end: End) -> EndOutcome:
        paid = next(paid for paid in self.calls if paid.charge.call_id == end.call_id)
        if paid.state is OPEN:
            paid.state = end.state
            order = paid.charge.idempotency_key
            place = (paid.key.customer.account_id, order.key) if order else None
            if end.state is REFUNDED:
                paid.key.purse["units"] += paid.charge.units
                if place:
                    del self.answers[place]
            elif place and end.answer is not None:
                self.answers[place] = (*self.answers[place][:2], end.answer)
        return EndOutcome.DONE if paid.state is end.state else EndOutcome.LOST

    def charge(self, key: Key, charge: Charge) -> ChargeOutcome:
        if key.revoked or key.purse["disabled"] or not key.scopes & charge.scope:
            return ChargeRefused(RefusalReason.KEY)
        stale = charge.config_version != 1
        if not key.scopes & charge.pays:
            return ChargeRefused(RefusalReason.STALE if stale else RefusalReason.RATE)
        order = charge.idempotency_key
        place = (key.customer.account_id, order.key if order else "")
        if order and place in self.answers:
            fingerprint, _, answer = self.answers[place]
            if fingerprint != order.fingerprint:
                return ChargeRefused(RefusalReason.REUSED)
            return ChargeRefused(RefusalReason.PENDING) if answer is None else Replayed(answer)
        if stale:
            return ChargeRefused(RefusalReason.STALE)
        if key.purse["units"] < charge.units:
            return ChargeRefused(RefusalReason.UNITS, key.purse["units"])
        key.purse["units"] -= charge.units
        self.calls.append(paid := Paid(charge, key))
        if order:
            self.answers[place] = (order.fingerprint, paid, None)
        return charged_of(key.customer, key.purse["units"])


charges = st.fixed_dictionaries(
    {
        "key": st.integers(0, 5),
        "units": st.integers(0, 4),
        "pays": st.sampled_from([1, 1, 2]),
        "order": st.sampled_from([None, None, "a", "b"]),
        "body": st.sampled_from(["x", "x", "y"]),
        "version": st.sampled_from([1, 1, 1, 1, 2]),
        "task": st.booleans(),
    }
)
ends = st.tuples(st.integers(0, 30), st.booleans(), st.sampled_from([None, "an answer", "another"]))


class Machine(BooksMachine):
    """One service; every example has a new database."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.sent: list[list[Charge]] = []

    @initialize(units=st.lists(st.integers(0, 9), min_size=2, max_size=3))
    def open_accounts(self, units: list[int]) -> None:
        for amount in units:
            customer = self.run(self.books.customer(amount))
            purse = {"units": amount, "disabled": 0}
            self.model.keys.append(Key(customer, purse, Scope.CHAT | Scope.TTS | Scope.RECORDS))
            second = self.run(self.books.second_key(customer, Scope.CHAT))
            self.model.keys.append(Key(second, purse, Scope.CHAT))

    @rule(ending=st.lists(ends, max_size=4), charging=st.lists(charges, max_size=5))
    def commit(self, ending: list[tuple[int, bool, str | None]], charging: list[dict[str, Any]]) -> None:
        self._commit(ending, charging)

    @rule(charging=st.lists(charges, min_size=1, max_size=8))
    def charge(self, charging: list[dict[str, Any]]) -> None:
        self._commit([], charging)

    @rule(ending=st.lists(ends, min_size=1, max_size=3))
    def end(self, ending: list[tuple[int, bool, str | None]]) -> None:
        self._commit(ending, [])

    def _commit(self, ending: list[tuple[int, bool, str | None]], charging: list[dict[str, Any]]) -> None:
        calls = self.model.calls
        batch_ends = [
            keep_of(paid.charge, answer, AUDIO if paid.charge.task else None)
            if keeps else refund_of(paid.charge, "no")
            for number, keeps, answer in ending if calls
            for paid in [calls[-1 - number % len(calls)]]
        ]  # fmt: skip
        asked = [(self.model.keys[wish["key"] % len(self.model.keys)], wish) for wish in charging]
        batch_charges = [wished(key.customer, wish) for key, wish in asked]

        expected_ends = [self.model.end(end) for end in batch_ends]
        expected = [self.model.charge(key, new) for (key, _), new in zip(asked, batch_charges, strict=True)]

        ended, charged = self.run(self.books.db.commit_batch(batch_ends, batch_charges))
        assert ended == expected_ends
        found = [structs.replace(one, task_id=0) if isinstance(one, Charged) else one for one in charged]
        assert found == expected
        pairs = zip(batch_charges, charged, strict=True)
        self.sent.append([new for new, outcome in pairs if isinstance(outcome, Charged)])

    @rule(back=st.integers(0, 3))
    def resend_charges(self, back: int) -> None:
        """Sends an earlier batch again, as after a lost reply to its COMMIT."""
        again = self.sent[-1 - back % len(self.sent)] if self.sent else []
        _, charged = self.run(self.books.db.commit_batch([], again))
        assert all(isinstance(outcome, Charged) for outcome in charged)

    @rule(key=st.integers(0, 5), units=st.integers(-6, 6))
    def grant(self, key: int, units: int) -> None:
        owner = self.model.keys[key % len(self.model.keys)]
        left = owner.purse["units"] + units
        if left < 0 or units == 0:
            with pytest.raises(CommandError):
                self.run(perform(self.books.db, GrantUnits(name=owner.customer.name, units=units)))
        else:
            owner.purse["units"] = left
            assert (
                self.run(perform(self.books.db, GrantUnits(name=owner.customer.name, units=units))).balance
                == left
            )

    @rule(key=st.integers(0, 5))
    def revoke(self, key: int) -> None:
        owner = self.model.keys[key % len(self.model.keys)]
        owner.revoked = True
        self.run(perform(self.books.db, RevokeKey(key=str(owner.customer.key_id))))

    @rule(key=st.integers(0, 5), enabled=st.booleans())
    def enable(self, key: int, enabled: bool) -> None:
        owner = self.model.keys[key % len(self.model.keys)]
        owner.purse["disabled"] = int(not enabled)
        name = owner.customer.name
        action = EnableAccount(name=name) if enabled else DisableAccount(name=name, force=True)
        self.run(perform(self.books.db, action))

    @rule()
    def pass_time_and_sweep(self) -> None:
        self.run(self.books.move_clock(LIFE_MS + 1000))
        for paid in self.model.calls:
            if paid.state is OPEN:
                self.model.end(refund_of(paid.charge))
        swept = self.run(ledger.overdue(self.books.db, 1000, "left open"))
        self.run(self.books.end(*[End(call_id, REFUNDED, reason="left open") for call_id in swept]))

    @invariant()
    def the_database_equals_the_model(self) -> None:
        assert self.run(self.books.audit()) == []
        for key in self.model.keys:
            assert self.run(self.books.balance(key.customer)) == key.purse["units"]
            own = [paid for paid in self.model.calls if paid.key is key]
            cost = sum(paid.charge.units for paid in own if paid.state is not REFUNDED)
            kept = sum(paid.state is KEPT for paid in own)
            assert self.run(self.books.counters(key.customer)) == (len(own), kept, cost)


def wished(customer: Customer, wish: dict[str, Any]) -> Charge:
    task: NewTask | None = speech(TaskStatus.PROCESSING) if wish["task"] and wish["order"] is None else None
    key = idempotency_key_of(wish["order"], wish["body"]) if wish["order"] else None
    asked = {"units": wish["units"], "pays": wish["pays"], "config_version": wish["version"]}
    return charge_of(customer, **asked, deadline_ms=LIFE_MS, task=task, idempotency_key=key)


@pytest.mark.timeout(1800)
@with_examples(6)
def test_the_books_match_the_model_after_any_events(run_machine: Run) -> None:
    run_machine(Machine, stateful_step_count=20)
