"""What a recording's first bytes say it is, and whether its container lacks its end; pure.

Decoders make do with a file that breaks off, mostly without a word, so the sizes it states are read here.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

from myna.sound import mpeg


class Kind(Enum):
    """The containers that are told apart; the value is how people call such a file."""

    WAV = "wav"
    FLAC = "flac"
    OGG = "ogg"
    MP3 = "mp3"
    MP4 = "mp4"  # m4a too
    WEBM = "webm"


_EBML: Final = b"\x1a\x45\xdf\xa3"
_SEGMENT: Final = b"\x18\x53\x80\x67"
_RIFF_HEAD_BYTES: Final = 12
_OGG_HEAD_BYTES: Final = 27
# What writers to a pipe put where they can't know a size: 0, or something close to 2 GiB or 4 GiB.
_RIFF_UNKNOWN_MIN: Final = 0x7FFF_0000


def kind(data: bytes) -> Kind | None:
    """What the first bytes say; None for all that isn't in the list."""
    if data[:4] in (b"RIFF", b"RF64") and data[8:12] == b"WAVE":
        return Kind.WAV
    if data[4:8] == b"ftyp":
        return Kind.MP4
    if data[:3] == b"ID3" or mpeg.frame(data[:4]) is not None:
        return Kind.MP3
    return {b"fLaC": Kind.FLAC, b"OggS": Kind.OGG, _EBML: Kind.WEBM}.get(data[:4])


def breaks_off(data: bytes, what: Kind) -> bool:
    """The container says that there is more than `data` has. Where it states no size, False.

    FLAC isn't asked: its decoder finds out by itself.
    """
    return _ENDS[what](data)


def _wav(data: bytes) -> bool:
    """RIFF: a tag, a size, and that many bytes filled up to an even number. RF64 keeps the size elsewhere."""
    at, large = _RIFF_HEAD_BYTES, 0
    while at + 8 <= len(data):
        tag, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if tag == b"ds64":
            large = int.from_bytes(data[at + 16 : at + 24], "little")
        if tag == b"data":
            unknown = size == 0 or size >= _RIFF_UNKNOWN_MIN
            return at + 8 + (large if unknown else size) > len(data)
        at += 8 + size + size % 2
    return at > len(data)


def _ogg(data: bytes) -> bool:
    """RFC 3533, 6: a page's head ends in a table of its segments' lengths."""
    at = data.rfind(b"OggS")
    table_end = at + _OGG_HEAD_BYTES + (data[at + 26] if at + 26 < len(data) else 0)
    return table_end + sum(data[at + _OGG_HEAD_BYTES : table_end]) > len(data)


def _mp4(data: bytes) -> bool:
    """ISO 14496-12, 4.2: a box begins with its size; 1 means a longer one behind the tag, 0 all the rest."""
    at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size == 1:
            size = int.from_bytes(data[at + 8 : at + 16], "big")
        if size < 8:
            return False
        at += size
    return at != len(data)


def _webm(data: bytes) -> bool:
    """RFC 8794, 4: an element is its tag, its size and its content. The second of a file is the Segment."""
    header_bytes, at = _ebml_size(data, 4)
    at += header_bytes or 0
    if data[at : at + 4] != _SEGMENT:
        return True
    size, start = _ebml_size(data, at + 4)
    return size is not None and start + size > len(data)


def _ebml_size(data: bytes, at: int) -> tuple[int | None, int]:
    """A size of 1 to 8 bytes, None for "unknown", and where it ends. Leading zeros tell how many bytes."""
    first = data[at] if at < len(data) else 0
    length = 9 - first.bit_length()
    size = int.from_bytes(data[at : at + length], "big") & ((1 << 7 * length) - 1)
    return (None if size == (1 << 7 * length) - 1 else size), at + length


_ENDS: Final[dict[Kind, Callable[[bytes], bool]]] = {
    Kind.WAV: _wav,
    Kind.FLAC: lambda _: False,
    Kind.OGG: _ogg,
    Kind.MP3: mpeg.breaks_off,
    Kind.MP4: _mp4,
    Kind.WEBM: _webm,
}


def parts(data: bytes, what: Kind) -> Iterator[bytes]:
    """The mp3s that were joined to this one, each with its frame of facts; anything else as it is."""
    later = mpeg.facts(data)[1:] if what is Kind.MP3 else []
    for start, end in zip([0, *later], [*later, len(data)], strict=True):
        yield data[start:end]
