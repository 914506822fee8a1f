"""Blends of voices."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import soundfile

from demo import tiny_voices
from myna.engines.interface import UnsupportedUtterance, Utterance
from myna.engines.kokoro.engine import Kokoro
from myna.engines.voices import BlendPart, can_make, parts_of
from tests.engines.conftest import kokoro, mean_hz, started

pytestmark = pytest.mark.anyio

VOICE_IDS = ["zf_xiaobei", "zf_xiaoxiao", "af_heart"]
VOICE_HZ = 2000
MANDARIN, MIXED, NUMBER = "你好，世界。", "这个 project 很好。", "1,234,567"
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kokoro]:
    model = tiny_voices.neural(tmp_path_factory.mktemp("models") / "kokoro", VOICE_IDS)
    async with started(kokoro(model, 2), writes=(tmp_path_factory.mktemp("audio"),)) as engine:
        yield engine


async def spoken(engine: Kokoro, folder: Path, text: str, voice_id: str) -> Path:
    path = folder / "spoken.mp3"
    await engine.speak(Utterance(text, voice_id, 1.0), path, DEADLINE_S)
    return path


async def pitch_hz(engine: Kokoro, folder: Path, text: str, voice_id: str) -> float:
    """The mean pitch of a text in a voice or a blend."""
    return mean_hz(await spoken(engine, folder, text, voice_id))


async def seconds(engine: Kokoro, folder: Path, text: str, voice_id: str) -> float:
    return float(soundfile.info(await spoken(engine, folder, text, voice_id)).duration)


@pytest.mark.parametrize(
    ("recipe", "number"),
    [
        ("zf_xiaobei:1+zf_xiaoxiao:3", 0.75),
        ("zf_xiaobei:50+zf_xiaoxiao:150", 0.75),
        ("zf_xiaobei+zf_xiaoxiao", 0.5),
        ("zf_xiaobei:2+zf_xiaoxiao:1+af_heart:1", 0.75),
    ],
)
async def test_a_blend_is_the_average_of_its_voices_by_weight(
    engine: Kokoro, tmp_path: Path, recipe: str, number: float
) -> None:
    alone = await pitch_hz(engine, tmp_path, MANDARIN, "zf_xiaobei")
    blended = await pitch_hz(engine, tmp_path, MANDARIN, recipe)
    assert blended - alone == pytest.approx(VOICE_HZ * number, rel=0.05)


async def test_a_mandarin_blend_speaks_english_words_with_a_share_of_the_english_voice(
    engine: Kokoro, tmp_path: Path
) -> None:
    """0.4 of the blend, which is 0.75, and 0.6 of the English voice, which is 2."""
    plain = await pitch_hz(engine, tmp_path, MIXED, "zf_xiaobei")
    blended = await pitch_hz(engine, tmp_path, MIXED, "zf_xiaobei:1+zf_xiaoxiao:3")
    assert blended - plain == pytest.approx(VOICE_HZ * 0.4 * 0.75, rel=0.05)
    english = await pitch_hz(engine, tmp_path, MIXED, "zf_xiaobei:2+af_heart:1")
    assert english - plain == pytest.approx(VOICE_HZ * 0.4 * 2 / 3, rel=0.05)


async def test_the_language_is_that_of_the_largest_part(engine: Kokoro, tmp_path: Path) -> None:
    """A number has other words, and so another length, in each language."""
    mandarin_s = await seconds(engine, tmp_path, NUMBER, "zf_xiaobei")
    english_s = await seconds(engine, tmp_path, NUMBER, "af_heart")
    largest_second_s = await seconds(engine, tmp_path, NUMBER, "af_heart:1+zf_xiaobei:2")
    equal_s = await seconds(engine, tmp_path, NUMBER, "af_heart+zf_xiaobei")
    assert abs(mandarin_s - english_s) > 0.5
    assert (largest_second_s, equal_s) == pytest.approx((mandarin_s, english_s), abs=0.1)


@pytest.mark.parametrize(
    "recipe", ["zf_nobody", "zf_xiaobei+zf_nobody", "zf_xiaobei:0+af_heart:1", "zf_xiaobei:1", "+"]
)
async def test_an_unknown_voice_and_a_recipe_that_cant_be_made_are_refused(
    engine: Kokoro, tmp_path: Path, recipe: str
) -> None:
    with pytest.raises(UnsupportedUtterance, match="does not have this voice"):
        await spoken(engine, tmp_path, MANDARIN, recipe)


@pytest.mark.parametrize(
    ("recipe", "shares"),
    [
        ("a:2+b:1", {"a": 2 / 3, "b": 1 / 3}),
        ("b:1+a:3", {"a": 0.75, "b": 0.25}),
        ("a(2)+b(1)", {"a": 2 / 3, "b": 1 / 3}),
        ("b+a", {"b": 0.5, "a": 0.5}),
        ("a:0.5+b:0.25+c:0.25", {"a": 0.5, "b": 0.25, "c": 0.25}),
        ("a:999.99+b:0.01", {"a": 0.99999, "b": 0.00001}),
        ("a+b+c+d+e", dict.fromkeys("abcde", 0.2)),
    ],
)
def test_the_shares_add_up_to_1_and_the_largest_is_first(recipe: str, shares: dict[str, float]) -> None:
    parts = parts_of(recipe)
    assert [part.voice_id for part in parts] == list(shares)
    assert [part.share for part in parts] == pytest.approx(list(shares.values()))


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ("", "must be voices with their weights, like zf_xiaoxiao:2+zf_xiaobei:1"),
        ("a:1+", "must be voices with their weights"),
        (":1+b:1", "must be voices with their weights"),
        ("a:1", "must be of 2 to 5 voices"),
        ("a+b+c+d+e+f", "must be of 2 to 5 voices"),
        ("a:1+b:1+a:2", "a must be named once"),
        *(
            (f"a:{weight}+b:1", "the weight of a must be a number from 0.01 to 999.99")
            for weight in ("", "0", "0.00", "-1", "1000", "0.001", "1e2", "nan", "１", " 1", "1:1", "1\n")
        ),
    ],
)
def test_a_wrong_recipe_is_explained(recipe: str, reason: str) -> None:
    with pytest.raises(ValueError, match="^" + reason.replace("+", r"\+")):
        parts_of(recipe)


def test_a_recipe_can_be_made_of_the_voices_that_it_names() -> None:
    assert can_make("a:2+b:1", {"a", "b", "c"})
    assert not can_make("a:2+b:1", {"a", "c"})
    assert not can_make("a", {"a"})
    assert parts_of("a+b")[0] == BlendPart("a", 0.5)
