"""A sentence to the sounds of its words, each with the mark after it and the words of the text that it says.

A word here is what is spoken as one: 12.50 dollars are several sounds and one word of the text. The words of
a sentence, put together, are the sentence: each has the marks and spaces after it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from itertools import accumulate, pairwise
from typing import Final

import msgspec
import regex

from myna.engines.interface import UnsupportedUtterance
from myna.engines.kokoro.text import english as english_sounds
from myna.engines.kokoro.text import mandarin as mandarin_sounds
from myna.engines.text.mandarin.traditional import simplified
from myna.engines.text.notation import MARK_OF_PINYIN, OTHER_MARK, Marked, Said, given
from myna.engines.text.others import others_in_words
from myna.engines.text.reading import in_english, in_mandarin
from myna.engines.text.signs import MEANS, kind_of

Ipa = Callable[[str, str], str]
"""The tied IPA of a text in a language of espeak-ng. Raises UnsupportedUtterance."""
Places = Sequence[tuple[int, int]]
"""Where in a sound words begin, and where in the text."""
_WORD: Final = regex.compile(r"\p{Han}|[[\p{L}\p{M}\p{N}]--\p{Han}]+|.", regex.DOTALL | regex.V1)
_COMPARED_MAX: Final = 4_000_000
"""Pairs of tokens. A longer sentence that has numbers or signs is one word."""
_HAN: Final = regex.compile(r"\p{Script=Han}")
_ENGLISH: Final = regex.compile(r"\p{Latin}{3}.*?(?<!\p{Latin})\p{Latin}{2}", regex.DOTALL)
_MARKS: Final = {
    **dict.fromkeys("，、,﹐", ","),
    **dict.fromkeys("。．｡.", "."),
    **dict.fromkeys("！!﹗", "!"),
    **dict.fromkeys("？?﹖", "?"),
    **dict.fromkeys("；;﹔", ";"),
    **dict.fromkeys("：:﹕", ":"),
    **dict.fromkeys("…⋯", "…"),
    **dict.fromkeys("—–―", "—"),
    **dict.fromkeys("।॥\n", "."),
}
_BY_STRENGTH: Final = ("", ",", ":", ";", "—", "…", ".", "!", "?")
_BEGIN: Final = regex.compile(r"(?<!\S)\S")
_LETTER: Final = r"[\p{Script=Latin}\p{Script=Inherited}0-9]"
_LETTER_OF_OTHERS: Final = r"(?:(?!\p{Han}|\p{Greek})[\p{L}\p{M}\p{N}$€£¥₹])"


def _tokens(letter: str) -> "regex.Pattern[str]":
    """Words are letters and digits with the characters between them. A full stop before a word is that of an
    abbreviation, since the sentence is not at its end."""
    return regex.compile(
        rf"(?P<said>{OTHER_MARK})|(?P<greek>\p{{Greek}}[\p{{Greek}}\p{{Inherited}}]*)"
        rf"|(?P<han>(?:{MARK_OF_PINYIN}?\p{{Script=Han}})+)"
        rf"|(?P<latin>{letter}(?:{letter}|['’&@/%+=_°-]|[,:](?={letter})"
        rf"|\.(?!\.)(?=\s*{letter})|[ \t]+(?={letter}|[&+=]))*+)"
        r"|(?P<mark>[，、,﹐。．｡.！!﹗？?﹖；;﹔：:﹕…⋯—–―।॥]+|\n)|(?P<bracket>[()（）\[\]【】])|(?P<other>.)",
        regex.DOTALL,
    )


_TOKEN: Final = _tokens(_LETTER)
_TOKEN_OF_OTHERS: Final = _tokens(_LETTER_OF_OTHERS)
"""In the voices of languages other than Mandarin and English."""


class Part(msgspec.Struct, frozen=True):
    """A word with the mark after it. `english` in a Mandarin voice. With `pause_s` a pause follows, in place
    of that of the mark. `places`: the words of the sentence that begin within the sound; `words` says where
    and which."""

    sound: str
    english: bool
    places: Places = ()
    mark: str = ""
    pause_s: float = 0.0
    words: Sequence[tuple[int, str]] = ()


class Reader:
    """Reads sentences to their parts, in a voice of one language, such as zh-cn. `words` are those that it
    read, with their marks, and `unspoken` counts the characters that it left out, by script or kind."""

    def __init__(self, language: str, ipa: Ipa, whole: Marked) -> None:
        self._language = language
        self._ipa = ipa
        self._whole = whole
        self._mandarin = language.startswith("zh")
        self._other = not self._mandarin and not language.startswith("en")
        self._of_latin = language if self._other or language == "en-gb" else "en-us"
        self.words: list[str] = []
        self.unspoken: Counter[str] = Counter()

    def parts(self, sentence: str) -> list[Part]:
        """The words of a sentence, each with the mark after it; the last one has a mark at the text's
        end."""
        text, mandarin = self._in_words(sentence)
        self.words.append(text)
        found: list[Part] = []
        for token in (_TOKEN_OF_OTHERS if self._other else _TOKEN).finditer(text):
            kind, written = token.lastgroup, token[0]
            if kind == "said":
                said = self._whole.said[written]
                if said.how != "break":
                    found += self._said(said, token.start())
                elif found:
                    pause_s = found[-1].pause_s + int(said.value) / 1000
                    found[-1] = msgspec.structs.replace(_marked(found[-1], ","), pause_s=pause_s)
            elif kind in ("mark", "bracket"):
                if found:
                    found[-1] = _marked(found[-1], _mark(written) if kind == "mark" else ",")
            else:
                places = range(token.start(), token.end())
                found += self._words(kind, written, places, mandarin)
        found = [part for part in found if part.sound]
        if found and found[-1].mark in ("", ","):
            found[-1] = _marked(found[-1], ".")
        words = words_of([part.places for part in found], text, sentence)
        return [
            msgspec.structs.replace(part, words=[(at, self._whole.shown(word)) for at, word in begin])
            for part, begin in zip(found, words, strict=True)
        ]

    def _in_words(self, sentence: str) -> tuple[str, bool]:
        """The sentence in words, and whether these are Mandarin. A Mandarin voice reads a sentence without
        Han in English, if it has two English words."""
        if self._other:
            language = self._language.partition("-")[0]
            return others_in_words(self._whole.as_words(sentence, language), language), False
        if self._mandarin and (_HAN.search(sentence) or not _ENGLISH.search(sentence)):
            return in_mandarin(self._whole.as_words(sentence, "zh")), True
        return in_english(self._whole.as_words(sentence, "en")), False

    def _words(self, kind: str, text: str, places: Sequence[int], mandarin: bool) -> Iterator[Part]:
        """The sounds of a token; `places` are those of its characters."""
        if kind == "han":
            plain, begins, readings = given(text, self._whole.said)
            self._leave_out(one for one in plain if not mandarin_sounds.has_reading(one))
            for at, sound in mandarin_sounds.phonemes(plain, readings):
                yield Part(sound, False, [(0, places[begins[at]])])
        elif kind == "greek":
            yield from self._read(text, places[:1], partial(self._foreign, "el"))
        elif kind == "other" and MEANS.match(text):
            self._leave_out(text)
        elif kind == "latin" and not mandarin:
            yield from self._read(text, [places[one.start()] for one in _BEGIN.finditer(text)], self._latin)
        elif kind == "latin":
            for word, begins in english_sounds.spoken_words(text):
                places_of_words = [places[at] for at in begins]
                if isinstance(word, english_sounds.Spelled):
                    yield Part(english_sounds.spelled(word), True, [(0, places_of_words[0])])
                elif _HAN.search(word):
                    yield from self._words("han", word, places_of_words * len(word), mandarin)
                else:
                    yield from self._read(word, places_of_words, self._latin)

    def _leave_out(self, characters: Iterable[str]) -> None:
        self.unspoken.update(map(kind_of, characters))

    def _said(self, said: Said, place: int) -> Iterator[Part]:
        """The words of a text that says how they are read, which stands at one place."""
        if said.how in ("ipa", "words"):
            respelled = said.how == "words"
            ipa = english_sounds.respelled(said.value, self._ipa_of_latin) if respelled else said.value
            for sound in self._symbols(ipa).split():
                yield Part(sound, self._mandarin, [(0, place)])
        elif said.value.lower().startswith("zh"):
            yield from self._words("han", said.text, [place] * len(said.text), True)
        else:
            begins = [place] * len(said.text.split())
            try:
                yield from self._read(said.text, begins, partial(self._foreign, said.value))
            except UnsupportedUtterance:  # espeak-ng does not have the language
                yield from self._read(said.text, begins, self._latin)

    def _read(self, text: str, begins: Sequence[int], symbols: Callable[[str], str]) -> Iterator[Part]:
        """The sounds of words that begin at these places."""
        for sound, places in placed(symbols(text).split(), text.split(), begins, symbols):
            yield Part(sound, self._mandarin, places)

    def _foreign(self, language: str, text: str) -> str:
        return english_sounds.foreign_symbols(self._ipa(text, language))

    def _latin(self, text: str) -> str:
        """The symbols of Latin words in the voice's language; those of a Mandarin voice are English."""
        return self._symbols(self._ipa_of_latin(text if self._other else english_sounds.with_letter_a(text)))

    def _ipa_of_latin(self, text: str) -> str:
        return self._ipa(text, self._of_latin)

    def _symbols(self, ipa: str) -> str:
        if self._other:
            return english_sounds.foreign_symbols(ipa)
        british = self._of_latin == "en-gb"
        return english_sounds.symbols(ipa, british=british, mandarin=self._mandarin)


