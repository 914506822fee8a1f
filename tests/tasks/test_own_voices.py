"""A cloned voice is private to its account and needs an online node that clones its language."""

import pytest

from myna import accounts, voices
from myna.actions.nodes import DrainNode, EnableNode
from myna.actions.words import AddWord
from myna.errors import InvalidRequest, NoSpeechChannel
from myna.farm.capacity import Capacity
from myna.store.queries import clones
from myna.store.queries import config as config_store
from tests.rig.actors import perform
from tests.store.books import AUDIO, Customer
from tests.store.fixtures import each_database
from tests.tasks.task_service import TaskService, proof_of

pytestmark = pytest.mark.anyio


async def ready(service: TaskService, customer: Customer, node: int) -> str:
    """Clones a voice with the node and returns its id."""
    voice_id = await service.clone(customer)
    await service.tasks.complete(node, proof_of(await service.leased(node)), AUDIO)
    return voice_id


async def test_a_cloned_voice_is_usable_only_by_its_account(service: TaskService) -> None:
    node, owner, other_customer = (
        await service.node(clones=["zh"]),
        await service.books.customer(),
        await service.books.customer(),
    )
    voice_id = await ready(service, owner, node)
    with pytest.raises(InvalidRequest, match="no such voice"):
        await service.admitted(other_customer, voice_id)
    assert await service.books.balance(other_customer) == 10
    await service.admitted(owner, voice_id)
    assert (await service.leased(node)).voice_id == voice_id


async def test_a_node_that_offers_a_cloned_voice_does_not_publish_it(service: TaskService) -> None:
    """A hello with such a voice is refused. Even with the row in the database the voice stays private."""
    node, owner, other_customer = (
        await service.node(clones=["zh"]),
        await service.books.customer(),
        await service.books.customer(),
    )
    voice_id = await ready(service, owner, node)
    liar = await service.node(voice_id)
    with pytest.raises(InvalidRequest, match="no such voice"):
        await service.admitted(other_customer, voice_id)
    await service.ordered(other_customer, voice_id)
    job = await service.leased(liar)
    assert (job.voice_id, job.reference) == (voice_id, None)
    assert await service.tasks.reference(liar, b"s" * 32) is None


async def test_a_pending_voice_is_unknown_to_its_account(service: TaskService) -> None:
    await service.node(clones=["zh"])
    owner = await service.books.customer()
    with pytest.raises(InvalidRequest, match="no such voice"):
        await service.admitted(owner, await service.clone(owner))


async def test_a_cloned_voice_without_an_online_node_is_refused_uncharged(service: TaskService) -> None:
    node, owner = await service.node(clones=["zh"], name="the node"), await service.books.customer()
    voice_id = await ready(service, owner, node)
    await service.node(clones=["en"])
    await perform(service.nodes.db, DrainNode(name="the node"))
    with pytest.raises(NoSpeechChannel):
        await service.admitted(owner, voice_id)
    assert await service.books.balance(owner) == 10


@each_database
async def test_a_cloned_voice_is_listed_while_an_online_node_clones_its_language(
    service: TaskService,
) -> None:
    node, owner = await service.node(clones=["zh"], name="the node"), await service.books.customer()
    voice_id, db = await ready(service, owner, node), service.books.db
    for put, there in ((DrainNode, []), (EnableNode, [voice_id])):
        await perform(db, put(name="the node"))
        config = await config_store.load(db)
        own, nodes = await clones.ready(db, owner.account_id), await Capacity(db).nodes(config)
        assert [voice.voice_id for voice in voices.usable_clones(own, config, nodes)] == there


async def test_a_node_gets_a_text_with_the_readings_of_its_account(
    service: TaskService,
) -> None:
    node, owner = await service.node(), await service.books.customer()
    account = await accounts.find(service.db, owner.name)
    await perform(service.db, AddWord(word="Myna", reading="MY-nuh"))
    await perform(service.db, AddWord(word="行长", reading="hang2zhang3", account=account.name))
    _, job = await service.lease_new(node, owner, text="<speak>行长<b>用</b>Myna</speak>")
    assert job.text == "[行长](/hang2 zhang3/)用[Myna](/MY-nuh/)"
    _, job = await service.lease_new(node, text="行长用Myna")
    assert job.text == "行长用[Myna](/MY-nuh/)"
