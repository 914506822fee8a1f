"""Mandarin transcripts as people write them: characters of one script, full-width punctuation.

Whisper was trained on both scripts and on text without punctuation. A prompt makes it choose one of them most
of the time; OpenCC converts the rest.
"""

import itertools
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from myna.engines.media.job import Script, Segment, Word

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


class Writer:
    """Has the dictionaries of all scripts in memory, some 45 MB: a confined process can't open them later."""

    def __init__(self) -> None:
        from opencc import OpenCC

        self._converters = {script: OpenCC(script.value) for script in Script}

    def written(
        self, segments: Sequence[Segment], words: Sequence[Word], script: Script
    ) -> tuple[list[Segment], list[Word]]:
        """The parts and the words of a transcript in this script, with full-width punctuation."""
        texts = self._in_script([word.word for word in words], script)
        return (
            [replace(one, text=punctuated(*self._in_script([one.text], script))) for one in segments],
            [replace(one, word=punctuated(text)) for one, text in zip(words, texts, strict=True)],
        )

    def _in_script(self, texts: Sequence[str], script: Script) -> list[str]:
        """The texts, which follow each other, in this script: neighbours decide a character's form."""
        convert = self._converters[script].convert
        together = convert("".join(texts))
        if len(together) != sum(map(len, texts)):
            return [convert(text) for text in texts]
        ends = list(itertools.accumulate(map(len, texts), initial=0))
        return [together[start:end] for start, end in itertools.pairwise(ends)]
