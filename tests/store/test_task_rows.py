"""A task's row changes with its call, and its final status never changes."""

import pytest

from myna.store import postgresql_batch
from myna.store.batch import Charge, TaskStatus
from myna.store.queries import clones, tasks
from myna.store.queries.farm import queue
from myna.store.queries.farm.able import CLONE, TASK
from myna.store.queries.farm.queue import JobRow
from tests.store.books import (
    AUDIO,
    DIFFERENT_AUDIO,
    Books,
    Customer,
    charge_of,
    charged_of,
    idempotency_key_of,
    keep_of,
    refund_of,
    speech,
)

COMPLETED = (2, AUDIO.name, AUDIO.size_bytes, AUDIO.sha256, "")


async def only_task(books: Books, customer: Customer) -> tasks.TaskRow:
    (row,) = await tasks.page(books.db, customer.account_id, 2**53, 10)
    return row


async def test_a_charge_creates_its_task_and_returns_its_id(books: Books) -> None:
    customer = await books.customer()
    (outcome,) = await books.charge(charge_of(customer, task=speech(TaskStatus.PROCESSING, "你好 👋")))
    row = await only_task(books, customer)
    assert outcome == charged_of(customer, 9, row.id)
    assert (row.status, row.text, row.chars, row.audio) == (1, "你好 👋", 4, "")
    assert await books.sql("SELECT voice_id, speed FROM tasks") == [("a voice", 1.5)]


async def test_a_charge_sent_again_returns_the_same_task(books: Books) -> None:
    customer = await books.customer()
    call = charge_of(customer, task=speech(), idempotency_key=idempotency_key_of())
    assert await books.charge(call) == await books.charge(call)
    assert (await only_task(books, customer)).status == 1


async def test_a_keep_completes_the_task_with_its_audio(books: Books) -> None:
    customer = await books.customer()
    call = await books.opened(customer, task=speech(), idempotency_key=idempotency_key_of())
    await books.end(keep_of(call, "the answer", AUDIO))
    assert await books.task(call.call_id) == COMPLETED
    assert await books.answer(call.call_id) == [("the answer",)]
    assert (await only_task(books, customer)).audio == AUDIO.name


@pytest.mark.parametrize("status", [TaskStatus.QUEUED, TaskStatus.PROCESSING])
async def test_a_refund_fails_the_task_with_its_reason(books: Books, status: TaskStatus) -> None:
    customer = await books.customer()
    call = await books.opened(customer, task=speech(status))
    await books.end(refund_of(call, "it was too loud"))
    assert await books.task(call.call_id) == (3, "", 0, b"", "it was too loud")


async def test_each_task_of_a_batch_ends_with_its_own_call(books: Books) -> None:
    customer, other = await books.customer(), await books.customer()
    calls = [await books.opened(who, task=speech()) for who in (customer, other, customer)]
    await books.end(refund_of(calls[0], "one"), keep_of(calls[1], None, AUDIO), refund_of(calls[2], "three"))
    assert [(await books.task(call.call_id))[4] for call in calls] == ["one", "", "three"]
    assert [(await books.task(call.call_id))[0] for call in calls] == [3, 2, 3]


async def test_a_task_is_only_shown_to_its_account(books: Books) -> None:
    customer, unrelated = await books.customer(), await books.customer()
    await books.opened(customer, task=speech())
    row = await only_task(books, customer)
    assert await tasks.of_account(books.db, customer.account_id, row.id) == row
    assert await tasks.of_account(books.db, unrelated.account_id, row.id) is None
    assert await tasks.page(books.db, unrelated.account_id, 2**53, 10) == []


async def test_a_completion_after_a_refund_changes_nothing(books: Books) -> None:
    customer = await books.customer()
    call = await books.opened(customer, task=speech())
    await books.end(refund_of(call, "too late"))
    assert await books.end(keep_of(call, None, AUDIO)) == ["lost"]
    assert await books.task(call.call_id) == (3, "", 0, b"", "too late")


async def test_a_task_of_a_build_without_languages_has_none(
    postgres_books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a build may serve beside this one's functions."""
    more = postgresql_batch._more

    def without_language(n: int, charge: Charge) -> dict[str, object]:
        return {name: value for name, value in more(n, charge).items() if name != "language"}

    monkeypatch.setattr(postgresql_batch, "_more", without_language)
    await postgres_books.charge(charge_of(await postgres_books.customer(), task=speech()))
    assert await postgres_books.sql("SELECT language FROM tasks") == [("",)]


async def test_only_ended_tasks_of_the_account_are_deleted(books: Books) -> None:
    customer, other = await books.customer(), await books.customer()
    done, running = [await books.opened(customer, task=speech()) for _ in range(2)]
    await books.end(keep_of(done, None, AUDIO))
    ids = [row.id for row in await tasks.page(books.db, customer.account_id, 2**53, 10)]
    assert await tasks.deletable(books.db, customer.account_id, ids) == {min(ids): AUDIO.name}
    assert await tasks.deletable(books.db, other.account_id, ids) == {}
    assert await tasks.files_in_use(books.db, [AUDIO.name, DIFFERENT_AUDIO.name]) == {AUDIO.name}
    for owner in (other, customer):
        await books.db.transaction(lambda db, owner=owner: tasks.delete(db, owner.account_id, ids))
    assert (await only_task(books, customer)).id == max(ids)
    assert (await queue.by_id(books.db, TASK, max(ids))) == JobRow(
        customer.account_id, running.call_id, tries=0, text=speech().text, speed=1.5
    )


async def test_a_clone_is_a_job_without_a_call_at_the_usual_speed(books: Books) -> None:
    customer = await books.customer()
    new = clones.NewClone("v", customer.account_id, "n", "zh", "t", "s.wav", 1, b"s" * 32, 1, "me", "yes")
    assert await books.db.transaction(lambda db: clones.add(db, new, most=1))
    (row,) = await clones.owned_by(books.db, customer.account_id)
    job = await queue.by_id(books.db, CLONE, row.clone.id)
    assert job == JobRow(customer.account_id, b"", tries=0, text="zh", speed=1.0)
    assert job is not None and isinstance(job.speed, float)
    assert await clones.known_samples(books.db, [b"s" * 32, b"t" * 32]) == {b"s" * 32}
