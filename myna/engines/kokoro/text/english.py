"""English and other Latin words in the symbols of the Kokoro model, from the phonemes of espeak-ng.

The model has one symbol for each diphthong and affricate. The IPA may join their letters by a tie
(`a^ɪ`), or not (`aɪ`). A Mandarin voice has to aspirate the stops before a stressed vowel: its `p` without
`ʰ` is the b of pinyin.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import regex

from myna.engines.kokoro.symbols import NUMBERS
from myna.engines.text.english.tables import AS_WORDS
from myna.engines.text.mandarin.numerals import by_one, ordinal

_TIES: Final = re.compile("[\\^\u0361\u035c\u200d\u2040]")
_SYLLABIC: Final = re.compile("(.)\u0329")
_STOP: Final = re.compile("(?<!s)([ptk])(?=[ˈˌ])")


def _table(pairs: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    rows = (pair.split("→") for pair in pairs.split())
    return tuple((re.compile(pattern), symbol) for pattern, symbol in rows)


_COMMON: Final = (
    "ˌ?n\u0329→ᵊn aɪ→I aʊ→W eɪ→A ɔɪ→Y dʒ→ʤ tʃ→ʧ əl(?![ˈˌaeiouæɑɐɒɔəɛɜɪʊʌIWAYOQ])→ᵊl ɚ→əɹ ɹɹ→ɹ r→ɹ g→ɡ "
    "[xç]→k ɐ→ə ɬ→l ʲ→ "
)
_AMERICAN: Final = _table(_COMMON + "oʊ→O ɜːɹ?→ɜɹ ɾ→T ʔ→t ɪə→iə ː→ o→ɔ e→A")
_BRITISH: Final = _table(_COMMON + "eə→ɛː iə→ɪə [əo]ʊ→Q ʔ→t o→ɔ e→A")
_OF_OTHERS: Final = _table(
    "a\\^ɪ→I a\\^ʊ→W d\\^z→ʣ d\\^ʒ→ʤ e\\^ɪ→A o\\^ʊ→O ə\\^ʊ→Q s\\^s→S t\\^s→ʦ t\\^ʃ→ʧ ɔ\\^ɪ→Y \\^→ g→ɡ"
)
"""Of other languages, as the model was trained on them."""
_LETTER_SOUNDS: Final = (
    "ˈA bˈi sˈi dˈi ˈi ˈɛf ʤˈi ˈAʧ ˈI ʤˈA kˈA ˈɛl ˈɛm "
    "ˈɛn ˈO pˈi kjˈu ˈɑɹ ˈɛs tˈi jˈu vˈi dˈʌbᵊlju ˈɛks wˈI zˈi"
)
_LETTERS: Final = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTER_SOUNDS.split(), strict=True))
_LETTER_A: Final = re.compile(
    r"(?<![\w'’-])A(?= [A-Z](?:'s)?(?![\w'’-])| eyes(?!\w))|(?<=(?<!\w)[A-Z] )A(?!\w)|(?<=[a-z] )A(?= [a-z])"
)
"""In A P I, U S A, vitamin A deficiency."""
_PART: Final = regex.compile(
    r"(?P<letters>\p{Lu}{2,}+(?P<several>['’]?s)?(?!\p{Ll})|(?<!\p{L})\p{L}(?!\p{Ll}|['’]\p{L})|\p{Lu}+(?=\p{Lu}\p{Ll}))"
    r"|(?P<word>\p{Lu}?(?:\p{Ll}|\p{M}|['’](?=\p{L}))+|\p{L}+)|(?P<digits>\d+)|."
)
_WORDS_IN_CAPITALS: Final = (
    "WIFI OPPO VIVO SONY NIKE ZARA MUJI HELLO WORLD THE AND FOR YOU ARE NOT ALL NEW HI NO GO TO OF IN IS IT "
    "ON MY WE SO UP DO BE"
)
_AS_WORDS: Final = AS_WORDS.union(_WORDS_IN_CAPITALS.split())
_SPELLED_WORDS: Final = frozenset(("vip", "ai", "id", "ip", "ui", "ux", "tv", "pc", "dj", "ktv", "qq"))
"""Acronyms that people also write in lower case."""
_SAID_AS: Final = {"SaaS": "sass", "PaaS": "pass", "PhD": "PHD"}
_LETTERS_MAX: Final = 5
"""A longer word in capitals is a word, not an acronym."""


class Spelled(msgspec.Struct, frozen=True):
    """Letters that are said one by one; `several` of what they mean, such as APIs."""

    letters: str
    several: bool = False


def spoken_words(text: str) -> Iterator[tuple[str | Spelled, list[int]]]:
    """A Latin run within Mandarin: its words, letters said one by one, and its digits in Han, each with the
    places of its words in the run."""
    text = re.sub(r"\b(?:SaaS|PaaS|PhD)\b", lambda found: _SAID_AS[found[0]], text)
    words: dict[int, str] = {}
    for found in _PART.finditer(text):
        part, place = found[0], found.start()
        letters = part.removesuffix(found["several"] or "")
        spelled = part in _SPELLED_WORDS or (found["letters"] and not _is_word(letters))
        if words and (spelled or found["digits"]):
            yield " ".join(words.values()), list(words)
            words = {}
        if spelled:
            yield Spelled(letters.upper(), several=letters != part), [place]
        elif found["digits"]:
            yield ordinal(part) if len(part) <= 2 else by_one(part), [place]
        elif found["letters"] or found["word"]:
            words[place] = part
    if words:
        yield " ".join(words.values()), list(words)


def _is_word(letters: str) -> bool:
    return letters in _AS_WORDS or len(letters) > _LETTERS_MAX or letters == "a"


def with_letter_a(text: str) -> str:
    """English text in which an A that is no article has the letter's sound, which espeak-ng reads as one."""
    return _LETTER_A.sub("eigh", text)


def spelled(said: Spelled) -> str:
    """The phonemes of letters said one by one, in a Mandarin voice."""
    plain = unicodedata.normalize("NFD", said.letters)
    sounds = _aspirated(" ".join(_LETTERS[letter] for letter in plain if letter in _LETTERS))
    if not said.several:
        return sounds
    return sounds + ("ᵻz" if sounds.endswith(("s", "ʧ")) else "s" if sounds.endswith("f") else "z")


def symbols(ipa: str, *, british: bool = False, mandarin: bool = False) -> str:
    """The phonemes of the model for espeak-ng's IPA; sounds without a symbol are omitted.

    `mandarin`: for a Mandarin voice.
    """
    ipa = _replaced(_TIES.sub("", ipa), _BRITISH if british else _AMERICAN)
    known = _known(_SYLLABIC.sub(r"ᵊ\1", ipa))
    return _aspirated(known) if mandarin else known


def foreign_symbols(ipa: str) -> str:
    """The phonemes of the model for espeak-ng's tied IPA of a language other than English and Mandarin."""
    ipa = unicodedata.normalize("NFD", _replaced(ipa, _OF_OTHERS)).replace("c\u0327", "ç")
    return _known(ipa)


def _replaced(ipa: str, table: Sequence[tuple[re.Pattern[str], str]]) -> str:
    for pattern, symbol in table:
        ipa = pattern.sub(symbol, ipa)
    return ipa


def _known(sounds: str) -> str:
    """The sounds that have a symbol."""
    return " ".join("".join(symbol for symbol in sounds if symbol in NUMBERS).split())


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
