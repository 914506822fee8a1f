"""Problems that users of other Kokoro servers report, with the tiny model: missing parts of a text, and
requests that end the server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import soundfile

from demo import tiny_voices
from myna.engines.interface import EngineFailed, SpeechResult, Utterance
from myna.engines.kokoro.engine import Kokoro
from myna.engines.kokoro.job import RATE_HZ
from tests.engines.conftest import kokoro, names, started
from tests.engines.kokoro.test_text import pieces

pytestmark = pytest.mark.anyio

VOICE_ID = "zf_xiaobei"
SYMBOL_S = 0.08  # the tiny model speaks each symbol and both ends for this long
TRIMMED_S = 0.1  # silence that is cut off a piece, at most
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kokoro]:
    model = tiny_voices.neural(tmp_path_factory.mktemp("models") / "kokoro", [VOICE_ID, "af_heart"])
    async with started(kokoro(model, 2, queue_max=30), writes=(tmp_path_factory.mktemp("audio"),)) as engine:
        yield engine


async def seconds_of(engine: Kokoro, text: str) -> float:
    """The length of the whole sound."""
    async with aclosing(engine.sound(Utterance(text, VOICE_ID, 1.0), DEADLINE_S)) as parts:
        return sum([len(part.pcm) for part in [part async for part in parts]]) / 2 / RATE_HZ


def expected_s(text: str) -> float:
    """The length of the tiny model's sound of all symbols of the text, with the pauses."""
    found = pieces(text)
    return sum((len(piece.phonemes) + 2) * SYMBOL_S + piece.pause_s for piece in found)


async def test_a_sound_of_many_minutes_is_written_to_its_end(engine: Kokoro, tmp_path: Path) -> None:
    text = "今天天气很好，我们去公园吧。" * 70
    expected = expected_s(text)
    spoken = await engine.speak(Utterance(text, VOICE_ID, 1.0), tmp_path / "long.mp3", DEADLINE_S)
    assert expected > 300
    assert expected - len(pieces(text)) * TRIMMED_S < spoken.seconds <= expected + 0.1
    assert soundfile.info(tmp_path / "long.mp3").duration == pytest.approx(spoken.seconds, abs=0.1)


async def test_requests_that_are_cancelled_in_the_middle_harm_no_other(
    engine: Kokoro, tmp_path: Path
) -> None:
    async def speak(number: int) -> SpeechResult:
        text = "今天天气很好。我们去公园吧！" * 3
        return await engine.speak(Utterance(text, VOICE_ID, 1.0), tmp_path / f"{number}.mp3", DEADLINE_S)

    speaking = [asyncio.create_task(speak(number)) for number in range(9)]
    await asyncio.sleep(0)
    for task in speaking[::3]:
        task.cancel()
    results = await asyncio.gather(*speaking, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results[::3])
    others = [result for number, result in enumerate(results) if number % 3]
    assert not [result for result in others if isinstance(result, EngineFailed)]
    assert names(tmp_path) == [f"{number}.mp3" for number in range(9) if number % 3]
