"""Text to pieces of phonemes that the Kokoro model speaks one after another."""

import math
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
import regex

from myna.engines.kokoro.job import Piece
from myna.engines.kokoro.text import english as english_sounds
from myna.engines.kokoro.text import mandarin as mandarin_sounds
from myna.engines.kokoro.text.latin import Spelled, spoken_words
from myna.engines.kokoro.text.words import has_reading
from myna.engines.text import reading
from myna.engines.text.sentences import sentences
from myna.engines.text.signs import plain

English = Callable[[str], str]

PIECE_SYMBOLS_MAX: Final = 140
"""The model takes 510, but its memory grows by 1.2 MB for each: with 140 a process takes up to 440 MB."""
_SENTENCE_MAX_CHARS: Final = 5000
_INVISIBLE: Final = regex.compile(r"[\p{Cf}\p{Variation_Selector}]")
_CONTROL: Final = regex.compile(r"[\p{Cc}\p{Cs}\p{Co}--[\n\t]]", regex.VERSION1)
_HAN: Final = regex.compile(r"\p{Script=Han}")
_FOREIGN: Final = regex.compile(
    r"[[\p{L}--[\p{Script=Latin}\p{Script=Greek}\p{Script=Common}]]\p{So}]", regex.VERSION1
)
_EMOJI: Final = regex.compile(r"\p{Extended_Pictographic}|\p{Emoji_Presentation}")
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
    "\n": ".",
}
_BY_STRENGTH: Final = ("", ",", ":", ";", "—", "…", ".", "!", "?")
_PAUSES_S: Final = {",": 0.15, ";": 0.25, ":": 0.2, "—": 0.2, ".": 0.4, "!": 0.4, "?": 0.4, "…": 0.4}
# Letters and digits of English, with the characters between them. A full stop before a word is that of an
# abbreviation, since the sentence is not at its end.
_WRAPPED: Final = regex.compile(r"(?<=[\p{Ll},，、])[ \t]*\n[ \t]*(?=\p{Ll})")
"""A line break within a sentence."""
_LETTER: Final = r"[\p{Script=Latin}\p{Script=Greek}\p{Script=Inherited}0-9]"
_TOKEN: Final = regex.compile(
    rf"(?P<han>\p{{Script=Han}}+)|(?P<latin>{_LETTER}(?:{_LETTER}|['’&@/%+=_°-]|[,:](?={_LETTER})"
    rf"|\.(?!\.)(?=\s*{_LETTER})|[ \t]+(?={_LETTER}|[&+=]))*+)"
    r"|(?P<mark>[，、,﹐。．｡.！!﹗？?﹖；;﹔：:﹕…⋯—–―]+|\n)|(?P<bracket>[()（）\[\]【】])|(?P<other>.)",
    regex.DOTALL,
)


class Unspoken(msgspec.Struct, frozen=True):
    """How many letters and signs of a text can't be spoken, and their scripts, such as Thai or Emoji."""

    characters: int
    scripts: tuple[str, ...]


class _Part(msgspec.Struct, frozen=True):
    """A word with the mark after it. `english` in a Mandarin voice."""

    sound: str
    english: bool
    mark: str = ""


def pieces(text: str, language: str, english: English) -> list[Piece]:
    """The pieces that a voice of `language` (zh-CN, en-US, en-GB) speaks in order; none without a sound.

    `english` returns the IPA of English text by espeak-ng, British or American as requested. All pieces of
    a text are mixed or none is, since a mixed one sounds like a somewhat different voice.
    """
    reader = _Reader(language.lower(), english)
    found: list[Piece] = []
    for sentence in _sentences(text):
        found.extend(_piece(run) for run in _runs(reader.parts(sentence)))
    if not found:
        return []
    found[-1] = msgspec.structs.replace(found[-1], pause_s=0.0)
    if not any(piece.mixed for piece in found):
        return found
    return [msgspec.structs.replace(piece, mixed=True) for piece in found]


def in_words(text: str, language: str) -> str:
    """The text as `pieces` speaks it, with its numbers and signs in words."""
    mandarin = language.lower().startswith("zh")
    return "".join(_in_words(sentence, mandarin)[0] for sentence in _sentences(text)).strip()


def unspoken(text: str) -> Unspoken:
    """The characters of a text that no voice speaks: letters of other scripts, rare Han, emoji."""
    left = [character for character in _clean(text) if not _is_spoken(character)]
    return Unspoken(len(left), tuple(sorted({_script(character) for character in left})))


def _is_spoken(character: str) -> bool:
    if _HAN.match(character):
        return has_reading(character)
    return not _FOREIGN.match(character)


def _script(character: str) -> str:
    """The script by the character's name in Unicode, such as Thai; Emoji; Han."""
    if _HAN.match(character):
        return "Han"
    if _EMOJI.match(character):
        return "Emoji"
    return unicodedata.name(character, "Unknown").partition(" ")[0].title()


