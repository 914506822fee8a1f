"""An Idempotency-Key in the database: added by the charge, answered by the keep, deleted by a refund."""

from msgspec import structs

from myna.accounts.keys import Scope
from myna.store.batch import (
    AUDIO_PLACEHOLDER,
    IDEMPOTENCY_KEY_LIFE_MS,
    TASK_PLACEHOLDER,
    ChargeOutcome,
    ChargeRefused,
    IdempotencyKey,
    RefusalReason,
    Replayed,
    TaskStatus,
)
from myna.store.queries import keys, ledger, tasks
from tests.store.books import (
    Books,
    Customer,
    charge_of,
    charged_of,
    idempotency_key_of,
    keep_of,
    refund_of,
    speech,
)

DAY_MS = 24 * 3600 * 1000
ODD_ANSWER = '{"content": "a\\u0000b \\"quoted\\" \\\\ 你好 👋"}'


async def retried(books: Books, customer: Customer, retry_key: IdempotencyKey | None = None) -> ChargeOutcome:
    """The outcome of a charge with this idempotency key."""
    retry = charge_of(customer, idempotency_key=retry_key or idempotency_key_of())
    (outcome,) = await books.charge(retry)
    return outcome


async def test_a_retry_is_pending_while_the_first_call_is_open_and_then_replayed(books: Books) -> None:
    customer = await books.customer()
    call = await books.opened(customer, idempotency_key=idempotency_key_of())
    assert await retried(books, customer) == ChargeRefused(RefusalReason.PENDING)

    await books.end(keep_of(call, ODD_ANSWER))

    assert await retried(books, customer) == Replayed(ODD_ANSWER)
    assert await books.balance(customer) == 9
    assert await books.counters(customer) == (1, 1, 1)


async def test_retries_in_one_batch_are_charged_once(books: Books) -> None:
    customer = await books.customer()
    outcomes = await books.charge(
        *[charge_of(customer, idempotency_key=idempotency_key_of()) for _ in range(3)]
    )
    assert outcomes == [charged_of(customer, 9), *[ChargeRefused(RefusalReason.PENDING)] * 2]


async def test_another_request_under_the_same_key_is_refused_open_or_kept(books: Books) -> None:
    customer = await books.customer()
    call = await books.opened(customer, idempotency_key=idempotency_key_of())
    other = idempotency_key_of(body="another body")
    assert await retried(books, customer, other) == ChargeRefused(RefusalReason.REUSED)
    await books.end(keep_of(call, "the answer"))
    assert await retried(books, customer, other) == ChargeRefused(RefusalReason.REUSED)


async def test_a_refund_deletes_the_idempotency_key(books: Books) -> None:
    customer = await books.customer()
    call = await books.opened(customer, idempotency_key=idempotency_key_of())
    await books.end(refund_of(call))
    assert await books.answer(call.call_id) == []
    assert await retried(books, customer) == charged_of(customer, 9)


async def test_an_answer_without_its_audio_is_not_replayed(books: Books) -> None:
    customer, order = await books.customer(), speech(TaskStatus.QUEUED)
    call = await books.opened(
        customer,
        task=order,
        idempotency_key=idempotency_key_of(),
        draft=f"{TASK_PLACEHOLDER} {AUDIO_PLACEHOLDER}",
    )
    ((task_id,),) = await books.sql("SELECT id FROM tasks")
    assert await retried(books, customer) == ChargeRefused(RefusalReason.PENDING)
    assert await tasks.draft(books.db, call.call_id) == f"{task_id} {AUDIO_PLACEHOLDER}"


async def test_an_idempotency_key_belongs_to_the_account(books: Books) -> None:
    customer, unrelated = await books.customer(), await books.customer()
    second = await books.second_key(customer)
    await books.opened(customer, idempotency_key=idempotency_key_of())
    outcomes = await books.charge(
        *[charge_of(key, idempotency_key=idempotency_key_of()) for key in (second, unrelated)]
    )
    assert outcomes == [ChargeRefused(RefusalReason.PENDING), charged_of(unrelated, 9)]


async def test_an_idempotency_key_expires_after_a_day(books: Books) -> None:
    assert IDEMPOTENCY_KEY_LIFE_MS == DAY_MS
    customer = await books.customer()
    call = await books.opened(customer, idempotency_key=idempotency_key_of())
    await books.end(keep_of(call, "the answer"))

    await books.move_clock(DAY_MS - 60_000)
    assert await retried(books, customer) == Replayed("the answer")
    await books.move_clock(60_000)
    another = charge_of(customer, idempotency_key=idempotency_key_of(body="another body"))
    assert await books.charge(another) == [charged_of(customer, 8)]
    assert await books.answer(another.call_id) == [(None,)]


async def test_expired_answers_are_deleted_except_those_of_open_calls(books: Books) -> None:
    customer = await books.customer()
    kept = await books.opened(customer, idempotency_key=idempotency_key_of("kept"))
    open_one = await books.opened(
        customer, idempotency_key=idempotency_key_of("open"), deadline_ms=3 * DAY_MS
    )
    await books.end(keep_of(kept, "the answer"))
    await books.move_clock(DAY_MS + 60_000)
    young = await books.opened(customer, idempotency_key=idempotency_key_of("young"))
    await books.end(keep_of(young, "a new answer"))

    async def clean() -> int:
        return await books.db.transaction(lambda connection: ledger.delete_expired_keys(connection, 10))

    assert await clean() == 1
    assert await clean() == 0
    assert await books.answer(kept.call_id) == []
    assert await books.answer(open_one.call_id) == [(None,)]
    assert await books.answer(young.call_id) == [("a new answer",)]


async def test_the_stored_answer_is_only_for_the_same_request(books: Books) -> None:
    customer = await books.customer()
    call = await books.opened(customer, idempotency_key=idempotency_key_of())
    order = idempotency_key_of()

    snapshot = await keys.by_hash(books.db, customer.key_hash)
    assert snapshot is not None

    async def stored(account_id: int, key: str, fingerprint: bytes, scopes: Scope = Scope.CHAT) -> str | None:
        reader = structs.replace(snapshot.key, account_id=account_id, scopes=int(scopes))
        found = await ledger.stored_response(books.db, reader, key, fingerprint)
        return found.answer if found else None

    assert await stored(customer.account_id, order.key, order.fingerprint) is None
    await books.end(keep_of(call, "the answer"))
    assert await stored(customer.account_id, order.key, order.fingerprint) == "the answer"
    assert await stored(customer.account_id + 1, order.key, order.fingerprint) is None
    assert await stored(customer.account_id, "another", order.fingerprint) is None
    assert await stored(customer.account_id, order.key, b"!" * 32) is None
    assert await stored(customer.account_id, order.key, order.fingerprint, Scope.TTS | Scope.RECORDS) is None
    await books.move_clock(DAY_MS)
    assert await stored(customer.account_id, order.key, order.fingerprint) is None


async def test_a_refund_deletes_the_idempotency_key_of_a_task(books: Books) -> None:
    """Its response was stored at the charge, but the audio was never made."""
    customer, order = await books.customer(), speech(TaskStatus.QUEUED)
    call = await books.opened(
        customer, task=order, idempotency_key=idempotency_key_of(), draft=TASK_PLACEHOLDER
    )
    ((task_id,),) = await books.sql("SELECT id FROM tasks")
    assert await retried(books, customer) == Replayed(str(task_id))
    await books.end(refund_of(call))
    assert await books.answer(call.call_id) == []
    assert await retried(books, customer) == charged_of(customer, 9)
