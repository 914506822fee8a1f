"""Phonemes of texts by the real espeak-ng in a separate program."""

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