def _marked(part: Part, mark: str) -> Part:
    """The part with the stronger of its mark and `mark`."""
    return msgspec.structs.replace(part, mark=max(part.mark, mark, key=_BY_STRENGTH.index))


def _mark(marks: str) -> str:
    """The strongest mark of several: ?! is ?, and three full stops are an ellipsis."""
    if marks.count(".") > 1:
        return "…"
    return max((_MARKS[mark] for mark in marks), key=_BY_STRENGTH.index)


def words_of(sounds: Sequence[Places], said: str, sentence: str) -> list[list[tuple[int, str]]]:
    """For each sound the words of the sentence that begin in it, and where; none if it goes on with the word
    of the one before. The places of `sounds` are those of the sentence as it is said, in words."""
    written = _written(said, sentence)
    begins: list[tuple[int, int, int]] = []
    for number, places in enumerate(sounds):
        for offset, place in places:
            at = written.get(place, -1) if begins else 0
            if not begins or at > begins[-1][2]:
                begins.append((number, offset, at))
    found: list[list[tuple[int, str]]] = [[] for _ in sounds]
    ends = [*(begin[2] for begin in begins[1:]), len(sentence)]
    for (number, offset, at), end in zip(begins, ends, strict=False):
        found[number].append((offset, sentence[at:end]))
    return found


