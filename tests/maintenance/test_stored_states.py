"""What periodic jobs store, and not the calls: the states of circuits, and the last refusal of each key."""

import logging

import pytest
from msgspec import structs

from myna.accounts.refusals import REMEMBERED_MAX, STORED_MAX, Refusals
from myna.channels.channels import record_circuits, restore_circuits
from myna.channels.circuits import FAILURES_MAX
from myna.lib.telemetry.requests import CompletedRequest, RequestDetails
from myna.server.service import Service
from myna.store.queries import config as config_store
from myna.store.queries import keys as store
from myna.store.queries.config import ChannelRow
from tests.maintenance.conftest import service_on
from tests.store.books import Books
from tests.store.fixtures import each_database

ROW = ChannelRow(
    kind="chat",
    name="up",
    url="http://127.0.0.1:1/v1",
    model="m",
    key_env="MYNA_KEY_UP",
    priority=100,
    enabled=1,
)


def fail(service: Service, error: str = "status 500") -> None:
    for account_id in range(1, FAILURES_MAX + 1):
        service.channels.circuits.failed("up", error, account_id)


async def state(books: Books) -> tuple[str, str]:
    row = (await config_store.load_circuits(books.db)).get("up", config_store.CircuitRow())
    return row.state, row.error


@each_database
async def test_an_opened_and_closed_circuit_is_stored_with_its_error(books: Books, service: Service) -> None:
    fail(service)
    await record_circuits(service.db, service.channels)
    assert await state(books) == ("open", "status 500")
    assert (await config_store.load_circuits(books.db))["up"].error_at > 0

    service.channels.circuits.succeeded("up")
    await record_circuits(service.db, service.channels)
    assert await state(books) == ("closed", "status 500")


async def test_a_process_closes_a_circuit_left_open_by_an_earlier_one(books: Books, service: Service) -> None:
    fail(service)
    await record_circuits(service.db, service.channels)
    after = await service_on(books.db, books.folder)
    await restore_circuits(books.db, after.channels)
    assert not after.channels.circuits.open("up")
    after.channels.circuits.succeeded("up")
    await record_circuits(after.db, after.channels)
    assert await state(books) == ("closed", "status 500")


async def test_a_circuit_change_that_failed_to_be_stored_is_retried(books: Books, service: Service) -> None:
    fail(service)
    await books.sql("ALTER TABLE circuits RENAME TO elsewhere")
    with pytest.raises(Exception, match="circuits"):
        await record_circuits(service.db, service.channels)
    await books.sql("ALTER TABLE elsewhere RENAME TO circuits")
    await record_circuits(service.db, service.channels)
    assert await state(books) == ("open", "status 500")


@each_database
async def test_the_circuit_of_a_removed_channel_is_deleted(books: Books, service: Service) -> None:
    await books.db.transaction(lambda connection: config_store.add_channel(connection, ROW))
    fail(service)
    await record_circuits(service.db, service.channels)
    await books.db.transaction(lambda connection: config_store.remove_channel(connection, "up"))
    assert await config_store.load_circuits(books.db) == {}


async def test_a_channel_without_its_key_is_logged_once(
    books: Books, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    off = structs.replace(ROW, name="off", enabled=0)
    for row in (ROW, off):
        await books.db.transaction(lambda connection, row=row: config_store.add_channel(connection, row))
    caplog.set_level(logging.WARNING, "myna.channels.channels")
    await service.jobs.refresh_config()
    await service.jobs.refresh_config()
    (line,) = caplog.messages
    assert line.startswith("channel 'up' has no key in this process: MYNA_KEY_UP ")


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
