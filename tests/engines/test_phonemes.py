"""Phonemes of texts by the real espeak-ng in a separate program."""

import random
from collections.abc import AsyncIterator

import pytest

from myna.engines.interface import UnsupportedUtterance
from myna.engines.pool.pool import Pool
from myna.engines.sherpa.job import Phonemes, PhonemesJob
from tests.engines.conftest import started

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def phonemizer() -> AsyncIterator[Pool[Phonemes]]:
    async with started(
        Pool("myna.engines.espeak.phonemes_child", Phonemes, processes=1, queue_max=4, job_deadline_s=20)
    ) as pool:
        yield pool


@pytest.mark.parametrize(
    ("text", "language", "pieces"),
    [
        ("Hello, world! Good: yes.", "en-us", ["həlˈoʊ, wˈɜːld!", "ɡˈʊd: jˈɛs."]),
        ("Mr. Smith has 3.", "en-US", ["mˈɪstɚ smˈɪθ hɐz θɹˈiː."]),
        ("Hallo Welt", "de", ["hˈaloː vˈɛlt"]),
        ("Bonjour", "fr-FR", ["bɔ̃ʒˈuʁ"]),
        ("你好，世界。", "zh-CN", ["ni2χˈɑu2, s.ˈi.5 tɕˈiɛ5."]),
        ("", "en-us", []),
        ("?!", "en-us", []),
    ],
)
async def test_phonemes_keep_punctuation(
    phonemizer: Pool[Phonemes], text: str, language: str, pieces: list[str]
) -> None:
    assert (await phonemizer.run(PhonemesJob(text, language), 20)).pieces == pieces


async def test_a_foreign_word_leaves_no_language_marker(phonemizer: Pool[Phonemes]) -> None:
    (piece,) = (await phonemizer.run(PhonemesJob("今天3点hello", "cmn"), 20)).pieces
    assert "(" not in piece and "l" in piece
    assert piece.startswith("tɕˈi5n")


async def test_a_long_text_is_phonemized_in_pieces(phonemizer: Pool[Phonemes]) -> None:
    pieces = (await phonemizer.run(PhonemesJob("word " * 600, "en-us"), 20)).pieces
    assert len(pieces) == 25 and sum(piece.count("wˈɜːd") for piece in pieces) == 600


async def test_an_unknown_language_is_refused(phonemizer: Pool[Phonemes]) -> None:
    with pytest.raises(UnsupportedUtterance):
        await phonemizer.run(PhonemesJob("nuqneH", "tlh"), 20)


async def test_the_phonemes_of_a_text_do_not_depend_on_the_texts_before_it(
    phonemizer: Pool[Phonemes],
) -> None:
    """The library keeps static state, for instance of a text that ends in a full stop and one character."""
    rng = random.Random(1)
    signs = [*"abXY079 .,;:!?-'\"()[]<&%+~\n\t", "你", "好", "，", "é", "Ж", "…", "—", "\u200b", "😀", "&lt;"]
    texts = ["My digit is in box No. 7", "welcome to our store"]
    for _ in range(200):
        text = "".join(rng.choices(signs, k=rng.randint(1, 12)))
        texts += [f"{text}. {rng.choice(signs)}", f"{text} and so on"]
    jobs = [PhonemesJob(text, rng.choice(["en-us", "cmn", "fr"])) for text in texts]
    in_order = [(await phonemizer.run(job, 20)).pieces for job in jobs]
    backwards = [(await phonemizer.run(job, 20)).pieces for job in reversed(jobs)]
    assert in_order == backwards[::-1]
