"""A cloned voice is private to its account and needs an online node that clones its language."""

import pytest

from myna import voices
from myna.errors import InvalidRequest, NoSpeechChannel
from myna.farm.capacity import Capacity
from myna.store.queries import clones
from myna.store.queries import config as config_store
from tests.store.books import AUDIO, Holder
from tests.tasks.works import Works, shown

pytestmark = pytest.mark.anyio


async def ready(works: Works, holder: Holder, node: int) -> str:
    """Clones a voice with the node and returns its id."""
    voice_id = await works.clone(holder)
    await works.tasks.complete(node, shown(await works.leased(node)), AUDIO)
    return voice_id


async def test_a_cloned_voice_is_usable_only_by_its_account(works: Works) -> None:
    node, owner, stranger = (
        await works.node(clones=["zh"]),
        await works.books.holder(),
        await works.books.holder(),
    )
    voice_id = await ready(works, owner, node)
    with pytest.raises(InvalidRequest, match="no such voice"):
        await works.admitted(stranger, voice_id)
    assert await works.books.balance(stranger) == 10
    await works.admitted(owner, voice_id)
    assert (await works.leased(node)).voice_id == voice_id


async def test_a_node_that_offers_a_cloned_voice_does_not_publish_it(works: Works) -> None:
    """A hello with such a voice is refused. Even with the row in the database the voice stays private."""
    node, owner, stranger = (
        await works.node(clones=["zh"]),
        await works.books.holder(),
        await works.books.holder(),
    )
    voice_id = await ready(works, owner, node)
    liar = await works.node(voice_id)
    with pytest.raises(InvalidRequest, match="no such voice"):
        await works.admitted(stranger, voice_id)
    await works.ordered(stranger, voice_id)
    job = await works.leased(liar)
    assert (job.voice_id, job.reference) == (voice_id, None)
    assert await works.tasks.reference(liar, b"s" * 32) is None


async def test_a_pending_voice_is_unknown_to_its_account(works: Works) -> None:
    await works.node(clones=["zh"])
    owner = await works.books.holder()
    with pytest.raises(InvalidRequest, match="no such voice"):
        await works.admitted(owner, await works.clone(owner))


async def test_a_cloned_voice_without_an_online_node_is_refused_uncharged(
    works: Works,
) -> None:
    node, owner = await works.node(clones=["zh"], name="the node"), await works.books.holder()
    voice_id = await ready(works, owner, node)
    await works.node(clones=["en"])
    await works.nodes.drain("the node")
    with pytest.raises(NoSpeechChannel):
        await works.admitted(owner, voice_id)
    assert await works.books.balance(owner) == 10


async def test_a_cloned_voice_is_listed_while_an_online_node_clones_its_language(works: Works) -> None:
    node, owner = await works.node(clones=["zh"], name="the node"), await works.books.holder()
    voice_id, db = await ready(works, owner, node), works.books.db
    for put, there in ((works.nodes.drain, []), (works.nodes.enable, [voice_id])):
        await put("the node")
        config = await config_store.load(db)
        own, nodes = await clones.ready(db, owner.account_id), await Capacity(db).nodes(config)
        assert [voice.voice_id for voice in voices.usable_clones(own, config, nodes)] == there
