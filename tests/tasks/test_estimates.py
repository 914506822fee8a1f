"""What limits orders: the estimate of the wait, the disk and the quota."""

import math

import pytest

from myna.actions.site import DisableNode, DrainNode, SetSetting
from myna.billing import quota as module
from myna.errors import DiskFull, InsufficientQuota, NoSpeechChannel, Overloaded
from myna.farm.nodes import Capacity
from myna.store.batch import Audio
from myna.store.files.storage import FreeSpace
from myna.store.queries import config as config_store
from myna.store.queries import site, tasks
from myna.store.queries.farm.able import ONLINE_MS
from tests.rig.actors import perform
from tests.store.books import AUDIO, Customer, keep_of
from tests.store.fixtures import each_database
from tests.tasks.task_service import HUNDRED, VOICE, TaskService, proof_of


async def wait_s(
    service: TaskService, customer: Customer, chars: int = 100, voice: str = VOICE, within_s: float = math.inf
) -> float:
    """The estimated wait by a new query of the queue."""
    capacity, config = Capacity(service.books.db), await config_store.load(service.books.db)
    nodes = await capacity.nodes(config)
    able = {row.node_id for row in config.node_voices if row.voice_id == voice} & nodes.keys()
    return await capacity.wait_s(customer.account_id, chars, able, nodes, config, within_s)


async def test_queued_tasks_of_the_account_are_ahead_of_its_next_task(service: TaskService) -> None:
    await service.node(slots=2, chars_per_s=10.0)
    customer = await service.books.customer()
    for _ in range(3):
        await service.ordered(customer, text=HUNDRED)
    assert await wait_s(service, customer) == pytest.approx(300 / 20 + 10)


async def test_leased_tasks_are_ahead_until_they_are_completed(service: TaskService) -> None:
    node, customer = await service.node(slots=2, chars_per_s=10.0), await service.books.customer()
    _, job = await service.lease_new(node, customer, text=HUNDRED)
    assert await wait_s(service, customer) == pytest.approx(100 / 20 + 10)
    await service.tasks.complete(node, proof_of(job), AUDIO)
    await service.books.sql("UPDATE nodes SET chars_per_s = 10")
    assert await wait_s(service, customer) == pytest.approx(10)


async def test_of_a_long_queue_one_task_is_ahead_of_another_accounts_first(service: TaskService) -> None:
    await service.node(slots=1, chars_per_s=10.0)
    busy, newcomer = await service.books.customer(units=50), await service.books.customer()
    for _ in range(50):
        await service.ordered(busy, text=HUNDRED)
    assert await wait_s(service, busy) == pytest.approx(5000 / 10 + 10)
    assert await wait_s(service, newcomer) == pytest.approx(100 / 10 + 10)
    await service.ordered(newcomer, text=HUNDRED)
    assert await wait_s(service, newcomer) == pytest.approx((100 + 200) / 10 + 10)


@each_database
async def test_tasks_in_other_voices_are_ahead_only_on_nodes_with_both_voices(service: TaskService) -> None:
    await service.node(VOICE, slots=1, chars_per_s=10.0)
    await service.node(VOICE, "another voice", slots=1, chars_per_s=10.0)
    await service.node("another voice", slots=2, chars_per_s=10.0)
    customer = await service.books.customer()
    await service.ordered(customer, "another voice", HUNDRED * 3)  # the second node speaks a third of it
    assert await wait_s(service, customer) == pytest.approx(100 / 20 + 10)
    await service.ordered(customer, "a voice of nobody", HUNDRED)
    assert await wait_s(service, customer) == pytest.approx(100 / 20 + 10)


@each_database
async def test_the_speed_of_a_node_is_measured_by_its_completions(service: TaskService) -> None:
    await service.books.stop_clock()
    node, customer = await service.node(), await service.books.customer()
    speeds = []
    for seconds in (10, 20):
        _, job = await service.lease_new(node, customer, text=HUNDRED)
        await service.books.move_clock(seconds * 1000)
        await service.tasks.complete(node, proof_of(job), AUDIO)
        speeds += [row[0] for row in await service.books.sql("SELECT chars_per_s FROM nodes")]
    assert speeds == [pytest.approx(10, rel=0.1), pytest.approx(10 * 0.8 + 5 * 0.2, rel=0.1)]


@each_database
async def test_a_text_too_long_for_a_slow_node_is_estimated_from_the_fast_one_and_leased_to_it(
    service: TaskService,
) -> None:
    fast, slow = [await service.node(slots=1, chars_per_s=speed) for speed in (300.0, 8.0)]
    customer = await service.books.customer()
    assert await wait_s(service, customer, 1000, within_s=120) == pytest.approx(1000 / 300)
    for _ in range(2):  # for the second one, the long text ahead is no work of the slow node
        await service.admitted(customer, node_s=120, text=HUNDRED * 10)
    assert await wait_s(service, customer, 1000, within_s=120) == pytest.approx(3000 / 300)
    short = await service.admitted(customer, node_s=120, text=HUNDRED)
    (job,) = await service.tasks.lease(slow, 1, 0)
    assert job.id == short.task_id
    assert (await service.leased(fast)).text == HUNDRED * 10


