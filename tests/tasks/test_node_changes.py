"""A node that changes what it offers: speech follows, chat doesn't notice, and there is a limit."""

from typing import Any

import pytest

from myna import config as site
from myna.errors import InvalidRequest, Unavailable
from myna.ledger import Call
from myna.store.queries import config as site_store
from myna.store.queries.config import Config, NodesOffer
from myna.store.queries.farm.nodes import CHANGE_EVERY_MS, CHANGES_AT_ONCE, NodeRow
from myna.wire.farm import Hello, NodeVoice
from tests.store.books import Holder
from tests.tasks.works import Works

pytestmark = pytest.mark.anyio


class Reads:
    """How often the configuration was read, and how often what the nodes offer was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.configuration = self.nodes = 0
        load, load_nodes = site_store.load, site_store.load_nodes

        async def counted(db: Any) -> Config:
            self.configuration += 1
            self.nodes -= 1
            return await load(db)

        async def counted_nodes(db: Any) -> NodesOffer:
            self.nodes += 1
            return await load_nodes(db)

        monkeypatch.setattr(site_store, "load", counted)
        monkeypatch.setattr(site_store, "load_nodes", counted_nodes)


async def row_of(works: Works, name: str) -> NodeRow:
    return next(known.node for known in await works.nodes.list() if known.node.name == name)


async def says(works: Works, voice: str, *, name: str = "node", leaving: bool = False) -> None:
    """The node's hello, with this one voice."""
    voices = [NodeVoice(voice, voice, "female", "zh-CN")]
    await works.nodes.hello(await row_of(works, name), Hello(voices, [], 1, 10.0, "1", leaving))


async def chats(works: Works, holder: Holder) -> Call:
    async with await works.desk.admit(holder, works.desk.order(units=1, seconds=30.0)) as call:
        await call.keep("an answer")
    return call


async def test_chat_reads_nothing_again_while_a_node_changes_its_voices(
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


async def test_what_the_operator_changes_is_read_again(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    await works.node(name="node")
    holder = await works.books.holder()
    await works.desk.config.refresh()
    reads = Reads(monkeypatch)
    await site.change(works.books.db, "chat_units", "7")
    await chats(works, holder)
    assert reads.configuration == 1


async def test_speech_decides_by_what_the_nodes_offer_now(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_the_first_node_of_a_site_is_noticed(works: Works) -> None:
    holder = await works.books.holder()
    await works.desk.config.refresh()
    assert works.desk.config.current.nodes_version == 0
    await works.node("first")
    await works.admitted(holder, "first")


async def test_a_node_that_changes_its_voices_too_often_is_told_to_come_back(works: Works) -> None:
    await works.node("voice-0", name="node")
    for number in range(1, CHANGES_AT_ONCE):
        await says(works, f"voice-{number}")
    before = await site_store.load(works.books.db)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await says(works, "too-soon")
    assert await site_store.load(works.books.db) == before
    await says(works, f"voice-{CHANGES_AT_ONCE - 1}")  # which changes nothing
    await works.books.move_clock(CHANGE_EVERY_MS)
    await says(works, "in-time")
    with pytest.raises(Unavailable):
        await says(works, "too-soon")
    assert [row.voice_id for row in (await site_store.load(works.books.db)).node_voices] == ["in-time"]


async def test_a_node_may_leave_at_any_time_and_keeps_its_voices(works: Works) -> None:
    await works.node("voice-0", name="node")
    for number in range(1, CHANGES_AT_ONCE):
        await says(works, f"voice-{number}")
    before = await site_store.load(works.books.db)
    await says(works, "too-soon", leaving=True)
    assert await site_store.load(works.books.db) == before
    assert not (await row_of(works, "node")).online
