"""The outcomes of the operations of one batch, the same on both databases."""

import pytest
from msgspec import structs

from myna.store import postgresql_batch
from myna.store.batch import Charge, Charged, ChargeRefused, EndOutcome, RefusalReason
from myna.store.postgresql_batch import BatchWriter
from tests.store.books import (
    AUDIO,
    DIFFERENT_AUDIO,
    Books,
    charge_of,
    charged_of,
    idempotency_key_of,
    keep_of,
    refund_of,
    speech,
)
from tests.store.conftest import scans

DONE, LOST = EndOutcome.DONE, EndOutcome.LOST


async def test_a_batch_charges_in_order_and_a_refusal_affects_no_other(books: Books) -> None:
    customer = await books.customer(units=2)
    dear, cheap, late = (charge_of(customer, units=units) for units in (3, 1, 2))

    outcomes = await books.charge(dear, cheap, late)

    granted = charged_of(customer, 1)
    assert outcomes == [ChargeRefused(RefusalReason.UNITS, 2), granted, ChargeRefused(RefusalReason.UNITS, 1)]
    assert await books.balance(customer) == 1


async def test_charges_of_one_batch_never_exceed_the_balance(books: Books) -> None:
    customer = await books.customer(units=100)
    other = await books.second_key(customer)

    outcomes = await books.charge(*[charge_of(key) for _ in range(100) for key in (customer, other)])

    assert [isinstance(outcome, Charged) for outcome in outcomes] == [True] * 100 + [False] * 100
    assert await books.balance(customer) == 0
    assert await books.counters(customer) == await books.counters(other) == (50, 0, 50)


async def test_a_refund_returns_the_units_of_its_call(books: Books) -> None:
    customer = await books.customer(units=10)
    call, _ = await books.opened(customer, units=4), await books.opened(customer, units=2)

    assert await books.end(refund_of(call)) == [DONE]

    assert await books.balance(customer) == 8
    assert await books.entries(call.call_id) == [(0, -4), (1, 4)]
    assert await books.counters(customer) == (2, 0, 2)


async def test_refunds_of_a_batch_can_be_spent_by_its_charges(books: Books) -> None:
    customer = await books.customer(units=3)
    call = await books.opened(customer, units=3)

    ended, charged = await books.db.commit_batch([refund_of(call)], [charge_of(customer, units=3)])

    assert ended == [DONE]
    assert charged == [charged_of(customer, 0)]
    assert await books.balance(customer) == 0


@pytest.mark.parametrize("first_keeps", [True, False])
@pytest.mark.parametrize("second_keeps", [True, False])
async def test_the_first_of_two_ends_of_a_call_in_one_batch_counts(
    books: Books, first_keeps: bool, second_keeps: bool
) -> None:
    customer = await books.customer(units=1)
    call = await books.opened(customer, task=speech(), idempotency_key=idempotency_key_of())
    keeps = [keep_of(call, "an answer", AUDIO), keep_of(call, "another", DIFFERENT_AUDIO)]
    refunds = [refund_of(call), refund_of(call)]
    first = structs.replace((keeps if first_keeps else refunds)[0], reason="the first")
    second = structs.replace((keeps if second_keeps else refunds)[1], reason="the second")
    outcome = DONE if first_keeps == second_keeps else LOST

    assert await books.end(first, second) == [DONE, outcome]
    assert await books.end(second) == [outcome]

    assert await books.sql("SELECT state, reason FROM calls") == [(first.state, "the first")]
    assert await books.balance(customer) == (0 if first_keeps else 1)
    assert await books.answer(call.call_id) == ([("an answer",)] if first_keeps else [])
    completed = (2, AUDIO.name, AUDIO.size_bytes, AUDIO.sha256, "")
    assert await books.task(call.call_id) == (completed if first_keeps else (3, "", 0, b"", "the first"))


@pytest.mark.parametrize("kept", [True, False])
async def test_a_call_ends_once(books: Books, kept: bool) -> None:
    customer = await books.customer(units=5)
    call = await books.opened(customer, units=2)
    wanted, opposite = (keep_of(call), refund_of(call)) if kept else (refund_of(call), keep_of(call))
    await books.end(wanted)

    assert await books.end(opposite) == [LOST]
    assert await books.end(wanted, wanted) == [DONE, DONE]

    assert await books.balance(customer) == (3 if kept else 5)
    assert await books.counters(customer) == ((1, 1, 2) if kept else (1, 0, 0))


