"""The estimated wait of a new task, and refusals before the charge."""

import pytest

from myna.errors import InvalidRequest, NoSpeechChannel, Overloaded
from myna.farm.capacity import DEFAULT_CHARS_PER_S, Capacity
from myna.store.queries import config as config_store
from myna.store.queries.farm.capacity import ONLINE_MS
from tests.store.books import AUDIO, Holder
from tests.tasks.works import HUNDRED, VOICE, Works, shown

pytestmark = pytest.mark.anyio


async def wait_s(works: Works, holder: Holder, chars: int = 100, voice: str = VOICE) -> float:
    """The estimated wait by a new query of the queue."""
    capacity, config = Capacity(works.books.db), await config_store.load(works.books.db)
    nodes = await capacity.nodes(config)
    able = {row.node_id for row in config.node_voices if row.voice_id == voice} & nodes.keys()
    return await capacity.wait_s(holder.account_id, chars, able, nodes, config)


async def test_on_an_empty_queue_the_estimate_is_the_time_of_the_slowest_node(works: Works) -> None:
    await works.node(slots=4, chars_per_s=50.0)
    await works.node(slots=1, chars_per_s=20.0)
    assert await wait_s(works, await works.books.holder()) == pytest.approx(5.0)


async def test_an_unmeasured_node_has_the_default_speed(works: Works) -> None:
    await works.node(slots=1)
    assert await wait_s(works, await works.books.holder()) == pytest.approx(100 / DEFAULT_CHARS_PER_S)


async def test_queued_tasks_of_the_account_are_ahead_of_its_next_task(works: Works) -> None:
    await works.node(slots=2, chars_per_s=10.0)
    holder = await works.books.holder()
    for _ in range(3):
        await works.ordered(holder, text=HUNDRED)
    assert await wait_s(works, holder) == pytest.approx(300 / 20 + 10)


async def test_leased_tasks_are_ahead_until_they_are_completed(works: Works) -> None:
    node, holder = await works.node(slots=2, chars_per_s=10.0), await works.books.holder()
    _, job = await works.held(node, holder, text=HUNDRED)
    assert await wait_s(works, holder) == pytest.approx(100 / 20 + 10)
    await works.tasks.complete(node, shown(job), AUDIO)
    await works.books.sql("UPDATE nodes SET chars_per_s = 10")
    assert await wait_s(works, holder) == pytest.approx(10)


async def test_of_a_long_queue_one_task_is_ahead_of_another_accounts_first(works: Works) -> None:
    await works.node(slots=1, chars_per_s=10.0)
    busy, newcomer = await works.books.holder(units=50), await works.books.holder()
    for _ in range(50):
        await works.ordered(busy, text=HUNDRED)
    assert await wait_s(works, busy) == pytest.approx(5000 / 10 + 10)
    assert await wait_s(works, newcomer) == pytest.approx(100 / 10 + 10)
    await works.ordered(newcomer, text=HUNDRED)
    assert await wait_s(works, newcomer) == pytest.approx((100 + 200) / 10 + 10)


async def test_tasks_in_other_voices_are_ahead_only_on_nodes_with_both_voices(works: Works) -> None:
    await works.node(VOICE, slots=1, chars_per_s=10.0)
    await works.node(VOICE, "another voice", slots=1, chars_per_s=10.0)
    await works.node("another voice", slots=2, chars_per_s=10.0)
    holder = await works.books.holder()
    await works.ordered(holder, "another voice", HUNDRED * 3)  # the second node speaks a third of it
    assert await wait_s(works, holder) == pytest.approx(100 / 20 + 10)
    await works.ordered(holder, "a voice of nobody", HUNDRED)
    assert await wait_s(works, holder) == pytest.approx(100 / 20 + 10)


async def test_the_speed_of_a_node_is_measured_by_its_completions(works: Works) -> None:
    await works.books.stop_clock()
    node, holder = await works.node(), await works.books.holder()
    speeds = []
    for seconds in (10, 20):
        _, job = await works.held(node, holder, text=HUNDRED)
        await works.books.move_clock(seconds * 1000)
        await works.tasks.complete(node, shown(job), AUDIO)
        speeds += [row[0] for row in await works.books.sql("SELECT chars_per_s FROM nodes")]
    assert speeds == [pytest.approx(10, rel=0.1), pytest.approx(10 * 0.8 + 5 * 0.2, rel=0.1)]


async def test_a_short_text_does_not_measure_the_speed(works: Works) -> None:
    node = await works.node()
    _, job = await works.held(node, text="短")
    await works.books.move_clock(10_000)
    await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.books.sql("SELECT chars_per_s FROM nodes") == [(0.0,)]


