"""How many texts are read right: `python -m bench reading FILE`.

FILE is JSON: `zh_numbers` and `en` have texts with the readings that are right, `zh_polyphones` a text, a
part of it and the pinyin of that part wherever it occurs (`hang2/xing2` where both are right), `zh_names` a
name and the pinyin of its first character. Numbers are compared as the phonemes of Kokoro, without marks.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import regex

from myna.engines.espeak.phonemizer import Phonemizer
from myna.engines.kokoro.job import TextJob
from myna.engines.kokoro.text.mandarin import words
from myna.engines.kokoro.text.pieces import read

_LANGUAGES = {"zh_numbers": "zh-CN", "en": "en-US"}
_SOUNDLESS = regex.compile(r"[\s\p{P}]")


def table(file: Path) -> str:
    """Each text that is read wrong, with its reading, and the count for each kind."""
    phonemizer = Phonemizer()
    shown = []
    for kind, cases in json.loads(file.read_text(encoding="utf-8")).items():
        wrong = list(_wrong(kind, cases, phonemizer))
        shown += [*wrong, f"{kind}: {len(cases) - len(wrong)} of {len(cases)} are right", ""]
    return "\n".join(shown)


def _wrong(kind: str, cases: list[Any], phonemizer: Phonemizer) -> Iterator[str]:
    for text, *expected in cases:
        if kind in _LANGUAGES:
            language = _LANGUAGES[kind]
            right = {_sounds(reading, language, phonemizer) for reading in expected[0]}
            if _sounds(text, language, phonemizer) not in right:
                found = read(TextJob(text, language), phonemizer.ipa).reading
                yield f"{text!r}: {found!r}, not {expected[0][0]!r}"
        else:
            part, wanted = (text[0], expected[0]) if kind == "zh_names" else expected
            syllables = _pinyin(text, part)
            if not _matches(syllables, wanted.split()):
                yield f"{text}: {' '.join(syllables)}, not {wanted}"


def _sounds(text: str, language: str, phonemizer: Phonemizer) -> str:
    spoken = read(TextJob(text, language), phonemizer.ipa).pieces
    without: str = _SOUNDLESS.sub("", "".join(piece.phonemes for piece in spoken))
    return without


def _pinyin(text: str, part: str) -> list[str]:
    """The syllables of the part wherever it occurs."""
    read = [pair for word in words(text) for pair in zip(word.text, word.pinyin, strict=True)]
    plain = "".join(character for character, _ in read)
    begins = (found.start() for found in regex.finditer(regex.escape(part), plain))
    return [syllable for begin in begins for _, syllable in read[begin : begin + len(part)]]


def _matches(found: list[str], wanted: list[str]) -> bool:
    """Whether the syllables are those; more of them may follow."""
    pairs = zip(found, wanted, strict=False)
    return len(found) >= len(wanted) and all(syllable in either.split("/") for syllable, either in pairs)