def _sentences(text: str) -> list[str]:
    return sentences(_WRAPPED.sub(" ", _clean(text)), _SENTENCE_MAX_CHARS)


def _clean(text: str) -> str:
    return plain(_CONTROL.sub(" ", _INVISIBLE.sub("", text)))


class _Reader:
    """Reads sentences to the parts of their pieces, in a voice of one language."""

    def __init__(self, language: str, english: English) -> None:
        self._mandarin = language.startswith("zh")
        self._british = language == "en-gb"
        self._english = english

    def parts(self, sentence: str) -> list[_Part]:
        """The words of a sentence, each with the mark after it; the last one has a mark at the text's
        end."""
        text, mandarin = _in_words(sentence, self._mandarin)
        found: list[_Part] = []
        for token in _TOKEN.finditer(text):
            kind: str = token.lastgroup
            mark = _mark(token[0]) if kind == "mark" else "," if kind == "bracket" else ""
            if mark and found:
                found[-1] = _marked(found[-1], mark)
            found.extend(part for part in self._words(kind, token[0], mandarin) if part.sound)
        if found and found[-1].mark in ("", ","):
            found[-1] = _marked(found[-1], ".")
        return found

    def _words(self, kind: str, text: str, mandarin: bool) -> Iterator[_Part]:
        if kind == "han":
            for sound in mandarin_sounds.phonemes(text):
                yield _Part(sound, False)
        elif kind == "latin" and not mandarin:
            yield from self._english_words(text)
        elif kind == "latin":
            for word in spoken_words(text):
                if isinstance(word, Spelled):
                    yield _Part(english_sounds.spelled(word.letters), True)
                elif _HAN.search(word):
                    yield from self._words("han", word, mandarin)
                else:
                    yield from self._english_words(word)

    def _english_words(self, text: str) -> Iterator[_Part]:
        ipa = self._english(text)
        sounds = english_sounds.symbols(ipa, british=self._british, mandarin=self._mandarin)
        for sound in sounds.split():
            yield _Part(sound, self._mandarin)


def _in_words(sentence: str, mandarin_voice: bool) -> tuple[str, bool]:
    """The sentence in words, and whether these are Mandarin. A Mandarin voice reads a sentence without Han in
    English, if it has two English words."""
    if mandarin_voice and (_HAN.search(sentence) or not _ENGLISH.search(sentence)):
        return reading.in_mandarin(sentence), True
    return reading.in_english(sentence), False


def _marked(part: _Part, mark: str) -> _Part:
    """The part with the stronger of its mark and `mark`."""
    return msgspec.structs.replace(part, mark=max(part.mark, mark, key=_BY_STRENGTH.index))


def _mark(marks: str) -> str:
    """The strongest mark of several: ?! is ?, and three full stops are an ellipsis."""
    if marks.count(".") > 1:
        return "…"
    return max((_MARKS[mark] for mark in marks), key=_BY_STRENGTH.index)


def _runs(parts: list[_Part]) -> Iterator[list[_Part]]:
    """The parts in runs of at most PIECE_SYMBOLS_MAX: whole clauses if they fit, else words."""
    clauses = (_balanced([[part] for part in clause]) for clause in _clauses(parts))
    return _balanced([words for clause in clauses for words in clause])


def _balanced(groups: list[list[_Part]]) -> Iterator[list[_Part]]:
    """The groups, one after another, in runs of about the same size: a short last one would sound odd."""
    most = PIECE_SYMBOLS_MAX + 1
    total = sum(map(_size, groups))
    enough = total / max(1, math.ceil(total / most))
    run: list[_Part] = []
    length = 0
    for group in groups:
        if run and (length >= enough or length + _size(group) > most):
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
        if part.mark:
            yield clause
            clause = []
    if clause:
        yield clause


def _short(parts: list[_Part]) -> Iterator[_Part]:
    """The parts, a word that is longer than one run of the model in several."""
    for part in parts:
        sound = part.sound
        while len(sound) >= PIECE_SYMBOLS_MAX:
            yield _Part(sound[: PIECE_SYMBOLS_MAX - 1], part.english)
            sound = sound[PIECE_SYMBOLS_MAX - 1 :]
        yield _Part(sound, part.english, part.mark)


def _size(parts: list[_Part]) -> int:
    """The symbols of the parts, each with the space before the next one."""
    return sum(len(part.sound) + len(part.mark) + 1 for part in parts)


def _piece(run: list[_Part]) -> Piece:
    return Piece(
        " ".join(part.sound + part.mark for part in run),
        any(part.english for part in run),
        _PAUSES_S.get(run[-1].mark, 0.0),
    )