async def test_disabled_draining_and_offline_nodes_have_no_capacity(works: Works) -> None:
    capacity, books = Capacity(works.books.db), works.books
    await works.node(name="disabled")
    await works.node(name="draining")
    there = await works.node()
    await works.nodes.disable("disabled")
    await works.nodes.drain("draining")
    assert set(await capacity.nodes(await config_store.load(books.db))) == {there}
    await books.move_clock(ONLINE_MS + 1)
    assert await capacity.nodes(await config_store.load(books.db)) == {}


async def test_tasks_ordered_since_the_last_query_are_ahead(works: Works) -> None:
    await works.node(slots=1, chars_per_s=10.0)
    holder = await works.books.holder()
    capacity, config = Capacity(works.books.db), await config_store.load(works.books.db)
    nodes = await capacity.nodes(config)
    before = await capacity.wait_s(holder.account_id, 100, set(nodes), nodes, config)
    capacity.count_new_task(holder.account_id, VOICE, 50)
    after = await capacity.wait_s(holder.account_id, 100, set(nodes), nodes, config)
    assert (before, after) == (pytest.approx(10), pytest.approx(15))


# ---- refusals


async def test_an_order_over_the_capacity_is_refused_and_another_accounts_first_is_not(
    works: Works,
) -> None:
    await works.node(slots=1, chars_per_s=10.0)
    busy, newcomer = await works.books.holder(), await works.books.holder()
    for ahead in range(2):
        await works.admitted(busy)
        assert await works.books.balance(busy) == 9 - ahead
    with pytest.raises(NoSpeechChannel, match="try again later") as refused:
        await works.admitted(busy)
    assert int(refused.value.headers["Retry-After"]) >= 1
    assert await works.books.balance(busy) == 8
    assert await works.books.sql("SELECT count(*) FROM calls") == [(2,)]

    await works.admitted(newcomer)

    assert await works.books.balance(newcomer) == 9
    with pytest.raises(NoSpeechChannel):
        await works.admitted(newcomer)


async def test_a_task_estimated_past_its_deadline_is_refused(works: Works) -> None:
    await works.node(slots=1, chars_per_s=10.0)
    holder = await works.books.holder()
    with pytest.raises(NoSpeechChannel) as refused:
        await works.admitted(holder, node_s=4.5)
    assert refused.value.headers == {"Retry-After": "6"}  # estimated 10 s, maximum 4.5 s
    with pytest.raises(NoSpeechChannel):
        await works.admitted(holder, node_s=9.0)
    assert await works.books.balance(holder) == 10
    await works.admitted(holder, node_s=11.0)


async def test_without_an_online_node_nothing_is_charged(works: Works) -> None:
    await works.node(slots=1, chars_per_s=10.0)
    holder = await works.books.holder()
    await works.books.move_clock(ONLINE_MS + 1)
    with pytest.raises(NoSpeechChannel):
        await works.admitted(holder)
    assert await works.books.balance(holder) == 10


async def test_queued_tasks_per_account_are_limited(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("myna.speech.plan.TASKS_MAX", 2)
    await works.node(slots=4, chars_per_s=1000.0)
    busy, other = await works.books.holder(), await works.books.holder()
    for _ in range(2):
        await works.admitted(busy)
    with pytest.raises(Overloaded, match="as many texts waiting for compute nodes") as refused:
        await works.admitted(busy)
    assert refused.value.headers == {"Retry-After": "1"}
    await works.admitted(other)
    assert [await works.books.balance(holder) for holder in (busy, other)] == [8, 9]


async def test_a_text_over_the_limit_is_refused_before_its_sound_is_estimated(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    await works.node(slots=4, chars_per_s=1000.0)
    holder = await works.books.holder()

    async def nowhere(*_: object) -> None:
        raise AssertionError("a refused text needs no thread")

    monkeypatch.setattr("myna.speech.plan.asyncio.to_thread", nowhere)
    with pytest.raises(InvalidRequest, match="has 1000000 characters"):
        await works.admitted(holder, text=" " * 1_000_000)
    assert await works.books.balance(holder) == 10


async def test_a_text_with_too_much_sound_is_refused(works: Works) -> None:
    await works.node(slots=4, chars_per_s=1000.0)
    holder = await works.books.holder()
    with pytest.raises(InvalidRequest, match="minutes of sound"):
        await works.admitted(holder, text="ﷺ" * 1000)
    assert await works.books.balance(holder) == 10