async def test_the_end_of_an_unknown_call_is_lost(books: Books) -> None:
    customer = await books.customer()
    assert await books.end(keep_of(charge_of(customer)), refund_of(charge_of(customer))) == [LOST, LOST]


async def test_a_batch_that_is_sent_again_counts_once(books: Books) -> None:
    """Its first COMMIT may have happened although the reply was lost."""
    customer = await books.customer(units=10)
    open_before = await books.opened(customer, units=3)
    batch = [refund_of(open_before)], [charge_of(customer, units=2), charge_of(customer, units=9)]

    first = await books.db.commit_batch(*batch)
    again = await books.db.commit_batch(*batch)

    assert first == again == ([DONE], [charged_of(customer, 8), ChargeRefused(RefusalReason.UNITS, 8)])
    assert await books.balance(customer) == 8
    assert await books.counters(customer) == (2, 0, 2)


async def test_a_charge_sent_again_counts_after_its_key_was_revoked(books: Books) -> None:
    customer = await books.customer(units=2)
    call = await books.opened(customer, units=2)
    await books.sql("UPDATE keys SET revoked_at = 1 WHERE id = $1", customer.key_id)

    assert await books.charge(call) == [charged_of(customer, 0)]
    assert await books.balance(customer) == 0
    assert await books.counters(customer) == (1, 0, 2)


async def test_a_batch_never_reads_all_open_calls(new_postgres_books: Books, writer: BatchWriter) -> None:
    """PostgreSQL's index of open calls has an entry for each call since the last vacuum."""
    books = new_postgres_books
    customer = await books.customer(units=2000)
    for _ in range(5):
        calls = [charge_of(customer) for _ in range(300)]
        await writer.commit([], calls)
        assert (await writer.commit([keep_of(call) for call in calls], []))[0] == [DONE] * len(calls)

    found = await scans(writer)
    assert found["calls_pkey"] > (0, 0)
    assert found["calls_open"] == (0, 0)


async def test_a_batch_does_not_use_plans_made_for_empty_tables(
    new_postgres_books: Books, writer: BatchWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For empty tables a scan of a whole index is the cheapest plan."""
    monkeypatch.setattr(postgresql_batch, "PLANS_LIFE_S", 0.0)
    books = new_postgres_books
    batches, size = 100, 10
    customer = await books.customer(units=batches * size)
    await books.sql("ANALYZE")
    before: list[Charge] = []
    for _ in range(batches):
        calls = [charge_of(customer) for _ in range(size)]
        await writer.commit([keep_of(call) for call in before], calls)
        before = calls

    _, read = (await scans(writer))["calls_pkey"]
    assert read < 20 * batches * size


async def test_each_call_of_a_batch_has_its_reason(books: Books) -> None:
    customer = await books.customer(units=9)
    whole, cut, cut_too, failed, broken = [await books.opened(customer) for _ in range(5)]
    ends = {
        whole: keep_of(whole, "an answer"),
        cut: structs.replace(keep_of(cut), reason="StreamFailed"),
        cut_too: structs.replace(keep_of(cut_too, "a part"), reason="StreamFailed"),
        failed: refund_of(failed, "UpstreamFailed"),
        broken: refund_of(broken, "StreamFailed"),
    }

    assert await books.end(*ends.values()) == [DONE] * 5

    reasons = dict(await books.sql("SELECT id, reason FROM calls"))
    assert reasons == {call.call_id: end.reason for call, end in ends.items()}
    assert reasons[whole.call_id] == ""


async def test_plans_are_discarded_only_after_their_lifetime(
    new_postgres_books: Books, writer: BatchWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer, asked = await new_postgres_books.customer(), []
    (await writer.connection()).add_query_logger(lambda query: asked.append(query.query))
    for life_s, expected in ((3600.0, 0), (0.0, 3)):
        monkeypatch.setattr(postgresql_batch, "PLANS_LIFE_S", life_s)
        await writer.commit([], [charge_of(customer)])
        asked.clear()
        for _ in range(3):
            await writer.commit([], [charge_of(customer)])
        assert asked.count("DISCARD PLANS") == expected
