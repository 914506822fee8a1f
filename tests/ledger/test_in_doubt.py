"""Errors about units while the database does not answer: only what is known to be true."""

import asyncio

import pytest

from myna.accounts.keys import Scope
from myna.errors import CommitInDoubt, DatabaseUnavailable, UpstreamFailed
from myna.store.batch import CallState, Charged, TaskStatus
from myna.store.postgresql import Postgresql
from tests.ledger.ledger_service import LedgerService, ledger_service_on
from tests.rig.waiting import until
from tests.store.books import AUDIO, Books, charge_of, keep_of, speech
from tests.store.fixtures import each_database
from tests.store.postgres_proxy import proxy_to
from tests.store.stalls import ends_as, stalled_commits
from tests.tasks.task_service import TaskService, proof_of, task_service_on

VOICE = speech().voice_id


async def only_call(books: Books) -> bytes:
    ((call_id,),) = await books.sql("SELECT id FROM calls")
    return bytes(call_id)


@each_database
async def test_a_charge_that_was_never_sent_is_reported_as_not_charged(books: Books) -> None:
    customer = await books.customer()
    async with ledger_service_on(books.db, charge_wait_s=0.1) as service:
        async with stalled_commits(books) as stalled:
            first = asyncio.ensure_future(service.commits.charge(charge_of(customer), 60))
            await asyncio.wait([first], timeout=0.05)
            await stalled()
            with pytest.raises(DatabaseUnavailable, match="nothing was charged"):
                await service.admit(customer)
        assert isinstance(await first, Charged)
        await service.commits.end(keep_of(charge_of(customer, call_id=await only_call(books))), 10)
    assert await books.balance(customer) == 9


@each_database
async def test_a_charge_that_was_sent_is_in_doubt_and_refunded(books: Books) -> None:
    customer = await books.customer()
    async with ledger_service_on(books.db, charge_wait_s=0.1) as service:
        async with stalled_commits(books):
            with pytest.raises(CommitInDoubt):
                await service.admit(customer)
        call = charge_of(customer)
        await service.commits.charge(call, 10)  # queued after the one in doubt
        await service.commits.end(keep_of(call), 10)

        async def only_ours() -> bool:
            return await books.sql("SELECT id FROM calls WHERE state <> 2") == [(call.call_id,)]

        await until(only_ours, "the charge in doubt is refunded")
    assert await books.balance(customer) == 9


@each_database
async def test_a_call_cancelled_during_its_charge_is_in_doubt(books: Books, service: LedgerService) -> None:
    customer = await books.customer()
    async with stalled_commits(books) as stalled:
        admitting = asyncio.ensure_future(service.admit(customer))
        await asyncio.wait([admitting], timeout=0.05)
        await stalled()
        admitting.cancel()
        with pytest.raises(CommitInDoubt):
            await admitting

    async def refunded() -> bool:
        return await books.sql("SELECT state FROM calls") == [(int(CallState.REFUNDED),)]

    await until(refunded, "the charge is refunded")


async def completed(other: TaskService, node: int) -> None:
    """Completes the node's next job, once there is one, in another process."""
    (job,) = await other.tasks.lease(node, 1, 10)
    assert await other.tasks.complete(node, proof_of(job), AUDIO)


async def test_a_charge_without_reply_may_be_kept_by_a_node_of_another_process(postgres_books: Books) -> None:
    """The connection to the database is silent after the charge; the node asks the other process."""
    books, task = postgres_books, speech(TaskStatus.QUEUED)
    async with task_service_on(books) as other, proxy_to(books.url) as proxy:
        node, customer = await other.node(VOICE), await books.customer()
        db = await Postgresql.open(proxy.url)
        async with ledger_service_on(db, charge_wait_s=0.2) as service:
            proxy.silence_after(task.text.encode())
            with pytest.raises(CommitInDoubt):
                await service.admit(customer, service.order(pays=Scope.TTS, task=task))
            await completed(other, node)
            proxy.disconnect()  # the charge is sent again and refunded too late
        await db.close()
    assert await books.balance(customer) == 9
    assert await books.state(await only_call(books)) == CallState.KEPT


@each_database
async def test_a_late_refund_is_in_doubt(books: Books) -> None:
    customer = await books.customer()
    async with ledger_service_on(books.db, charge_wait_s=0.1) as service:
        call = await service.admit(customer)
        async with stalled_commits(books):
            with pytest.raises(CommitInDoubt):
                async with call:
                    raise UpstreamFailed("no channel; the units were refunded")
        await ends_as(books, call.id, CallState.REFUNDED)
    assert await books.balance(customer) == 10


@each_database
async def test_a_call_cancelled_during_its_refund_is_in_doubt(books: Books, service: LedgerService) -> None:
    customer = await books.customer()
    call = await service.admit(customer)

    async def fail() -> None:
        async with call:
            raise UpstreamFailed("no channel; the units were refunded")

    async with stalled_commits(books):
        failing = asyncio.ensure_future(fail())
        await asyncio.wait([failing], timeout=0.05)
        failing.cancel()
        with pytest.raises(CommitInDoubt):
            await failing
    await ends_as(books, call.id, CallState.REFUNDED)


async def test_a_refund_after_a_keep_is_in_doubt(books: Books, service: LedgerService) -> None:
    """As after a node has completed the task: the call is kept."""
    customer = await books.customer()
    with pytest.raises(CommitInDoubt):
        async with await service.admit(customer) as call:
            await books.end(keep_of(charge_of(customer, call_id=call.id)))
            raise UpstreamFailed("no channel; the units were refunded")
    assert await books.balance(customer) == 9


async def test_an_error_after_the_keep_is_in_doubt(books: Books, service: LedgerService) -> None:
    """It would read as a refund."""
    customer = await books.customer()
    with pytest.raises(CommitInDoubt) as doubt:
        async with await service.admit(customer) as call:
            await call.keep("an answer")
            raise ZeroDivisionError
    assert isinstance(doubt.value.__cause__, ZeroDivisionError)
    assert await books.balance(customer) == 9
