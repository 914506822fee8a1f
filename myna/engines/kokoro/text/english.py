"""English phonemes of espeak-ng to the symbols of the Kokoro model.

The model has one symbol for each diphthong and affricate. The IPA may join their letters by a tie
(`a^ɪ`), or not (`aɪ`). A Mandarin voice has to aspirate the stops before a stressed vowel: its `p` without
`ʰ` is the b of pinyin.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final

from myna.engines.kokoro.symbols import NUMBERS

_TIES: Final = re.compile("[\\^\u0361\u035c\u200d\u2040]")
_SYLLABIC: Final = re.compile("(.)\u0329")
_STOP: Final = re.compile("(?<!s)([ptk])(?=[ˈˌ])")
_COMMON: Final = (
    ("\u02cc?n\u0329", "ᵊn"),
    ("aɪ", "I"),
    ("aʊ", "W"),
    ("eɪ", "A"),
    ("ɔɪ", "Y"),
    ("dʒ", "ʤ"),
    ("tʃ", "ʧ"),
    ("əl(?![ˈˌaeiouæɑɐɒɔəɛɜɪʊʌIWAYOQ])", "ᵊl"),
    ("ɚ", "əɹ"),
    ("ɹɹ", "ɹ"),
    ("r", "ɹ"),
    ("g", "ɡ"),
    ("[xç]", "k"),
    ("ɐ", "ə"),
    ("ɬ", "l"),
    ("ʲ", ""),
)
_AMERICAN: Final = (
    ("oʊ", "O"),
    ("ɜːɹ?", "ɜɹ"),
    ("ɾ", "T"),
    ("ʔ", "t"),
    ("ɪə", "iə"),
    ("ː", ""),
    ("o", "ɔ"),
    ("e", "A"),
)
_BRITISH: Final = (
    ("eə", "ɛː"),
    ("iə", "ɪə"),
    ("[əo]ʊ", "Q"),
    ("ʔ", "t"),
    ("o", "ɔ"),
    ("e", "A"),
)


def _table(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), symbol) for pattern, symbol in pairs)


_TABLES: Final = {False: _table(_COMMON + _AMERICAN), True: _table(_COMMON + _BRITISH)}


_TIED: Final = (
    ("a^ɪ", "I"), ("a^ʊ", "W"), ("d^z", "ʣ"), ("d^ʒ", "ʤ"), ("e^ɪ", "A"), ("o^ʊ", "O"), ("ə^ʊ", "Q"),
    ("s^s", "S"), ("t^s", "ʦ"), ("t^ʃ", "ʧ"), ("ɔ^ɪ", "Y"),
)  # fmt: skip
"""Of other languages, as the model was trained on them."""
_LETTER_SOUNDS: Final = (
    "ˈA bˈi sˈi dˈi ˈi ˈɛf ʤˈi ˈAʧ ˈI ʤˈA kˈA ˈɛl ˈɛm "
    "ˈɛn ˈO pˈi kjˈu ˈɑɹ ˈɛs tˈi jˈu vˈi dˈʌbᵊlju ˈɛks wˈI zˈi"
)
_LETTERS: Final = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTER_SOUNDS.split(), strict=True))


_LETTER_A: Final = re.compile(
    r"(?<![\w'’-])A(?= [A-Z](?![\w'’-]))|(?<=(?<!\w)[A-Z] )A(?!\w)|(?<=[a-z] )A(?= [a-z])"
)
"""In A P I, U S A, vitamin A deficiency."""


def with_letter_a(text: str) -> str:
    """English text in which an A that is no article has the letter's sound, which espeak-ng reads as one."""
    return _LETTER_A.sub("eigh", text)


def spelled(letters: str) -> str:
    """The phonemes of letters said one by one, in a Mandarin voice."""
    plain = unicodedata.normalize("NFD", letters.upper())
    return _aspirated(" ".join(_LETTERS[letter] for letter in plain if letter in _LETTERS))


def symbols(ipa: str, *, british: bool = False, mandarin: bool = False) -> str:
    """The phonemes of the model for espeak-ng's IPA; sounds without a symbol are omitted.

    `mandarin`: for a Mandarin voice.
    """
    ipa = _TIES.sub("", ipa)
    for pattern, symbol in _TABLES[british]:
        ipa = pattern.sub(symbol, ipa)
    ipa = _SYLLABIC.sub(r"ᵊ\1", ipa)
    known = "".join(symbol for symbol in ipa if symbol in NUMBERS)
    return " ".join((_aspirated(known) if mandarin else known).split())


def foreign_symbols(ipa: str) -> str:
    """The phonemes of the model for espeak-ng's tied IPA of a language other than English and Mandarin."""
    for sound, symbol in _TIED:
        ipa = ipa.replace(sound, symbol)
    ipa = unicodedata.normalize("NFD", ipa.replace("^", "").replace("g", "ɡ")).replace("c\u0327", "ç")
    return " ".join("".join(symbol for symbol in ipa if symbol in NUMBERS).split())


def _aspirated(sounds: str) -> str:
    return _STOP.sub(r"\1ʰ", sounds)


def respelled(words: str, ipa: Callable[[str], str]) -> str:
    """The IPA of words such as MY-nuh, whose syllables are divided by hyphens; one in capitals among others
    has the stress. `ipa` returns that of English text."""
    return " ".join(_respelled(word.split("-"), ipa) for word in words.split())


def _respelled(syllables: Sequence[str], ipa: Callable[[str], str]) -> str:
    stressed = [one.isupper() for one in syllables]
    sounds = [ipa(one.lower()) for one in syllables]
    if any(stressed) and not all(stressed):
        plain = (re.sub("[ˈˌ]", "", sound) for sound in sounds)
        sounds = [f"ˈ{sound}" if stress else sound for stress, sound in zip(stressed, plain, strict=True)]
    return "".join("".join(sound.split()) for sound in sounds)
