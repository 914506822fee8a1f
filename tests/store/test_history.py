"""The ledger entries and calls of an account, newest first."""

import pytest
from msgspec import structs

from myna.actions.accounts import GrantUnits
from myna.lib.ids import new_id
from myna.store.batch import CallState, EntryKind
from myna.store.queries import reports as reports_store
from myna.store.queries.reports import CALL_ID_MAX, CallRow, Entry
from tests.rig.actors import perform
from tests.store.books import AUDIO, Books, keep_of, refund_of, speech

pytestmark = pytest.mark.anyio

GRANT, CHARGE, REFUND = EntryKind.GRANT, EntryKind.CHARGE, EntryKind.REFUND


def summary(entries: list[Entry] | None) -> list[tuple[int, int, int]]:
    """Kind, units and balance of each entry."""
    assert entries is not None
    return [(entry.kind, entry.units, entry.balance) for entry in entries]


async def test_the_ledger_is_listed_by_time_with_the_balance_after_each_entry(books: Books) -> None:
    await books.stop_clock()
    customer, other = await books.customer(units=10), await books.customer()
    await books.move_clock(1000)
    slow = await books.opened(customer, units=4, request_id="slow")
    await books.opened(other)
    await books.move_clock(1000)
    await books.opened(customer, units=1, request_id="quick")
    await books.move_clock(1000)
    await books.end(refund_of(slow))
    await books.move_clock(1000)
    await perform(books.db, GrantUnits(name=customer.name, units=-2, memo="a correction"))

    found = await reports_store.ledger_entries(books.db, customer.account_id, None, 10)

    moved = [(GRANT, -2, 7), (REFUND, 4, 9), (CHARGE, -1, 5), (CHARGE, -4, 6), (GRANT, 10, 10)]
    assert summary(found) == moved
    assert found is not None
    assert [entry.request_id for entry in found] == ["", "slow", "quick", "slow", ""]
    assert [found[0].memo, found[1].call_id] == ["a correction", slow.call_id]
    assert summary(await reports_store.ledger_entries(books.db, customer.account_id, None, 2)) == moved[:2]
    cursor = slow.call_id, REFUND
    assert summary(await reports_store.ledger_entries(books.db, customer.account_id, cursor, 2)) == moved[2:4]
    assert await reports_store.ledger_entries(books.db, other.account_id, cursor, 2) is None


async def test_a_call_is_found_by_its_id_its_request_and_its_account(books: Books) -> None:
    customer, other = await books.customer(), await books.customer()
    first, second, third = sorted(new_id() for _ in range(3))  # as if each was made in a later millisecond
    kept = await books.opened(
        customer, call_id=first, request_id="a request", task=speech(), units=2, route="tts"
    )
    await books.end(structs.replace(keep_of(kept, None, AUDIO), channel="main"))
    refunded = await books.opened(customer, call_id=second, request_id="a request")
    await books.end(refund_of(refunded, "UpstreamFailed"))
    running = await books.opened(customer, call_id=third, request_id="another")
    await books.opened(other, request_id="a stranger's")

    (call,) = await reports_store.call(books.db, kept.call_id)

    ((task_id,),) = await books.sql("SELECT id FROM tasks")
    assert (call.account, call.key_id, call.state, call.units) == (customer.name, customer.key_id, 1, 2)
    assert (call.channel, call.request_id, call.task_id) == ("main", "a request", task_id)
    assert call.created_at <= call.ended_at < call.deadline

    async def ids(found: list[CallRow]) -> list[bytes]:
        return [row.id for row in found]

    of_request = await reports_store.calls_of_request(books.db, "a request", CALL_ID_MAX, 10)
    assert await ids(of_request) == [refunded.call_id, kept.call_id]
    assert [row.state for row in of_request] == [CallState.REFUNDED, CallState.KEPT]
    assert [row.reason for row in of_request] == ["UpstreamFailed", ""]
    assert [row.route for row in of_request] == ["", "tts"]
    newest = await reports_store.calls_of_account(books.db, customer.account_id, CALL_ID_MAX, 2)
    assert await ids(newest) == [running.call_id, refunded.call_id]
    older = await reports_store.calls_of_account(books.db, customer.account_id, refunded.call_id, 2)
    assert await ids(older) == [kept.call_id]
