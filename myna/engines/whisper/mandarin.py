"""Mandarin transcripts as people write them: characters of one script, full-width punctuation.

Whisper was trained on both scripts and on text without punctuation. A prompt makes it choose one of them most
of the time; OpenCC converts the rest.
"""

import functools
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from myna.engines.whisper.job import Script, Segment, Word

PROMPTS: Final = {
    Script.SIMPLIFIED: "你好，我们开始吧。",
    Script.TAIWAN: "你好，我們開始吧。",
    Script.HONG_KONG: "你好，我們開始吧。",
}
"""As if Whisper had heard this before."""

_HAN: Final = "\u3400-\u9fff"
_FULL: Final = str.maketrans(",.?!:;()", "，。？！：；（）")
# Small forms, and letters and digits of full width, of which Whisper knows some.
_ODD: Final = re.compile("[\ufe50-\ufe6b\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]+")
_STOP: Final = re.compile(rf"(?<=[{_HAN}])\.(?![.\w])|(?<=\w)\.(?=[{_HAN}])")
_MARK: Final = re.compile(
    rf"(?<=[{_HAN}”》）])[,?!:;]|[,?!:;](?=\s*[{_HAN}“《（])|\((?=[{_HAN}])|(?<=[{_HAN}])\)"
)
_LAST: Final = re.compile(rf"([{_HAN}][^。？！?!]*[^。？！?!.])([.,?!:;])\s*$")
_DOTS: Final = re.compile(rf"(?<=[{_HAN}])\.{{2,}}")
_PAUSE: Final = re.compile(rf"(?<=[{_HAN}]) +(?=[{_HAN}])")
_AFTER: Final = re.compile(r"(?<=[，。？！：；（）、]) +")


def written(
    segments: Sequence[Segment], words: Sequence[Word], script: Script
) -> tuple[list[Segment], list[Word]]:
    """The parts and the words of a transcript in this script, with full-width punctuation."""
    texts = iter(_in_script([word.word for word in words], script))
    return (
        [replace(one, text=punctuated("".join(_in_script([one.text], script)))) for one in segments],
        [replace(one, word=punctuated(next(texts))) for one in words],
    )


def punctuated(text: str) -> str:
    """The text with full-width punctuation beside Chinese characters; 3.5, 10:30 and Wi-Fi stay. A space
    between two characters is a pause."""
    text = _ODD.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    if not re.search(f"[{_HAN}]", text):
        return text
    text = _STOP.sub("。", _DOTS.sub("……", text))
    text = _PAUSE.sub("，", text)
    text = _LAST.sub(lambda found: found[1] + found[2].translate(_FULL), text)
    text = _MARK.sub(lambda found: found[0].translate(_FULL), text)
    return _AFTER.sub("", text)


def _in_script(texts: Sequence[str], script: Script) -> list[str]:
    """The texts, which follow each other, in this script: a character's form depends on its neighbours."""
    together = _converter(script).convert("".join(texts))
    if len(together) != sum(map(len, texts)):
        return [_converter(script).convert(text) for text in texts]
    found, at = [], 0
    for text in texts:
        found.append(together[at : at + len(text)])
        at += len(text)
    return found


@functools.cache
def _converter(script: Script) -> Any:
    from opencc import OpenCC

    return OpenCC(script.value)
