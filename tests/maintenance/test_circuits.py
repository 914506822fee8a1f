"""The states of circuits are stored for the operator by a periodic job, not by the calls."""

import logging
from pathlib import Path

import pytest
from msgspec import structs

from myna.channels.channels import record_circuits, restore_circuits
from myna.channels.circuits import FAILURES_MAX
from myna.server.service import Service
from myna.store.queries import config as config_store
from myna.store.queries.config import ChannelRow
from tests.maintenance.serving import service_on
from tests.store.books import Books
from tests.store.fixtures import each_database

pytestmark = pytest.mark.anyio

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
async def test_a_circuit_that_opens_and_closes_is_stored_with_its_last_error(
    books: Books, service: Service
) -> None:
    fail(service)
    await record_circuits(service.db, service.channels)
    assert await state(books) == ("open", "status 500")
    assert (await config_store.load_circuits(books.db))["up"].error_at > 0

    service.channels.circuits.succeeded("up")
    await record_circuits(service.db, service.channels)
    assert await state(books) == ("closed", "status 500")


async def test_a_process_closes_a_circuit_left_open_by_the_previous_one(
    books: Books, service: Service, tmp_path: Path
) -> None:
    fail(service)
    await record_circuits(service.db, service.channels)
    after = await service_on(books.db, tmp_path)
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
