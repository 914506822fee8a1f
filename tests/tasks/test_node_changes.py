"""A node that changes its voices: speech uses the new ones, chat reloads nothing, there is a rate limit."""

from typing import Any

import pytest

from myna.actions.nodes import DisableNode
from myna.actions.settings import SetSetting
from myna.errors import InvalidRequest, Unavailable
from myna.ledger import Call
from myna.store.queries import config as config_store
from myna.store.queries.config import Config, NodesOffer
from myna.store.queries.farm.nodes import CHANGE_EVERY_MS, CHANGES_AT_ONCE, NodeRow
from myna.wire.farm import Hello, NodeVoice
from tests.rig.actors import perform
from tests.store.books import Customer
from tests.store.fixtures import each_database
from tests.tasks.task_service import TaskService

pytestmark = pytest.mark.anyio


class Reads:
    """Counts reads of the configuration and of the voices of nodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.configuration = self.nodes = 0
        load, load_nodes = config_store.load, config_store.load_nodes

        async def counted(db: Any) -> Config:
            self.configuration += 1
            self.nodes -= 1
            return await load(db)

        async def counted_nodes(db: Any) -> NodesOffer:
            self.nodes += 1
            return await load_nodes(db)

        monkeypatch.setattr(config_store, "load", counted)
        monkeypatch.setattr(config_store, "load_nodes", counted_nodes)


async def row_of(service: TaskService, name: str) -> NodeRow:
    return next(known.node for known in await service.nodes.list() if known.node.name == name)


async def says(service: TaskService, voice: str, *, name: str = "node", shutting_down: bool = False) -> None:
    """Sends a hello of the node with this voice."""
    voices = [NodeVoice(voice_id=voice, name=voice, gender="female", language="zh-CN")]
    await service.nodes.hello(
        await row_of(service, name),
        Hello(voices=voices, clones=[], slots=1, chars_per_s=10.0, version="1", shutting_down=shutting_down),
    )


async def chats(service: TaskService, customer: Customer) -> Call:
    async with await service.ledger_service.admit(
        customer, service.ledger_service.order(units=1, seconds=30.0)
    ) as call:
        await call.keep("an answer")
    return call


async def test_chat_does_not_reload_the_configuration_when_voices_of_nodes_change(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.node(name="node")
    customer = await service.books.customer()
    await service.config.refresh()
    reads = Reads(monkeypatch)
    for number in range(CHANGES_AT_ONCE - 1):
        await says(service, f"voice-{number}")
        await chats(service, customer)
    assert (reads.configuration, reads.nodes) == (0, 0)
    assert await service.books.balance(customer) == 10 - (CHANGES_AT_ONCE - 1)


async def test_a_change_by_the_operator_reloads_the_configuration(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.node(name="node")
    customer = await service.books.customer()
    await service.config.refresh()
    reads = Reads(monkeypatch)
    await perform(service.books.db, SetSetting(name="chat_units", value="7"))
    await chats(service, customer)
    assert reads.configuration == 1


async def test_speech_uses_the_current_voices_of_nodes(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.node("old", name="node")
    customer = await service.books.customer()
    await service.admitted(customer, "old")
    reads = Reads(monkeypatch)
    await says(service, "new")
    await service.admitted(customer, "new")
    with pytest.raises(InvalidRequest):
        await service.admitted(customer, "old")
    assert (reads.configuration, reads.nodes) == (0, 1)
    await perform(service.nodes.db, DisableNode(name="node"))
    with pytest.raises(InvalidRequest):
        await service.admitted(customer, "new")


@each_database
async def test_changes_of_a_nodes_voices_are_rate_limited(service: TaskService) -> None:
    await service.node("voice-0", name="node")
    for number in range(1, CHANGES_AT_ONCE):
        await says(service, f"voice-{number}")
    before = await config_store.load(service.books.db)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await says(service, "too-soon")
    assert await config_store.load(service.books.db) == before
    await says(service, f"voice-{CHANGES_AT_ONCE - 1}")  # no change
    await service.books.move_clock(CHANGE_EVERY_MS)
    await says(service, "in-time")
    with pytest.raises(Unavailable):
        await says(service, "too-soon")
    assert [row.voice_id for row in (await config_store.load(service.books.db)).node_voices] == ["in-time"]


async def test_a_node_that_shuts_down_is_not_rate_limited_and_keeps_its_voices(service: TaskService) -> None:
    await service.node("voice-0", name="node")
    for number in range(1, CHANGES_AT_ONCE):
        await says(service, f"voice-{number}")
    before = await config_store.load(service.books.db)
    await says(service, "too-soon", shutting_down=True)
    assert await config_store.load(service.books.db) == before
    assert not (await row_of(service, "node")).online


@each_database
async def test_a_hello_that_changes_nothing_writes_nothing(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.node("voice", name="node")
    await says(service, "voice")
    run, transactions = service.db.transaction, []

    async def counted(work: Any) -> Any:
        transactions.append(work)
        return await run(work)

    with monkeypatch.context() as patched:
        patched.setattr(service.db, "transaction", counted)
        for _ in range(3):
            await says(service, "voice")
        assert transactions == []
        await says(service, "voice", shutting_down=True)
        await says(service, "voice", shutting_down=True)
        assert len(transactions) == 1
    await says(service, "voice")
    assert (await row_of(service, "node")).online