async def test_a_node_takes_a_text_while_it_can_finish_it_in_time(service: TaskService) -> None:
    await service.books.stop_clock()
    node = await service.node(slots=1, chars_per_s=10.0)
    await service.admitted(await service.books.customer(), node_s=12)
    await service.books.move_clock(2001)
    assert await service.tasks.lease(node, 1, 0) == []
    await service.books.move_clock(-1)
    assert await service.tasks.lease(node, 1, 0) != []


async def test_disabled_draining_and_offline_nodes_have_no_capacity(service: TaskService) -> None:
    capacity, books = Capacity(service.books.db), service.books
    await service.node(name="disabled")
    await service.node(name="draining")
    there = await service.node()
    await perform(service.nodes.db, DisableNode(name="disabled"))
    await perform(service.nodes.db, DrainNode(name="draining"))
    assert set(await capacity.nodes(await config_store.load(books.db))) == {there}
    await books.move_clock(ONLINE_MS + 1)
    assert await capacity.nodes(await config_store.load(books.db)) == {}


async def test_tasks_ordered_since_the_last_query_are_ahead(service: TaskService) -> None:
    await service.node(slots=1, chars_per_s=10.0)
    customer = await service.books.customer()
    capacity, config = Capacity(service.books.db), await config_store.load(service.books.db)
    nodes = await capacity.nodes(config)
    before = await capacity.wait_s(customer.account_id, 100, set(nodes), nodes, config)
    capacity.count_new_task(customer.account_id, VOICE, 50)
    after = await capacity.wait_s(customer.account_id, 100, set(nodes), nodes, config)
    assert (before, after) == (pytest.approx(10), pytest.approx(15))


# ---- refusals


@each_database
async def test_an_order_over_the_capacity_is_refused_but_not_another_accounts(service: TaskService) -> None:
    await service.node(slots=1, chars_per_s=10.0)
    busy, newcomer = await service.books.customer(), await service.books.customer()
    for ahead in range(2):
        await service.admitted(busy)
        assert await service.books.balance(busy) == 9 - ahead
    with pytest.raises(NoSpeechChannel, match="try again later") as refused:
        await service.admitted(busy)
    assert int(refused.value.headers["Retry-After"]) >= 1
    assert await service.books.balance(busy) == 8
    assert await service.books.sql("SELECT count(*) FROM calls") == [(2,)]

    await service.admitted(newcomer)

    assert await service.books.balance(newcomer) == 9
    with pytest.raises(NoSpeechChannel):
        await service.admitted(newcomer)


async def test_a_task_estimated_past_its_deadline_is_refused(service: TaskService) -> None:
    await service.node(slots=1, chars_per_s=10.0)
    customer = await service.books.customer()
    with pytest.raises(NoSpeechChannel) as refused:
        await service.admitted(customer, node_s=4.5)
    assert refused.value.headers == {"Retry-After": "6"}  # estimated 10 s, maximum 4.5 s
    with pytest.raises(NoSpeechChannel):
        await service.admitted(customer, node_s=9.0)
    assert await service.books.balance(customer) == 10
    await service.admitted(customer, node_s=11.0)


async def test_without_an_online_node_nothing_is_charged(service: TaskService) -> None:
    await service.node(slots=1, chars_per_s=10.0)
    customer = await service.books.customer()
    await service.books.move_clock(ONLINE_MS + 1)
    with pytest.raises(NoSpeechChannel):
        await service.admitted(customer)
    assert await service.books.balance(customer) == 10


async def test_an_accounts_queue_is_limited(service: TaskService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("myna.speech.plan.TASKS_MAX", 2)
    await service.node(slots=4, chars_per_s=1000.0)
    busy, other = await service.books.customer(), await service.books.customer()
    for _ in range(2):
        await service.admitted(busy)
    with pytest.raises(Overloaded, match="as many texts waiting for compute nodes") as refused:
        await service.admitted(busy)
    assert refused.value.headers == {"Retry-After": "1"}
    await service.admitted(other)
    assert [await service.books.balance(customer) for customer in (busy, other)] == [8, 9]


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
async def test_an_account_at_its_quota_is_refused_before_a_charge_and_no_other(service: TaskService) -> None:
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
        InsufficientQuota, match=r"stores 1 MiB .* may store 1; nothing was charged"
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
    with pytest.raises(InsufficientQuota):
        await service.admitted(customer)

    for mib in ("3", "0"):  # at once, without another query
        await perform(service.db, SetSetting(name="account_storage_mib", value=mib))
        await service.admitted(customer)
    await perform(service.db, SetSetting(name="account_storage_mib", value="1"))
    await service.config.refresh()
    with pytest.raises(InsufficientQuota):
        await service.admitted(customer)

    await service.db.transaction(lambda connection: tasks.mark_audio_removed(connection, task_id))
    assert await site.stored_bytes(service.db, customer.account_id) == 0
    await service.quota.refresh()
    await service.admitted(customer)


@each_database
async def test_samples_and_previews_count_until_their_voice_is_deleted(service: TaskService) -> None:
    customer = await service.books.customer()
    voice_id = await service.clone(customer)
    sizes = "UPDATE clones SET sample_bytes = 2000000, preview_bytes = 100 WHERE voice_id = $1"
    await service.books.sql(sizes, voice_id)
    assert await site.accounts_that_store(service.db, 2000100) == {customer.account_id: 2000100}
    assert await site.accounts_that_store(service.db, 2000101) == {}
    await service.books.sql("DELETE FROM clones WHERE voice_id = $1", voice_id)
    assert await site.stored_bytes(service.db, customer.account_id) == 0