def placed(
    sounds: Sequence[str], words: Sequence[str], places: Sequence[int], sound_of: Callable[[str], str]
) -> Iterator[tuple[str, Places]]:
    """The sounds of `words`, which begin at `places`, with the words that begin in each. espeak-ng says some
    words as one (of the), and some as two; `sound_of` is the sound of one word alone."""
    if len(words) == len(sounds):
        for sound, place in zip(sounds, places, strict=True):
            yield sound, [(0, place)]
        return
    alone = ["".join(sound_of(word).split()) for word in words]
    whole = _alike("".join(alone), "".join(sounds))
    begins = {whole[at]: place for at, place in zip(_ends(alone), places, strict=False) if at in whole}
    for sound, (first, end) in zip(sounds, pairwise(_ends(sounds)), strict=True):
        yield sound, [(at - first, begins[at]) for at in range(first, end) if at in begins]


def _written(said: str, sentence: str) -> Mapping[int, int]:
    """The places of the sentence by those of `said`, where both go on alike."""
    if said == sentence:
        return {place: place for place in range(len(said))}
    ours, theirs = _WORD.findall(said), _WORD.findall(simplified(sentence))
    if len(ours) * len(theirs) > _COMPARED_MAX:
        return {}
    at, there = _ends(ours), _ends(theirs)
    return {at[one]: there[other] for one, other in _alike(ours, theirs).items()}


def _ends(parts: Sequence[str]) -> list[int]:
    return [0, *accumulate(map(len, parts))]


def _alike(one: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    """The places of `one` at which `other` goes on alike, its begin and end among them."""
    places = {0: 0}
    for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks():
        for more in range(block.size + 1):
            places.setdefault(block.a + more, block.b + more)
    return places
