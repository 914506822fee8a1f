"""The operator's overrides of public voices: hidden, renamed, ordered; every process applies them."""

from collections.abc import AsyncIterator

import pytest

from myna.actions.site import SetSetting
from myna.actions.voices import HideVoice, OrderVoices, RenameVoice, ShowVoice
from myna.channels.channels import Channels
from myna.engines.espeak.engine import VOICES, Espeak
from myna.engines.interface import EngineLimits, EngineVoice
from myna.engines.registry import ESPEAK
from myna.errors import CommandError
from myna.farm.nodes import Nodes
from myna.http.client import HttpClient
from myna.settings import Settings
from myna.store.queries import config as config_store
from myna.store.queries.accounts import activity_page
from myna.voices import overrides as voice_overrides
from myna.wire.farm import NodeVoice
from myna.wire.openai import DEFAULT_VOICES
from tests.clones.conftest import Do
from tests.store.books import Books
from tests.tasks.task_service import join_node

FIRST, SECOND, THIRD = (voice.voice_id for voice in VOICES[:3])


@pytest.fixture
async def channels() -> AsyncIterator[Channels]:
    """The channels of a service with the embedded voices."""
    outbound = HttpClient(connections_max=1)
    yield Channels(
        settings=Settings(speech="espeak"),
        environ={},
        http_client=outbound,
        local={ESPEAK: Espeak(EngineLimits(processes=1, queue_max=1, job_deadline_s=1.0))},
    )
    await outbound.close()


async def seen(books: Books) -> list[EngineVoice]:
    """The embedded voices as callers see them."""
    return voice_overrides.overridden(VOICES, (await config_store.load(books.db)).overrides)


async def version(books: Books) -> int:
    return (await config_store.load(books.db)).version


async def test_a_hidden_voice_is_not_listed_until_it_is_shown_again(do: Do, books: Books) -> None:
    await do(HideVoice(voice_id=FIRST))
    assert [voice.voice_id for voice in await seen(books)] == [voice.voice_id for voice in VOICES[1:]]
    await do(ShowVoice(voice_id=FIRST))
    assert await seen(books) == list(VOICES)


async def test_a_renamed_voice_can_be_reset_to_its_own_name(do: Do, books: Books) -> None:
    await do(RenameVoice(voice_id=FIRST, name="晨曦"))
    renamed = (await seen(books))[0]
    assert (renamed.voice_id, renamed.name, renamed.language) == (FIRST, "晨曦", VOICES[0].language)
    await do(HideVoice(voice_id="晨曦"))
    assert FIRST not in [voice.voice_id for voice in await seen(books)]
    await do(RenameVoice(voice_id=SECOND, name="晨曦"))
    with pytest.raises(CommandError, match=f"several voices '晨曦'; name one by its id: {FIRST}, {SECOND}"):
        await do(ShowVoice(voice_id="晨曦"))
    for voice_id in (FIRST, SECOND):
        await do(RenameVoice(voice_id=voice_id, name=""))
    await do(ShowVoice(voice_id=VOICES[0].name))
    assert await seen(books) == list(VOICES)
    hidden = (await activity_page(books.db, prefix="voice hide"))[0]
    assert hidden.command == f"myna voice hide {FIRST}"


async def test_ordered_voices_are_listed_before_the_others(do: Do, books: Books) -> None:
    rest = [voice.voice_id for voice in VOICES]
    last = rest[-1]
    await do(OrderVoices(voice_ids=(last, SECOND)))
    found = [voice.voice_id for voice in await seen(books)]
    assert found == [last, SECOND, *(voice_id for voice_id in rest if voice_id not in (last, SECOND))]

    await do(OrderVoices(voice_ids=(THIRD,)))
    found = [voice.voice_id for voice in await seen(books)]
    assert found == [THIRD, *(voice_id for voice_id in rest if voice_id != THIRD)]


@pytest.mark.parametrize("name", [" ", "n" * 101, "a\nb"])
async def test_an_unprintable_name_is_refused(do: Do, name: str) -> None:
    with pytest.raises(CommandError, match="1 to 100 printable"):
        await do(RenameVoice(voice_id=FIRST, name=name))


async def test_an_unknown_voice_cannot_be_overridden(do: Do, books: Books) -> None:
    before = await version(books)
    with pytest.raises(CommandError, match="There is no public voice 'nobody'"):
        await do(OrderVoices(voice_ids=(FIRST, "nobody")))
    with pytest.raises(CommandError, match="named twice"):
        await do(OrderVoices(voice_ids=(FIRST, FIRST)))
    assert await version(books) == before


async def test_the_operators_list_has_channels_and_hidden_voices(
    do: Do, books: Books, channels: Channels
) -> None:
    own = NodeVoice(voice_id="of-a-node", name="Ann", gender="female", language="en-US")
    shared = NodeVoice(voice_id=FIRST, name="another name", gender="male", language="zh-CN")
    await join_node(Nodes(books.db), own, shared, name="a node")
    await do(HideVoice(voice_id="of-a-node"))
    await do(OrderVoices(voice_ids=("of-a-node",)))

    offers = await voice_overrides.list_public(books.db, channels)

    assert [(offer.voice.voice_id, offer.sources) for offer in offers][:3] == [
        ("of-a-node", ("node a node",)),
        (FIRST, ("channel espeak", "node a node")),
        (SECOND, ("channel espeak",)),
    ]
    assert (offers[0].override.hidden, offers[0].override.place) == (1, 1)
    assert offers[1].voice == VOICES[0]


async def test_a_name_of_openais_means_a_voice_of_the_site(do: Do) -> None:
    """The default is accepted on every site: Kokoro's voices may be installed later."""
    for value in (DEFAULT_VOICES, f"alloy={FIRST}"):
        await do(SetSetting(name="openai_voices", value=value))
    with pytest.raises(CommandError, match="There is no public voice 'nope'"):
        await do(SetSetting(name="openai_voices", value="alloy=nope"))
