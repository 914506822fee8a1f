"""Blends, which the operator mixes from the voices of Kokoro: they are public voices like any other."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from demo import tiny_voices
from myna.actions import voices as voice_actions
from myna.actions.media import DeleteVoice
from myna.actions.voices import BlendVoice, HideVoice
from myna.channels.channels import Channels
from myna.engines.interface import EngineLimits
from myna.engines.kokoro.engine import KokoroConfig
from myna.errors import CommandError, InvalidRequest
from myna.farm.nodes import Nodes
from myna.http.client import HttpClient
from myna.settings import Settings
from myna.speech import catalogue as voices
from myna.store.queries import config as config_store
from myna.store.queries.accounts import activity_page
from myna.store.queries.config import BlendRow, Config
from myna.voices import overrides as voice_overrides
from myna.wire.farm import NodeVoice
from tests.clones.conftest import Do
from tests.rig.actors import perform
from tests.store.books import Books
from tests.store.fixtures import each_database
from tests.tasks.task_service import join_node

LIMITS = EngineLimits(processes=1, queue_max=1, job_deadline_s=1.0)
PARTS = ["zf_xiaobei", "zf_xiaoxiao", "zm_yunxi", "af_heart"]
BLEND, RECIPE = "xiao", "zf_xiaoxiao:2+zf_xiaobei:1"
CHANNEL = "default-speech"
ChannelsOf = Callable[..., Channels]


@pytest.fixture
async def channels_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChannelsOf]:
    """Makes the channels of a site whose model has these voices; its engine is up without processes."""
    monkeypatch.setattr("myna.engines.kokoro.engine.Kokoro.up", lambda _: True)
    outbound = HttpClient(connections_max=1)

    def make(*voice_ids: str) -> Channels:
        model = tiny_voices.neural(tmp_path / "+".join(voice_ids), voice_ids)
        local = {CHANNEL: KokoroConfig(str(model)).build(LIMITS, Path())}
        settings = Settings(speech=f"kokoro:{model}")
        return Channels(settings=settings, environ={}, http_client=outbound, local=local)

    yield make
    await outbound.close()


@pytest.fixture
def channels(channels_of: ChannelsOf) -> Channels:
    return channels_of(*PARTS)


async def config_of(books: Books) -> Config:
    return await config_store.load(books.db)


async def usable(books: Books, channels: Channels) -> list[str]:
    """The ids of GET /voices."""
    return [voice.voice_id for voice in voices.usable(channels, await config_of(books))]


async def test_a_blend_is_a_public_voice_of_the_channel_after_its_own(
    do: Do, books: Books, channels: Channels
) -> None:
    await do(BlendVoice(voice_id=BLEND, recipe=RECIPE))
    assert await usable(books, channels) == [*PARTS, BLEND]
    rows = await voice_overrides.list_public(books.db, channels)
    (row,) = (row for row in rows if row.voice.voice_id == BLEND)
    assert row.voice == BlendRow(BLEND, "晓晓 + 晓北", "female", "zh-CN", RECIPE)
    assert (row.sources, row.recipe) == ((f"channel {CHANNEL}",), RECIPE)
    others = [row for row in await voice_overrides.list_public(books.db, channels) if row.recipe == ""]
    assert [row.voice.voice_id for row in others] == PARTS


async def test_the_channel_speaks_the_recipe(do: Do, books: Books, channels: Channels) -> None:
    await do(BlendVoice(voice_id=BLEND, recipe=RECIPE))
    choice = voices.choose(channels, await config_of(books), {}, (), BLEND)
    (channel,) = choice.channels
    assert (choice.voice.voice_id, choice.nodes) == (BLEND, frozenset())
    assert channel.engine_voice_id(BLEND) == RECIPE
    assert channel.engine_voice_id("zf_xiaobei") == "zf_xiaobei"
    with pytest.raises(InvalidRequest):
        voices.choose(channels, await config_of(books), {}, (), RECIPE)


async def test_a_request_may_name_a_recipe_of_listed_voices_if_the_site_accepts_them(
    do: Do, books: Books, channels: Channels
) -> None:
    recipe = "af_heart(1)+zm_yunxi(2)"
    choice = voices.choose(channels, await config_of(books), {}, (), recipe, recipes=True)
    (channel,) = choice.channels
    assert (choice.voice.language, choice.voice.gender) == ("zh-CN", "male")
    assert channel.engine_voice_id(choice.voice.voice_id) == recipe
    await do(HideVoice(voice_id="af_heart"))
    for unknown, why in (
        (recipe, "there is no voice 'af_heart' for the recipe"),
        ("zm_yunxi+nobody", "there is no voice 'nobody' for"),
        ("zm_yunxi+zm_yunxi", "the recipe 'zm_yunxi.*': zm_yunxi must be named once"),
        ("zm_yunxi:x+zf_xiaobei", "the weight of zm_yunxi must be a number"),
        ("+" * 601, "there is no such voice"),
    ):
        with pytest.raises(InvalidRequest, match=why):
            voices.choose(channels, await config_of(books), {}, (), unknown, recipes=True)


async def test_gender_and_language_are_those_of_the_largest_part(do: Do) -> None:
    made = await do(BlendVoice(voice_id="a", recipe="af_heart:1+zm_yunxi:2"))
    assert (made.gender, made.language, made.name) == ("male", "zh-CN", "云希 + Heart")
    made = await do(BlendVoice(voice_id="b", recipe="af_heart+zm_yunxi", name="Bea"))
    assert (made.gender, made.language, made.name) == ("female", "en-US", "Bea")


async def test_the_same_blend_again_changes_nothing(do: Do, books: Books) -> None:
    await do(BlendVoice(voice_id=BLEND, recipe=RECIPE, name="小"))
    await do(BlendVoice(voice_id=BLEND, recipe=RECIPE, name="小"))
    changes = await activity_page(books.db, prefix="voice")
    assert [row.command for row in changes] == [
        "myna voice blend xiao zf_xiaoxiao:2+zf_xiaobei:1 --name '小'"
    ]


@each_database
async def test_another_recipe_or_name_replaces_the_blend(do: Do, books: Books) -> None:
    await do(BlendVoice(voice_id=BLEND, recipe=RECIPE, name="小"))
    before = (await config_of(books)).version
    await do(BlendVoice(voice_id=BLEND, recipe="zm_yunxi:3+zf_xiaobei:1"))
    config = await config_of(books)
    assert config.version == before + 1
    (row,) = config.blends
    assert (row.recipe, row.name, row.gender) == ("zm_yunxi:3+zf_xiaobei:1", "云希 + 晓北", "male")


@each_database
async def test_a_deleted_blend_is_no_voice(do: Do, books: Books, channels: Channels) -> None:
    await do(BlendVoice(voice_id=BLEND, recipe=RECIPE))
    before = (await config_of(books)).version
    await perform(books.db, DeleteVoice(voice_id=BLEND))
    config = await config_of(books)
    assert (config.version, config.blends) == (before + 1, ())
    with pytest.raises(InvalidRequest):
        voices.choose(channels, config, {}, (), BLEND)
    with pytest.raises(CommandError, match="There is no blend or cloned voice 'xiao'"):
        await perform(books.db, DeleteVoice(voice_id=BLEND))


@pytest.mark.parametrize(
    ("voice_id", "recipe", "name", "reason"),
    [
        (BLEND, "zf_xiaobei", "", "The recipe 'zf_xiaobei': must be of 2 to 5 voices"),
        (BLEND, "zf_xiaobei:0+af_heart:1", "", "the weight of zf_xiaobei must be"),
        (BLEND, "zf_xiaobei+zf_nobody", "", "The channel 'default-speech' has no voice 'zf_nobody'"),
        (BLEND, RECIPE, " ", "A name has 1 to 100 printable characters"),
        ("zf_xiaobei", RECIPE, "", "The channel 'default-speech' has a voice 'zf_xiaobei'"),
        *(
            (voice_id, RECIPE, "", "The id of a voice has 1 to 100 letters")
            for voice_id in ("", "clone-x", "x+y", "x" * 101)
        ),
    ],
)
async def test_a_wrong_blend_is_refused(
    do: Do, books: Books, voice_id: str, recipe: str, name: str, reason: str
) -> None:
    before = await config_of(books)
    with pytest.raises(CommandError, match=reason):
        await do(BlendVoice(voice_id=voice_id, recipe=recipe, name=name))
    assert await config_of(books) == before


async def test_the_id_of_a_nodes_voice_is_refused(do: Do, books: Books) -> None:
    own = NodeVoice(voice_id=BLEND, name="Ann", gender="female", language="en-US")
    await join_node(Nodes(books.db), own)
    with pytest.raises(CommandError, match="A compute node has a voice 'xiao'"):
        await do(BlendVoice(voice_id=BLEND, recipe=RECIPE))


async def test_there_is_a_maximum_of_blends(do: Do, books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_actions, "BLENDS_MAX", 2)
    for voice_id in ("a", "b"):
        await do(BlendVoice(voice_id=voice_id, recipe=RECIPE))
    with pytest.raises(CommandError, match="There are 2 blends, the maximum"):
        await do(BlendVoice(voice_id="c", recipe=RECIPE))
    await do(BlendVoice(voice_id="b", recipe="zf_xiaobei+af_heart"))
    assert [row.voice_id for row in (await config_of(books)).blends] == ["a", "b"]
