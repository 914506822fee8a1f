"""The times of words: kept at the end of an mp3, and written as captions, as those of a transcript are.

The mp3 has them in a tag, so they are copied, moved and deleted with it. It is an APEv2 tag, which players
know at the end of an mp3; libav takes an ID3v2 tag there for damage.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

import msgspec

from myna.engines.interface import WordTime

Cue = tuple[str, float, float]
"""A text, and when it begins and ends, in seconds."""
_MAGIC: Final = b"APETAGEX"
_KEY: Final = b"WORDTIMES\0"
_HEAD: Final = 0xA000_0000
_FOOT: Final = 0x8000_0000
_END_BYTES: Final = 32
_TAG_MAX_BYTES: Final = 8 * 1024 * 1024
_CUE_MAX_CHARS: Final = 42
_CUE_MAX_S: Final = 6.0
_PAUSE_S: Final = 0.3
_ENDS: Final = tuple(".!?…。！？；;\n")


def tag(words: Sequence[WordTime]) -> bytes:
    """What to append to the mp3; nothing without words."""
    if not words:
        return b""
    rounded = [WordTime(word.text, round(word.begin_s, 3), round(word.end_s, 3)) for word in words]
    content = msgspec.json.encode(rounded)
    item = struct.pack("<II", len(content), 0) + _KEY + content
    head, foot = (
        struct.pack("<8sIIII8x", _MAGIC, 2000, len(item) + _END_BYTES, 1, flags) for flags in (_HEAD, _FOOT)
    )
    return head + item + foot


def read(path: Path) -> list[WordTime]:
    """The words of an mp3, none if it has no such tag. Raises OSError."""
    with path.open("rb") as file:

        def part(first: int, count: int) -> bytes:
            file.seek(first)
            return file.read(count)

        return read_parts(file.seek(0, 2), part)


def read_parts(size: int, part: Callable[[int, int], bytes]) -> list[WordTime]:
    """The same of an mp3 of this size, whose bytes `part` returns: so many, from the first one on."""
    foot = part(max(0, size - _END_BYTES), _END_BYTES)
    length = int.from_bytes(foot[12:16], "little") if foot.startswith(_MAGIC) else 0
    if not _END_BYTES < length <= min(_TAG_MAX_BYTES, size):
        return []
    item = part(size - length, length - _END_BYTES)
    try:
        return msgspec.json.decode(item.partition(_KEY)[2], type=list[WordTime])
    except msgspec.DecodeError:
        return []


def srt(cues: Iterable[Cue]) -> str:
    """SubRip captions."""
    return "".join(
        f"{number}\n{_clock(begin_s, ',')} --> {_clock(end_s, ',')}\n{text}\n\n"
        for number, (text, begin_s, end_s) in enumerate(cues, 1)
    )


def vtt(cues: Iterable[Cue]) -> str:
    """WebVTT captions, whose texts may not have an & or < of their own (W3C, WebVTT, 4.2.2)."""
    return "WEBVTT\n\n" + "".join(
        f"{_clock(begin_s)} --> {_clock(end_s)}\n{escape(text, quote=False)}\n\n"
        for text, begin_s, end_s in cues
    )


def cues_of(words: Sequence[WordTime]) -> Iterator[Cue]:
    """The words in lines: a line ends with a sentence, at a pause, or when it is long."""
    cue: list[WordTime] = []
    for word in words:
        length = sum(len(one.text) * (1 if one.text.isascii() else 2) for one in [*cue, word])
        full = length > _CUE_MAX_CHARS or (cue and word.end_s - cue[0].begin_s > _CUE_MAX_S)
        if cue and (
            full or word.begin_s - cue[-1].end_s > _PAUSE_S or cue[-1].text.strip(' "”’」)').endswith(_ENDS)
        ):
            yield _cue(cue)
            cue = []
        cue.append(word)
    if cue:
        yield _cue(cue)


def _cue(words: Sequence[WordTime]) -> Cue:
    return " ".join("".join(word.text for word in words).split()), words[0].begin_s, words[-1].end_s


def _clock(seconds: float, point: str = ".") -> str:
    whole, ms = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{ms:03}"
