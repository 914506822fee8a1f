"""Checks before the charge of a speech job: free disk space and the storage quota of the account."""

import asyncio

import pytest

from myna import quota as module
from myna.actions.settings import SetSetting
from myna.errors import DiskFull, StorageQuotaReached
from myna.quota import Quota
from myna.store.batch import Audio
from myna.store.files.free_space import FreeSpace
from myna.store.postgresql import Postgresql
from myna.store.queries import storage, tasks
from tests.rig.actors import perform
from tests.store.books import Customer, keep_of
from tests.store.fixtures import each_database
from tests.store.postgres_proxy import proxy_to
from tests.tasks.task_service import TaskService

pytestmark = pytest.mark.anyio

MIB = 2**20


async def stores(service: TaskService, customer: Customer, size_bytes: int) -> int:
    """Charges and completes a task with audio of this size. Returns its id."""
    audio = Audio(f"{size_bytes:032x}.mp3", size_bytes, b"s" * 32)
    charge = await service.started_here(customer)
    await service.books.end(keep_of(charge, None, audio))
    ((task_id,),) = await service.books.sql("SELECT id FROM tasks WHERE call_id = $1", charge.call_id)
    return int(task_id)


@pytest.fixture(autouse=True)
def no_query_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE_MAX", 1e9)


async def test_below_the_disk_reserve_nothing_is_charged(service: TaskService) -> None:
    await service.node()
    customer = await service.books.customer(units=1)
    service.space = FreeSpace(service.books.folder, 2**50)
    await service.space.refresh()
    with pytest.raises(DiskFull):
        await service.admitted(customer)
    assert await service.books.balance(customer) == 1
    assert await service.books.sql("SELECT count(*) FROM tasks") == [(0,)]
    service.space = FreeSpace(service.books.folder, 1)
    await service.space.refresh()
    await service.admitted(customer)
    assert await service.books.balance(customer) == 0


@each_database
async def test_an_account_at_its_quota_is_refused_before_the_charge_and_no_other(
    service: TaskService,
) -> None:
    await service.node()
    await perform(service.db, SetSetting(name="account_storage_mib", value="1"))
    full, other = await service.books.customer(units=10), await service.books.customer(units=10)
    await stores(service, full, MIB - 1)
    await stores(service, other, 5)
    await service.config.refresh()
    await service.quota.refresh()
    await service.admitted(full)

    await stores(service, full, 1)
    await service.quota.refresh()
    units = await service.books.balance(full)
    with pytest.raises(
        StorageQuotaReached, match=r"stores 1 MiB .* may store 1; nothing was charged"
    ) as refused:
        await service.admitted(full)
    assert "Ask the operator" in str(refused.value)  # waiting does not help if audio is never removed
    assert "Wait" not in str(refused.value)
    assert await service.books.balance(full) == units
    await service.admitted(other)


async def test_removed_audio_or_a_larger_quota_allows_new_orders(service: TaskService) -> None:
    await service.node()
    await perform(service.db, SetSetting(name="account_storage_mib", value="1"))
    customer = await service.books.customer(units=10)
    task_id = await stores(service, customer, 2 * MIB)
    await service.config.refresh()
    await service.quota.refresh()
    with pytest.raises(StorageQuotaReached):
        await service.admitted(customer)

    for mib in ("3", "0"):  # at once, without another query
        await perform(service.db, SetSetting(name="account_storage_mib", value=mib))
        await service.admitted(customer)
    await perform(service.db, SetSetting(name="account_storage_mib", value="1"))
    await service.config.refresh()
    with pytest.raises(StorageQuotaReached):
        await service.admitted(customer)

    await service.db.transaction(lambda connection: tasks.mark_audio_removed(connection, task_id))
    assert await storage.of_account(service.db, customer.account_id) == 0
    await service.quota.refresh()
    await service.admitted(customer)


@each_database
async def test_samples_and_previews_count_until_their_voice_is_deleted(service: TaskService) -> None:
    customer = await service.books.customer()
    voice_id = await service.clone(customer)
    sizes = "UPDATE clones SET sample_bytes = 2000000, preview_bytes = 100 WHERE voice_id = $1"
    await service.books.sql(sizes, voice_id)
    assert await storage.reached(service.db, 2000100) == {customer.account_id: 2000100}
    assert await storage.reached(service.db, 2000101) == {}
    await service.books.sql("DELETE FROM clones WHERE voice_id = $1", voice_id)
    assert await storage.of_account(service.db, customer.account_id) == 0


async def test_a_slow_quota_query_runs_less_often(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await query_times_s(service, monkeypatch, takes_s=1.0, rounds=20) == [0.0, 51.0]


async def query_times_s(
    service: TaskService, monkeypatch: pytest.MonkeyPatch, *, takes_s: float, rounds: int
) -> list[float]:
    """The start times of the queries, if one is requested every five seconds and each takes `takes_s`."""
    now_s, times_s = [0.0], []

    async def slow(work: object, **limits: float) -> dict[int, int]:
        times_s.append(now_s[0])
        now_s[0] += takes_s
        return {}

    monkeypatch.setattr(module, "SHARE_MAX", 0.02)
    quota = Quota(service.db, service.config, lambda: now_s[0])
    with monkeypatch.context() as patched:
        patched.setattr(service.db, "snapshot", slow)
        for _ in range(rounds):
            await quota.refresh()
            now_s[0] += 5.0
    return times_s


async def test_a_quota_query_on_a_dead_connection_ends(
    postgres_service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    books, cache = postgres_service.books, postgres_service.config
    await perform(books.db, SetSetting(name="account_storage_mib", value="1"))
    await cache.refresh()
    async with proxy_to(books.url) as proxy:
        db = await Postgresql.open(proxy.url)
        with monkeypatch.context() as brief:
            brief.setattr(module, "QUERY_MAX_S", 0.3)
            proxy.silence_after(b"HAVING sum(bytes)")
            async with asyncio.timeout(60):
                with pytest.raises(db.unavailable):
                    await Quota(db, cache).refresh()
        await db.close()
