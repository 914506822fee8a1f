"""The last refusal of each key is stored by a periodic job; refusals without a key stay in memory."""

import pytest
from msgspec import structs

from myna.accounts.refusals import REMEMBERED_MAX, STORED_MAX, Refusals
from myna.lib.telemetry.requests import CompletedRequest, RequestDetails
from myna.store.queries import keys as store
from tests.store.books import Books
from tests.store.fixtures import each_database

pytestmark = pytest.mark.anyio

HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"


def refused(
    key_id: int = 0, *, at: float = 1.0, status: int = 402, message: str = "no units"
) -> CompletedRequest:
    """A request that was answered with an error."""
    return CompletedRequest(
        request_id="an-id",
        method="POST",
        route="/v1/tts",
        path="/v1/tts",
        status=status,
        seconds=0.1,
        ended_at=at,
        details=RequestDetails(key_id=key_id, error_type="insufficient_quota", message=message),
        address=HERE,
    )


async def test_the_last_refusal_of_a_key_is_stored_for_its_account(books: Books) -> None:
    customer, other = await books.customer(), await books.customer()
    refusals = Refusals(books.db)
    refusals.note(refused(customer.key_id, message="the first"))
    refusals.note(refused(customer.key_id, at=2.5, message="the second"))
    await refusals.store()
    found = await store.last_refusal(books.db, customer.account_id, customer.key_id)
    assert found == store.Refusal(
        key_id=customer.key_id,
        at=2500,
        status=402,
        kind="insufficient_quota",
        message="the second",
        request="POST /v1/tts",
        request_id="an-id",
    )
    assert await store.last_refusal(books.db, other.account_id, customer.key_id) is None


@each_database
async def test_a_later_refusal_of_another_process_stays(books: Books) -> None:
    customer = await books.customer()
    ours, theirs = Refusals(books.db), Refusals(books.db)
    theirs.note(refused(customer.key_id, at=3.0, message="later"))
    ours.note(refused(customer.key_id, at=2.0, message="earlier"))
    await theirs.store()
    await ours.store()
    found = await store.last_refusal(books.db, customer.account_id, customer.key_id)
    assert found is not None and found.message == "later"


@each_database
async def test_rows_are_written_in_bounded_batches_and_the_oldest_are_forgotten(books: Books) -> None:
    customer = await books.customer()
    refusals = Refusals(books.db)
    for key_id in range(customer.key_id, customer.key_id + REMEMBERED_MAX + 1):
        refusals.note(refused(key_id))
    await refusals.store()
    ((rows, first),) = await books.sql("SELECT count(*), min(key_id) FROM key_refusals")
    assert rows == STORED_MAX
    assert first == customer.key_id + 1


async def test_refusals_that_could_not_be_stored_are_stored_later(books: Books) -> None:
    customer = await books.customer()
    refusals = Refusals(books.db)
    refusals.note(refused(customer.key_id))
    await books.sql("ALTER TABLE key_refusals RENAME TO elsewhere")
    with pytest.raises(Exception, match="key_refusals"):
        await refusals.store()
    await books.sql("ALTER TABLE elsewhere RENAME TO key_refusals")
    await refusals.store()
    assert await store.last_refusal(books.db, customer.account_id, customer.key_id)


async def test_a_refusal_without_a_valid_key_is_found_by_its_address_and_not_stored(books: Books) -> None:
    refusals = Refusals(books.db)
    refusals.note(refused(status=401, message="This API key is unknown."))
    await refusals.store()
    found = refusals.without_key(HERE)
    assert found is not None and found.message == "This API key is unknown."
    assert refusals.without_key(ELSEWHERE) is None
    assert await books.sql("SELECT key_id FROM key_refusals") == []


@pytest.mark.parametrize(
    ("path", "status", "is_noted"),
    [
        ("/v1/tts", 401, True),
        ("/chat/completions", 404, True),  # the base URL lacks /v1
        ("/v1/v1/chat/completions", 404, True),
        ("/v1/tts", 503, False),  # nothing of this address
        ("/office/keys/7", 404, False),
    ],
)
async def test_only_requests_that_were_meant_for_the_api_are_noted(
    books: Books, path: str, status: int, is_noted: bool
) -> None:
    refusals = Refusals(books.db)
    refusals.note(structs.replace(refused(status=status), path=path))
    assert (refusals.without_key(HERE) is not None) == is_noted
