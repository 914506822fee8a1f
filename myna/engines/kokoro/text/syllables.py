"""Pinyin syllables in the symbols of the Kokoro model.

The model was trained on IPA with an arrow for the tone after the vowel: `hao3` is `xau↓`, `zhang1` is
`ꭧa→ŋ`. The neutral tone has no arrow.
"""

import functools
import re
from typing import Final

_INITIALS: Final = {
    "b": "p",
    "p": "pʰ",
    "m": "m",
    "f": "f",
    "d": "t",
    "t": "tʰ",
    "n": "n",
    "l": "l",
    "g": "k",
    "k": "kʰ",
    "h": "x",
    "j": "ʨ",
    "q": "ʨʰ",
    "x": "ɕ",
    "zh": "ꭧ",
    "ch": "ꭧʰ",
    "sh": "ʂ",
    "r": "ɻ",
    "z": "ʦ",
    "c": "ʦʰ",
    "s": "s",
}
_MEDIALS: Final = {"i": "j", "u": "w", "ü": "ɥ"}
_RIMES: Final = {  # the vowel, and what follows the tone
    "a": ("a", ""),
    "ai": ("ai", ""),
    "an": ("a", "n"),
    "ang": ("a", "ŋ"),
    "ao": ("au", ""),
    "e": ("ɤ", ""),
    "ei": ("ei", ""),
    "en": ("ə", "n"),
    "eng": ("ə", "ŋ"),
    "er": ("ɚ", ""),
    "o": ("o", ""),
    "ong": ("ʊ", "ŋ"),
    "ou": ("ou", ""),
    "i": ("i", ""),
    "in": ("i", "n"),
    "ing": ("i", "ŋ"),
    "u": ("u", ""),
    "ü": ("y", ""),
    "ün": ("y", "n"),
    "ie": ("je", ""),
    "üe": ("ɥe", ""),
    "ian": ("jɛ", "n"),
    "üan": ("ɥɛ", "n"),
    "ê": ("ɛ", ""),
}
_WITHOUT_INITIAL: Final = {
    "o": ("ɔ", ""),
    "m": ("m", ""),
    "n": ("n", ""),
    "ng": ("ŋ", ""),
    "hm": ("hm", ""),
    "hng": ("hŋ", ""),
}
_TONES: Final = {"1": "→", "2": "↗", "3": "↓", "4": "↘", "5": ""}
# The spelling of a syllable differs from its initial and final in these cases; the first that matches counts.
_SPELLINGS: Final = tuple(
    (re.compile(pattern), written)
    for pattern, written in (
        (r"^yo$", "uo"),
        (r"^wong$", "ong"),
        (r"^yu", "ü"),
        (r"^yi", "i"),
        (r"^y", "i"),
        (r"^wu", "u"),
        (r"^w", "u"),
        (r"^([jqx])u", r"\1ü"),
        (r"v", "ü"),
        (r"^([bpmfl])o$", r"\1uo"),
        (r"iu$", "iou"),
        (r"ui$", "uei"),
        (r"(?<=[^aeiouüyw])un$", "uen"),
    )
)
_SYLLABLE: Final = re.compile(r"(zh|ch|sh|[bpmfdtnlgkhjqxrzcs])?([a-zü]+|ê)$")


def is_syllable(pinyin: str) -> bool:
    """Whether `pinyin` is a syllable with the number of its tone that the model has symbols for."""
    return bool(pinyin) and pinyin[-1] in _TONES and _parts(pinyin[:-1]) is not None


def symbols(pinyin: str) -> str:
    """The symbols of a syllable such as `zhong1`, `lv4` or `de5`. Raises ValueError for others."""
    parts = _parts(pinyin[:-1])
    if parts is None or pinyin[-1] not in _TONES:
        raise ValueError(f"not a syllable: {pinyin}")
    before, after = parts
    return before + _TONES[pinyin[-1]] + after


@functools.cache
def _parts(plain: str) -> tuple[str, str] | None:
    """The symbols of a syllable without a tone, before and after the tone."""
    if plain in _WITHOUT_INITIAL:
        return _WITHOUT_INITIAL[plain]
    for pattern, written in _SPELLINGS:
        plain, found = pattern.subn(written, plain)
        if found and written != "ü":
            break
    match = _SYLLABLE.match(plain)
    if match is None:
        return None
    initial, final = match[1] or "", match[2]
    if final == "i" and initial in ("zh", "ch", "sh", "r", "z", "c", "s"):
        return _INITIALS[initial] + "ɨ", ""
    rime = _rime(final)
    return rime and (_INITIALS.get(initial, "") + rime[0], rime[1])


def _rime(final: str) -> tuple[str, str] | None:
    if final in _RIMES:
        return _RIMES[final]
    medial, rest = _MEDIALS.get(final[0]), _RIMES.get(final[1:])
    return (medial + rest[0], rest[1]) if medial and rest else None
