"""A text is spoken the same after any other: no library keeps state from one text to the next."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from demo import tiny_voices
from myna.engines.espeak.engine import EspeakConfig
from myna.engines.interface import EngineFailed, EngineLimits, Utterance
from myna.engines.jobs import Phonemes, PhonemesJob
from myna.engines.kokoro.engine import KokoroConfig
from myna.engines.kokoro.job import TextJob, TextPieces
from myna.engines.pool.pool import Pool
from myna.engines.registry import EngineConfig
from myna.engines.sherpa.engine import SherpaConfig
from tests.engines.conftest import started

LIMITS = EngineLimits(processes=1, queue_max=4, job_deadline_s=60)
SIGNS = [*"abXY079 .,;:!?-'\"()[]<&%+~\n\t你好年，éЖ…—\u200b😀", "&lt;"]
DEADLINE_S = 60.0
Made = Callable[[str, str], Awaitable[object]]
"""What is made of a text in a language."""


def pairs(count: int) -> list[tuple[str, str]]:
    """Texts with their languages: one that a library may remember, and one that follows it."""
    rng = random.Random(1)
    texts = ["My digit is in box No. 7", "welcome to our store"]
    for _ in range(count):
        text = "".join(rng.choices(SIGNS, k=rng.randint(1, 12)))
        texts += [f"{text}. {rng.choice(SIGNS)}", f"{text} and so on"]
    return [(text, rng.choice(["en-us", "cmn", "fr"])) for text in texts]


@asynccontextmanager
async def sound_of(config: EngineConfig, folder: Path) -> AsyncIterator[Made]:
    """The seconds of the sound, or the error. espeak-ng's samples are random within some milliseconds."""
    async with started(config.build(LIMITS, Path())) as engine:

        async def made(text: str, language: str) -> object:
            voices = [voice for voice in engine.voices if voice.language[:2] == language[:2]]
            utterance = Utterance(text, (voices or engine.voices)[0].voice_id, 1.0)
            try:
                spoken = await engine.speak(utterance, folder / "spoken.mp3", DEADLINE_S)
            except EngineFailed as failure:
                return str(failure)
            return pytest.approx(spoken.seconds, abs=0.06)

        yield made


@asynccontextmanager
async def result_of(
    module: str, result: type[msgspec.Struct], job: Callable[[str, str], msgspec.Struct]
) -> AsyncIterator[Made]:
    async with started(Pool(module, result, LIMITS)) as pool:
        yield lambda text, language: pool.run(job(text, language), DEADLINE_S)


def kokoro(folder: Path) -> KokoroConfig:
    return KokoroConfig(str(tiny_voices.neural(folder / "model", ["af_heart", "zf_xiaobei"])))


def text_job(text: str, language: str) -> TextJob:
    return TextJob(text, "zh-CN" if language == "cmn" else "en-US")


@pytest.mark.parametrize(
    ("maker", "count"),
    [
        (lambda folder: sound_of(EspeakConfig(), folder), 60),
        (lambda folder: sound_of(kokoro(folder), folder), 30),
        (lambda folder: sound_of(SherpaConfig(str(tiny_voices.vits(folder / "model"))), folder), 30),
        (lambda _: result_of("myna.engines.espeak.phonemizer", Phonemes, PhonemesJob), 200),
        (lambda _: result_of("myna.engines.kokoro.text.pieces", TextPieces, text_job), 100),
    ],
    ids=["espeak", "kokoro", "sherpa", "phonemes", "pieces"],
)
async def test_a_text_gives_the_same_after_any_other(
    maker: Callable[[Path], AbstractAsyncContextManager[Made]], count: int, tmp_path: Path
) -> None:
    async with maker(tmp_path) as made:
        texts = pairs(count)
        in_order = [await made(*text) for text in texts]
        backwards = [await made(*text) for text in reversed(texts)]
        for text, forwards, again in zip(texts, in_order, reversed(backwards), strict=True):
            assert forwards == again, text
