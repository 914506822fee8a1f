"""Text to pieces of phonemes that the Kokoro model speaks one after another."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
import regex

from myna.engines.interface import UnsupportedUtterance
from myna.engines.kokoro.job import Piece, SpokenWord
from myna.engines.kokoro.text import english as english_sounds
from myna.engines.kokoro.text import mandarin as mandarin_sounds
from myna.engines.kokoro.text.spoken_words import Places, placed, words_of
from myna.engines.text import others, reading
from myna.engines.text.notation import MARK_OF_PINYIN, OTHER_MARK, Marked, Said, given, marked
from myna.engines.text.sentences import sentences
from myna.engines.text.signs import MEANS, kind_of, plain

English = Callable[[str], str]
Foreign = Callable[[str, str], str]

PIECE_SYMBOLS_MAX: Final = 140
"""The model takes 510, but its memory grows by 1.2 MB for each: with 140 a process takes up to 440 MB."""
EARLY_SYMBOLS_MIN: Final = 20
"""Of the first piece of a text that someone waits for: some five syllables."""
_SENTENCE_MAX_CHARS: Final = 5000
_INVISIBLE: Final = regex.compile(r"[\p{Cf}\p{Variation_Selector}]")
_CONTROL: Final = regex.compile(r"[\p{Cc}\p{Cs}\p{Co}--[\n\t]]", regex.VERSION1)
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
_PAUSES_S: Final = {",": 0.15, ";": 0.25, ":": 0.2, "—": 0.2, ".": 0.4, "!": 0.4, "?": 0.4, "…": 0.4}
_WRAPPED: Final = regex.compile(r"(?<=[\p{Ll},，、])[ \t]*\n[ \t]*(?=\p{Ll})")
"""A line break within a sentence."""
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


class _Part(msgspec.Struct, frozen=True):
    """A word with the mark after it. `english` in a Mandarin voice. With `pause_s` a pause follows, in place
    of that of the mark. `places`: the words of the sentence that begin within the sound; `words` says where
    and which."""

    sound: str
    english: bool
    places: Places = ()
    mark: str = ""
    pause_s: float = 0.0
    words: Sequence[tuple[int, str]] = ()


def pieces(
    text: str,
    language: str,
    english: English,
    foreign: Foreign | None = None,
    unspoken: Counter[str] | None = None,
    *,
    begin_early: bool = False,
) -> list[Piece]:
    """The pieces that a voice of `language` (zh-CN, en-US, en-GB) speaks in order; none without a sound.

    `english` returns the IPA of English text by espeak-ng, British or American as requested, `foreign` that
    of a text in another language; it raises UnsupportedUtterance. `unspoken` counts the characters that are
    not spoken, by script or kind. All pieces of a text are mixed or none is, since a mixed one sounds like a
    somewhat different voice. To `begin_early` the first piece ends with a clause.
    """
    whole = marked(text, _clean)
    reader = _Reader(language.lower(), english, foreign, whole)
    found: list[Piece] = []
    last: list[_Part] = []
    for sentence in _sentences(whole.text):
        for last in _runs(reader.parts(sentence), begin_early=begin_early and not found):
            found.append(_piece(last))
    if unspoken is not None:
        unspoken.update(reader.unspoken)
    if not found:
        return []
    found[-1] = msgspec.structs.replace(found[-1], pause_s=last[-1].pause_s)
    if not any(piece.mixed for piece in found):
        return found
    return [msgspec.structs.replace(piece, mixed=True) for piece in found]


def in_words(text: str, language: str) -> str:
    """The text as `pieces` speaks it, with its numbers and signs in words."""
    whole = marked(text, _clean)
    said = (_in_words(sentence, language, whole)[0] for sentence in _sentences(whole.text))
    return whole.shown("".join(said)).strip()


def _sentences(text: str) -> list[str]:
    return sentences(_WRAPPED.sub(" ", text), _SENTENCE_MAX_CHARS)


def _clean(text: str) -> str:
    return plain(_CONTROL.sub(" ", _INVISIBLE.sub("", text)))


class _Reader:
    """Reads sentences to the parts of their pieces, in a voice of one language."""

    def __init__(self, language: str, english: English, foreign: Foreign | None, whole: Marked) -> None:
        self._language = language
        self._mandarin = language.startswith("zh")
        self._other = "" if self._mandarin or language.startswith("en") else language
        self._foreign = foreign
        if self._other and foreign:
            self._ipa: English = lambda text: foreign(text, language)
            self._symbols: English = english_sounds.foreign_symbols
        else:
            british = language == "en-gb"
            self._ipa = english
            self._symbols = partial(english_sounds.symbols, british=british, mandarin=self._mandarin)
        self._whole = whole
        self.unspoken: Counter[str] = Counter()

    def parts(self, sentence: str) -> list[_Part]:
        """The words of a sentence, each with the mark after it; the last one has a mark at the text's
        end."""
        text, mandarin = _in_words(sentence, self._language, self._whole)
        found: list[_Part] = []
        for token in (_TOKEN_OF_OTHERS if self._other else _TOKEN).finditer(text):
            kind: str = token.lastgroup
            said = self._whole.said.get(token[0]) if kind == "said" else None
            if said is not None and said.how == "break":
                if found:
                    pause_s = found[-1].pause_s + int(said.value) / 1000
                    found[-1] = msgspec.structs.replace(_marked(found[-1], ","), pause_s=pause_s)
                continue
            mark = _mark(token[0]) if kind == "mark" else "," if kind == "bracket" else ""
            if mark and found:
                found[-1] = _marked(found[-1], mark)
            places = [token.start()] * len(token[0]) if kind == "said" else range(token.start(), token.end())
            found.extend(part for part in self._words(kind, token[0], places, mandarin) if part.sound)
        if found and found[-1].mark in ("", ","):
            found[-1] = _marked(found[-1], ".")
        words = words_of([part.places for part in found], text, sentence)
        return [
            msgspec.structs.replace(part, words=[(at, self._whole.shown(word)) for at, word in begin])
            for part, begin in zip(found, words, strict=True)
        ]

    def _words(self, kind: str, text: str, places: Sequence[int], mandarin: bool) -> Iterator[_Part]:
        """The sounds of a token; `places` are those of its characters."""
        if kind == "han":
            plain, begins, readings = given(text, self._whole.said)
            self._leave_out(character for character in plain if not mandarin_sounds.has_reading(character))
            for at, sound in mandarin_sounds.phonemes(plain, readings):
                yield _Part(sound, False, [(0, places[begins[at]])])
        elif kind == "greek" and self._foreign:
            yield from self._foreign_words(text, "el", places[:1])
        elif kind in ("other", "greek") and MEANS.match(text):
            self._leave_out(text)
        elif kind == "said" and text in self._whole.said:
            yield from self._parts_of(self._whole.said[text], places[0])
        elif kind == "latin" and not mandarin:
            yield from self._read(text, _begins(text, places), self._english)
        elif kind == "latin":
            for word, begins in english_sounds.spoken_words(text):
                places_of_words = [places[at] for at in begins]
                if isinstance(word, english_sounds.Spelled):
                    yield _Part(english_sounds.spelled(word.letters), True, [(0, places_of_words[0])])
                elif _HAN.search(word):
                    yield from self._words("han", word, places_of_words * len(word), mandarin)
                else:
                    yield from self._read(word, places_of_words, self._english)

    def _leave_out(self, characters: Iterable[str]) -> None:
        self.unspoken.update(map(kind_of, characters))

    def _parts_of(self, said: Said, place: int) -> Iterator[_Part]:
        """The words of a text that says how they are read, which stands at one place."""
        if said.how == "ipa":
            yield from self._sounds(self._symbols(said.value), place)
        elif said.how == "words":
            respelled = english_sounds.respelled(said.value, self._ipa)
            yield from self._sounds(self._symbols(respelled), place)
        elif said.value.lower().startswith("zh") or self._foreign is None:
            yield from self._words("han", said.text, [place] * len(said.text), True)
        else:
            begins = [place] * len(said.text.split())
            try:
                yield from self._foreign_words(said.text, said.value, begins)
            except UnsupportedUtterance:  # espeak-ng does not have the language
                yield from self._read(said.text, begins, self._english)

    def _foreign_words(self, text: str, language: str, begins: Sequence[int]) -> Iterator[_Part]:
        foreign = self._foreign
        if foreign:
            yield from self._read(
                text, begins, lambda words: english_sounds.foreign_symbols(foreign(words, language))
            )

    def _english(self, text: str) -> str:
        return self._symbols(self._ipa(text if self._other else english_sounds.with_letter_a(text)))

    def _read(self, text: str, begins: Sequence[int], sounds: English) -> Iterator[_Part]:
        """The sounds of words that begin at these places."""
        for sound, places in placed(sounds(text).split(), text.split(), begins, sounds):
            yield _Part(sound, self._mandarin, places)

    def _sounds(self, sounds: str, place: int) -> Iterator[_Part]:
        for sound in sounds.split():
            yield _Part(sound, self._mandarin, [(0, place)])


def _begins(text: str, places: Sequence[int]) -> list[int]:
    """The places of the words of a text, by those of its characters."""
    return [places[found.start()] for found in _BEGIN.finditer(text)]


def _in_words(sentence: str, language: str, whole: Marked) -> tuple[str, bool]:
    """The sentence in words, and whether these are Mandarin. A Mandarin voice reads a sentence without Han in
    English, if it has two English words."""
    language = language.lower().partition("-")[0]
    if language == "zh" and (_HAN.search(sentence) or not _ENGLISH.search(sentence)):
        return reading.in_mandarin(whole.as_words(sentence, "zh")), True
    if language in ("zh", "en"):
        return reading.in_english(whole.as_words(sentence, "en")), False
    return others.in_words(whole.as_words(sentence, language), language), False


def _marked(part: _Part, mark: str) -> _Part:
    """The part with the stronger of its mark and `mark`."""
    return msgspec.structs.replace(part, mark=max(part.mark, mark, key=_BY_STRENGTH.index))


def _mark(marks: str) -> str:
    """The strongest mark of several: ?! is ?, and three full stops are an ellipsis."""
    if marks.count(".") > 1:
        return "…"
    return max((_MARKS[mark] for mark in marks), key=_BY_STRENGTH.index)


def _runs(parts: list[_Part], *, begin_early: bool = False) -> Iterator[list[_Part]]:
    """The parts in runs of at most PIECE_SYMBOLS_MAX: whole clauses if they fit, else words. To `begin_early`
    the first run has no more clauses than it needs to sound like speech."""
    clauses = list(_clauses(parts))
    first: list[_Part] = []
    while begin_early and clauses and _size(first) < EARLY_SYMBOLS_MIN:
        first += clauses.pop(0)
    for group in ([first], clauses):
        words = [words for clause in group for words in _balanced([[part] for part in clause])]
        yield from _balanced(words)


def _balanced(groups: list[list[_Part]]) -> Iterator[list[_Part]]:
    """The groups, one after another, in runs of about the same size: a short last one would sound odd."""
    most = PIECE_SYMBOLS_MAX + 1
    total = sum(map(_size, groups))
    enough = total / max(1, math.ceil(total / most))
    run: list[_Part] = []
    length = 0
    for group in groups:
        if run and (run[-1].pause_s or length >= enough or length + _size(group) > most):
            yield run
            run, length = [], 0
        run.extend(group)
        length += _size(group)
    if run:
        yield run


def _clauses(parts: list[_Part]) -> Iterator[list[_Part]]:
    """The parts up to each mark."""
    clause: list[_Part] = []
    for part in _short(parts):
        clause.append(part)
        if part.mark or part.pause_s:
            yield clause
            clause = []
    if clause:
        yield clause


def _short(parts: list[_Part]) -> Iterator[_Part]:
    """The parts, a word that is longer than one run of the model in several."""
    for part in parts:
        sound, words = part.sound, part.words
        while len(sound) >= PIECE_SYMBOLS_MAX:
            yield _Part(sound[: PIECE_SYMBOLS_MAX - 1], part.english, words=words[:1])
            sound, words = sound[PIECE_SYMBOLS_MAX - 1 :], []
        yield msgspec.structs.replace(part, sound=sound, words=words)


def _size(parts: list[_Part]) -> int:
    """The symbols of the parts, each with the space before the next one."""
    return sum(len(part.sound) + len(part.mark) + 1 for part in parts)


def _piece(run: list[_Part]) -> Piece:
    return Piece(
        " ".join(part.sound + part.mark for part in run),
        any(part.english for part in run),
        run[-1].pause_s or _PAUSES_S.get(run[-1].mark, 0.0),
        list(_spoken_words(run)),
    )


def _spoken_words(run: list[_Part]) -> Iterator[SpokenWord]:
    """The words that begin in the piece."""
    word: SpokenWord | None = None
    at = 0
    for part in run:
        end = at + len(part.sound)
        stops = [at + offset for offset, _ in part.words] + [end]
        if word is not None:
            word = msgspec.structs.replace(word, end=stops[0] if stops[0] > at else word.end)
        for (offset, text), stop in zip(part.words, stops[1:], strict=True):
            if word is not None:
                yield word
            word = SpokenWord(text, at + offset, stop)
        at = end + len(part.mark) + 1
    if word is not None:
        yield word
