"""espeak-ng as child programs load it, and text as it reads it.

The library is under the GPL and can crash or hang: only child programs import this module. A data path of
over 160 characters fails without an error (espeak-ng 1.52), so the process changes to the folder and the path
is ".".

The engine ends a text at a NUL, silently drops phonemes after the first 200 of a word and 1000 of a clause,
and its English voices read each Han character as "Chinese letter". So a text becomes runs of one voice each,
without parts that it would drop.
"""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import espeakng_loader
import regex

from myna.engines.interface import EngineUnavailable
from myna.engines.text import reading
from myna.engines.text.notation import Said, said_as, spans
from myna.engines.text.signs import fractions_in_han, plain, visible

# speak_lib.h
_SYNCHRONOUS, _DONT_EXIT, _BUFFER_MS = 2, 0x8000, 200


def load() -> tuple[Any, int]:
    """The initialized library and its sample rate. Changes the working folder to that of its data.

    Once in a process. Raises EngineUnavailable.
    """
    os.chdir(Path(espeakng_loader.get_data_path()).parent)
    library: Any = ctypes.CDLL(espeakng_loader.get_library_path())
    rate_hz: int = library.espeak_Initialize(_SYNCHRONOUS, _BUFFER_MS, b".", _DONT_EXIT)
    if rate_hz <= 0:
        raise EngineUnavailable("espeak-ng does not start; its data may be missing.")
    return library, rate_hz


Run = tuple[str, str]  # espeak-ng's name of a voice, and its text
PAUSE = "pause"
"""In place of a voice: a pause, whose text is its length in milliseconds."""

_HAN = regex.compile(r"\p{Script=Han}")
_LATIN = regex.compile(r"\p{Script=Latin}")
_MANDARIN = regex.compile("^(?:cmn|zh-CN)")
_CHINESE = regex.compile(r"cmn|yue|zh-[A-Z]+")
# From a Han character, with the digits before it, to the last one before a Latin letter.
_HAN_RUN = regex.compile(
    r"[\d.,]*\p{Script=Han}(?:[^\p{Script=Latin}]*\p{Script=Han})?[\d.,%]*[^\p{L}\p{N}\s]*"
)
_SPEAKABLE = regex.compile(r"[^\p{Z}\p{P}\p{C}]")

_NUMBER_TOO_LONG = regex.compile(r"\d{8,}")
_WORD_TOO_LONG = regex.compile(r"([^\s\p{Script=Han}]{40})(?=[^\s\p{Script=Han}])")
# Characters that a voice names, as in "Cyrillic letter": a few of them fill a word.
_NAMED = r"[^\s\p{Script=Han}\p{Script=Latin}\p{M}\p{N}\p{P}]"
_NAMES_TOO_MANY = regex.compile(rf"({_NAMED}{{7}})(?={_NAMED})")

_PIECE = regex.compile(
    r"(?P<stop>[，。！？；：、…]|[,.;:!?](?=\s)|\n\s*\n)|(?P<han>[㐀-鿿])|(?P<number>\d+)|(?P<latin>\p{Script=Latin}+)"
    r"|(?P<space>\s+)|(?P<named>.)",
    regex.DOTALL,
)
_SOUNDS = {"han": 5.0, "number": 7.0, "latin": 1.5, "named": 20.0, "space": 0.0}  # a character, at most
_CLAUSE_SOUNDS_MAX = 500.0  # of the 1000; a hundred Han characters, about as long as a breath


def runs_of(text: str, voice: str, han_voice: str) -> list[Run]:
    """The text in runs of one voice each, with the numbers beside Han written out in Chinese.

    A Chinese voice also reads Latin words, by English rules, so its text is one run. A text of Latin words
    alone is read by the American voice of the same variant: the default voice is a Mandarin one, whose
    English is hard to understand.
    """
    if "[" not in text:
        return _runs_of(text, voice, han_voice)
    chinese = _HAN.search(text) is not None
    found = []
    for part in spans(text):
        if isinstance(part, str):
            found += _runs_of(part, voice, han_voice) if _SPEAKABLE.search(part) else []
        else:
            found += _said(part, voice, han_voice, chinese)
    return found


def _said(said: Said, voice: str, han_voice: str, chinese: bool) -> list[Run]:
    """The runs of words that say how they are read. The engine has no IPA as an input."""
    if said.how == "break":
        return [(PAUSE, said.value)]
    if said.how == "pinyin" and (pinyin := _MANDARIN.sub("cmn-latn-pinyin", han_voice)) != han_voice:
        return [(pinyin, said.value)]
    if said.how == "lang":
        return [(said.value.lower(), _breathing(said.text))]
    words = said.value.lower() if said.how == "words" else said_as(said, "zh" if chinese else "en")
    return _runs_of(words, voice, han_voice)


def _runs_of(text: str, voice: str, han_voice: str) -> list[Run]:
    text = plain(visible(text))
    han = _HAN.search(text)
    if voice == han_voice and _LATIN.search(text) and not han:
        voice = _CHINESE.sub("en-us", voice, count=1)
    if voice == han_voice:
        text = fractions_in_han(text)
    if voice == han_voice or not han:
        return [(voice, _breathing(reading.spoken_form(text)))]
    runs = _alternating(text, voice, han_voice)
    return [(reader, _breathing(part)) for reader, part in runs if _SPEAKABLE.search(part)]


def _alternating(text: str, voice: str, han_voice: str) -> Iterator[Run]:
    at = 0
    for found in _HAN_RUN.finditer(text):
        yield voice, text[at : found.start()]
        yield han_voice, reading.spoken_form(found[0])
        at = found.end()
    yield voice, text[at:]


def _breathing(text: str) -> str:
    """The text with long words split, long numbers as single digits, and commas in long clauses."""
    text = _NUMBER_TOO_LONG.sub(lambda number: " ".join(number[0]), text)
    text = _NAMES_TOO_MANY.sub(r"\1 ", _WORD_TOO_LONG.sub(r"\1 ", text))
    return "".join(_with_commas(text))


def _with_commas(text: str) -> Iterator[str]:
    clause = 0.0
    for piece in _PIECE.finditer(text):
        kind: str = piece.lastgroup
        if kind == "stop":
            clause = 0.0
        else:
            sounds = _SOUNDS[kind] * len(piece[0])
            if clause + sounds > _CLAUSE_SOUNDS_MAX:
                yield ", "
                clause = 0.0
            clause += sounds
        yield piece[0]
