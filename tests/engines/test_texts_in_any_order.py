"""What is made of a text doesn't depend on the texts of other accounts before it: the libraries keep static
state, espeak-ng for instance the last character of a text that ends in a full stop, a space and one sign."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from demo import tiny_voices
from myna.engines.espeak.config import EspeakConfig
from myna.engines.interface import Engine, EngineFailed, EngineLimits, Utterance
from myna.engines.kokoro.config import KokoroConfig
from myna.engines.kokoro.job import TextJob, TextPieces
from myna.engines.pool.pool import Pool
from myna.engines.sherpa.config import SherpaConfig
from myna.engines.sherpa.job import Phonemes, PhonemesJob
from myna.engines.text.reading import spoken_form

pytestmark = pytest.mark.anyio

LIMITS = EngineLimits(processes=1, queue_max=4, job_deadline_s=60)
SIGNS = [
    *"abXY079 .,;:!?-'\"()[]<&%+~\n\t",
    "你",
    "好",
    "年",
    "，",
    "é",
    "Ж",
    "…",
    "—",
    "\u200b",
    "😀",
    "&lt;",
]
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
async def sound_of(engine: Engine, folder: Path) -> AsyncIterator[Made]:
    """The seconds of the sound, or the error. espeak-ng's samples are random within some milliseconds."""
    await engine.start()
    file = folder / "spoken.mp3"

    async def made(text: str, language: str) -> object:
        voices = [voice for voice in engine.voices if voice.language[:2] == language[:2]] or engine.voices
        utterance = Utterance(text, voices[0].voice_id, 1.0)
        try:
            return pytest.approx((await engine.speak(utterance, file, DEADLINE_S)).seconds, abs=0.06)
        except EngineFailed as failure:
            return str(failure)

    yield made
    await engine.close()


@asynccontextmanager
async def espeak(folder: Path) -> AsyncIterator[Made]:
    async with sound_of(EspeakConfig().build(LIMITS, Path()), folder) as made:
        yield made


@asynccontextmanager
async def kokoro(folder: Path) -> AsyncIterator[Made]:
    tiny_voices.neural(folder / "model", ["af_heart", "zf_xiaobei"])
    async with sound_of(KokoroConfig(str(folder / "model")).build(LIMITS, Path()), folder) as made:
        yield made


@asynccontextmanager
async def sherpa(folder: Path) -> AsyncIterator[Made]:
    model = tiny_voices.vits(folder / "model")
    async with sound_of(SherpaConfig(str(model)).build(LIMITS, Path()), folder) as made:
        yield made


@asynccontextmanager
async def phonemes(_folder: Path) -> AsyncIterator[Made]:
    pool = Pool("myna.engines.espeak.phonemes_child", Phonemes, processes=1, queue_max=4, job_deadline_s=20)
    await pool.start()
    yield lambda text, language: pool.run(PhonemesJob(text, language), DEADLINE_S)
    await pool.close()


@asynccontextmanager
async def pieces(_folder: Path) -> AsyncIterator[Made]:
    pool = Pool("myna.engines.kokoro.text_child", TextPieces, processes=1, queue_max=4, job_deadline_s=20)
    await pool.start()
    yield lambda text, language: pool.run(
        TextJob(text, "zh-CN" if language == "cmn" else "en-US"), DEADLINE_S
    )
    await pool.close()


@asynccontextmanager
async def reader(_folder: Path) -> AsyncIterator[Made]:
    async def made(text: str, language: str) -> str:
        return spoken_form(text)

    yield made


@pytest.mark.parametrize(
    ("maker", "count"),
    [(espeak, 60), (kokoro, 30), (sherpa, 30), (phonemes, 200), (pieces, 100), (reader, 200)],
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
