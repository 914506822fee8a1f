"""The child program that converts texts to the phonemes of Kokoro, in pieces that the model speaks one after
another; run by `pool/child_main.py`.

It uses espeak-ng, so it is a separate program (see `espeak/child.py`).
"""

import math
from collections.abc import Iterator
from typing import Final

import msgspec
import regex

from myna.engines.espeak.phonemizer import Phonemizer
from myna.engines.kokoro.job import Piece, SpokenWord, TextJob, TextPieces
from myna.engines.kokoro.text.parts import Ipa, Part, Reader
from myna.engines.pool.child_main import Work
from myna.engines.text.notation import marked
from myna.engines.text.sentences import sentences
from myna.engines.text.signs import plain, visible

PIECE_SYMBOLS_MAX: Final = 140
"""The model takes 510, but its memory grows by 1.2 MB for each: with 140 a process takes up to 440 MB."""
EARLY_SYMBOLS_MIN: Final = 20
"""Of the first piece of a text that someone waits for: some five syllables."""
_SENTENCE_MAX_CHARS: Final = 5000
_SELECTOR: Final = regex.compile(r"\p{Variation_Selector}")
_PAUSES_S: Final = {",": 0.15, ";": 0.25, ":": 0.2, "—": 0.2, ".": 0.4, "!": 0.4, "?": 0.4, "…": 0.4}
_WRAPPED: Final = regex.compile(r"(?<=[\p{Ll},，、])[ \t]*\n[ \t]*(?=\p{Ll})")
"""A line break within a sentence."""
_TRIAL: Final = "好, OK."


def warm(_setup: bytes) -> Work:
    """Loads everything that the first job needs, and returns the work."""
    ipa = Phonemizer().ipa
    decoder = msgspec.msgpack.Decoder(TextJob)
    read(TextJob(_TRIAL, "zh-CN"), ipa)
    return lambda packed, _running: read(decoder.decode(packed), ipa)


def read(job: TextJob, ipa: Ipa) -> TextPieces:
    """The pieces that a voice speaks in order; none without a sound.

    All pieces of a text are mixed or none is, since a mixed one sounds like a somewhat different voice. To
    `begin_early` the first piece ends with a clause.
    """
    whole = marked(job.text, _clean)
    reader = Reader(job.language.lower(), ipa, whole)
    found: list[Piece] = []
    last: list[Part] = []
    for sentence in sentences(_WRAPPED.sub(" ", whole.text), _SENTENCE_MAX_CHARS):
        for last in _runs(reader.parts(sentence), begin_early=job.begin_early and not found):
            found.append(_piece(last))
    if found:
        found[-1] = msgspec.structs.replace(found[-1], pause_s=last[-1].pause_s)
    if any(piece.mixed for piece in found):
        found = [msgspec.structs.replace(piece, mixed=True) for piece in found]
    return TextPieces(found, dict(reader.unspoken), whole.shown("".join(reader.words)).strip())


def _clean(text: str) -> str:
    return plain(visible(_SELECTOR.sub("", text)))


def _runs(parts: list[Part], *, begin_early: bool = False) -> Iterator[list[Part]]:
    """The parts in runs of at most PIECE_SYMBOLS_MAX: whole clauses if they fit, else words. To `begin_early`
    the first run has no more clauses than it needs to sound like speech."""
    clauses = list(_clauses(parts))
    first: list[Part] = []
    while begin_early and clauses and _size(first) < EARLY_SYMBOLS_MIN:
        first += clauses.pop(0)
    for group in ([first], clauses):
        words = [words for clause in group for words in _balanced([[part] for part in clause])]
        yield from _balanced(words)


def _balanced(groups: list[list[Part]]) -> Iterator[list[Part]]:
    """The groups, one after another, in runs of about the same size: a short last one would sound odd."""
    most = PIECE_SYMBOLS_MAX + 1
    total = sum(map(_size, groups))
    enough = total / max(1, math.ceil(total / most))
    run: list[Part] = []
    length = 0
    for group in groups:
        if run and (run[-1].pause_s or length >= enough or length + _size(group) > most):
            yield run
            run, length = [], 0
        run.extend(group)
        length += _size(group)
    if run:
        yield run


def _clauses(parts: list[Part]) -> Iterator[list[Part]]:
    """The parts up to each mark."""
    clause: list[Part] = []
    for part in _short(parts):
        clause.append(part)
        if part.mark or part.pause_s:
            yield clause
            clause = []
    if clause:
        yield clause


def _short(parts: list[Part]) -> Iterator[Part]:
    """The parts, a word that is longer than one run of the model in several."""
    for part in parts:
        sound, words = part.sound, part.words
        while len(sound) >= PIECE_SYMBOLS_MAX:
            yield Part(sound[: PIECE_SYMBOLS_MAX - 1], part.english, words=words[:1])
            sound, words = sound[PIECE_SYMBOLS_MAX - 1 :], []
        yield msgspec.structs.replace(part, sound=sound, words=words)


def _size(parts: list[Part]) -> int:
    """The symbols of the parts, each with the space before the next one."""
    return sum(len(part.sound) + len(part.mark) + 1 for part in parts)


def _piece(run: list[Part]) -> Piece:
    return Piece(
        " ".join(part.sound + part.mark for part in run),
        any(part.english for part in run),
        run[-1].pause_s or _PAUSES_S.get(run[-1].mark, 0.0),
        list(_spoken_words(run)),
    )


def _spoken_words(run: list[Part]) -> Iterator[SpokenWord]:
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
