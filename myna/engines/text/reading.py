"""Text as it is spoken: years, money, times, phone numbers, signs and so on in words."""

from typing import Final

import regex

from myna.engines.text.addresses import addresses_in_words
from myna.engines.text.english import reader as english
from myna.engines.text.mandarin import reader as mandarin
from myna.engines.text.signs import fractions_in_han, plain

_HAN: Final = regex.compile(r"\p{Script=Han}")


def in_mandarin(text: str) -> str:
    """`text` in Mandarin words. Accepts any `str`, also lone surrogates, and raises nothing."""
    return mandarin.numbers_in_words(fractions_in_han(addresses_in_words(plain(text), chinese=True)))


def in_english(text: str) -> str:
    """`text` in English words; its Han are unchanged. Accepts any `str` and raises nothing."""
    return english.numbers_in_words(addresses_in_words(plain(text), chinese=False))


def spoken_form(text: str) -> str:
    """`text` in Mandarin words if there are Han in it, else with its digits and letters in plain form."""
    return in_mandarin(text) if _HAN.search(text) else plain(text)
