"""espeak-ng's IPA to the symbols of the model."""

import pytest

from myna.engines.kokoro.text.english import spelled, symbols, with_letter_a


@pytest.mark.parametrize(
    ("ipa", "american", "british"),
    [
        ("həlˈo^ʊ", "həlˈO", "həlˈQ"),
        ("həlˈəʊ", "həlˈəʊ", "həlˈQ"),
        ("wˈɜːld", "wˈɜɹld", "wˈɜːld"),
        ("nˈa^ɪn", "nˈIn", "nˈIn"),
        ("naɪn", "nIn", "nIn"),
        ("d^ʒˈʌd^ʒ", "ʤˈʌʤ", "ʤˈʌʤ"),
        ("t^ʃˈa^ɪld", "ʧˈIld", "ʧˈIld"),
        ("bˈʌɾɚ", "bˈʌTəɹ", "bˈʌɾəɹ"),
        ("bˈʌʔn̩", "bˈʌtᵊn", "bˈʌtᵊn"),
        ("lˈɪɾəl", "lˈɪTᵊl", "lˈɪɾᵊl"),
        ("ɐbˈa^ʊt", "əbˈWt", "əbˈWt"),
        ("hˈɪɹ", "hˈɪɹ", "hˈɪɹ"),
        ("ð^ə", "ðə", "ðə"),
        ("ɬ\u0001x", "lk", "lk"),
    ],
)
def test_symbols(ipa: str, american: str, british: str) -> None:
    assert symbols(ipa, british=False) == american
    assert symbols(ipa, british=True) == british


@pytest.mark.parametrize("text", ["the A P I", "U S A", "ten A M", "vitamin A is", "A T and T"])
def test_the_letter_a_has_its_sound(text: str) -> None:
    """espeak-ng reads an A within a text as the article."""
    assert with_letter_a(text) == text.replace("A", "eigh")


@pytest.mark.parametrize("text", ["A cat.", "A T-shirt", "Once Upon A Time", "the A's"])
def test_an_article_and_a_part_of_a_word_stay(text: str) -> None:
    assert with_letter_a(text) == text


def test_letters_one_by_one() -> None:
    assert spelled("pdfé") == "pʰˈi dˈi ˈɛf ˈi"


@pytest.mark.parametrize(
    ("ipa", "expected"),
    [("tˈiːm", "tʰˈim"), ("stˈɑp", "stˈɑp"), ("ˈɑpən", "ˈɑpən"), ("kˌoʊd pˈɛn", "kʰˌOd pʰˈɛn")],
)
def test_a_mandarin_voice_aspirates_stops_before_a_stressed_vowel(ipa: str, expected: str) -> None:
    assert symbols(ipa, mandarin=True) == expected
