"""A node that changes its voices: speech uses the new ones, chat reloads nothing, there is a rate limit."""

from typing import Any

import pytest

from myna import config
from myna.errors import InvalidRequest, Unavailable
from myna.ledger import Call
from myna.store.queries import config as config_store
from myna.store.queries.config import Config, NodesOffer
from myna.store.queries.farm.nodes import CHANGE_EVERY_MS, CHANGES_AT_ONCE, NodeRow
from myna.wire.farm import Hello, NodeVoice
from tests.store.books import Holder
from tests.tasks.works import Works

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


async def row_of(works: Works, name: str) -> NodeRow:
    return next(known.node for known in await works.nodes.list() if known.node.name == name)


async def says(works: Works, voice: str, *, name: str = "node", leaving: bool = False) -> None:
    """Sends a hello of the node with this voice."""
    voices = [NodeVoice(voice, voice, "female", "zh-CN")]
    await works.nodes.hello(await row_of(works, name), Hello(voices, [], 1, 10.0, "1", leaving))


async def chats(works: Works, holder: Holder) -> Call:
    async with await works.desk.admit(holder, works.desk.order(units=1, seconds=30.0)) as call:
        await call.keep("an answer")
    return call


async def test_chat_does_not_reload_the_configuration_when_voices_of_nodes_change(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    await works.node(name="node")
    holder = await works.books.holder()
    await works.desk.config.refresh()
    reads = Reads(monkeypatch)
    for number in range(CHANGES_AT_ONCE - 1):
        await says(works, f"voice-{number}")
        await chats(works, holder)
    assert (reads.configuration, reads.nodes) == (0, 0)
    assert await works.books.balance(holder) == 10 - (CHANGES_AT_ONCE - 1)


async def test_a_change_by_the_operator_reloads_the_configuration(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    await works.node(name="node")
    holder = await works.books.holder()
    await works.desk.config.refresh()
    reads = Reads(monkeypatch)
    await config.change(works.books.db, "chat_units", "7")
    await chats(works, holder)
    assert reads.configuration == 1


async def test_speech_uses_the_current_voices_of_nodes(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    await works.node("old", name="node")
    holder = await works.books.holder()
    await works.admitted(holder, "old")
    reads = Reads(monkeypatch)
    await says(works, "new")
    await works.admitted(holder, "new")
    with pytest.raises(InvalidRequest):
        await works.admitted(holder, "old")
    assert (reads.configuration, reads.nodes) == (0, 1)
    await works.nodes.disable("node")
    with pytest.raises(InvalidRequest):
        await works.admitted(holder, "new")


async def test_the_first_node_is_used_by_the_next_call(works: Works) -> None:
    holder = await works.books.holder()
    await works.desk.config.refresh()
    assert works.desk.config.current.nodes_version == 0
    await works.node("first")
    await works.admitted(holder, "first")


async def test_changes_of_a_nodes_voices_are_rate_limited(works: Works) -> None:
    await works.node("voice-0", name="node")
    for number in range(1, CHANGES_AT_ONCE):
        await says(works, f"voice-{number}")
    before = await config_store.load(works.books.db)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await says(works, "too-soon")
    assert await config_store.load(works.books.db) == before
    await says(works, f"voice-{CHANGES_AT_ONCE - 1}")  # no change
    await works.books.move_clock(CHANGE_EVERY_MS)
    await says(works, "in-time")
    with pytest.raises(Unavailable):
        await says(works, "too-soon")
    assert [row.voice_id for row in (await config_store.load(works.books.db)).node_voices] == ["in-time"]


async def test_a_leaving_node_is_not_rate_limited_and_keeps_its_voices(works: Works) -> None:
    await works.node("voice-0", name="node")
    for number in range(1, CHANGES_AT_ONCE):
        await says(works, f"voice-{number}")
    before = await config_store.load(works.books.db)
    await says(works, "too-soon", leaving=True)
    assert await config_store.load(works.books.db) == before
    assert not (await row_of(works, "node")).online
