"""Detects the container of a recording, and whether it is truncated. Pure.

Most decoders accept a truncated file silently, so this module compares its stated sizes with its length.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

from myna.engines.audio import mp3


class Container(Enum):
    """The containers that are recognised; the value is the usual file extension."""

    WAV = "wav"
    FLAC = "flac"
    OGG = "ogg"
    MP3 = "mp3"
    MP4 = "mp4"  # m4a too
    WEBM = "webm"
    AIFF = "aiff"
    CAF = "caf"
    AAC = "aac"  # ADTS frames
    AMR = "amr"


_EBML: Final = b"\x1a\x45\xdf\xa3"
_SEGMENT: Final = b"\x18\x53\x80\x67"
_RIFF_HEAD_BYTES: Final = 12
_OGG_HEAD_BYTES: Final = 27
_FOUR_BYTES: Final = {
    b"fLaC": Container.FLAC,
    b"OggS": Container.OGG,
    _EBML: Container.WEBM,
    b"caff": Container.CAF,
    b"#!AM": Container.AMR,
}
# Writers to a pipe, which don't know the size, state 0 or a size close to 2 GiB or 4 GiB.
_RIFF_UNKNOWN_MIN: Final = 0x7FFF_0000
# ISO 13818-7, 6.2.1: twelve bits of one, the version, a layer of 0, and whether there is no checksum.
_ADTS: Final = (b"\xf0", b"\xf1", b"\xf8", b"\xf9")


def kind(data: bytes) -> Container | None:
    """Detects the container by its first bytes; None if it is unknown."""
    if data[:4] in (b"RIFF", b"RF64") and data[8:12] == b"WAVE":
        return Container.WAV
    if data[4:8] == b"ftyp":
        return Container.MP4
    if data[:3] == b"ID3" or mp3.frame(data[:4]) is not None:
        return Container.MP3
    if data[:4] == b"FORM" and data[8:12] in (b"AIFF", b"AIFC"):
        return Container.AIFF
    if data[:1] == b"\xff" and data[1:2] in _ADTS:
        return Container.AAC
    return _FOUR_BYTES.get(data[:4])


def is_truncated(data: bytes, what: Container) -> bool:
    """True if the container states more bytes than `data` has. False if it states no size.

    Always False for FLAC, whose decoder reports truncation, and for AAC and AMR, which state no size.
    """
    ends_early = _ENDS.get(what)
    return ends_early is not None and ends_early(data)


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
    """ISO 14496-12, 4.2: a box begins with its size; 1 means a 64-bit size after the tag, 0 the rest."""
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


def _aiff(data: bytes) -> bool:
    """IFF: the first chunk has the others. A writer to a pipe leaves its size 0 or at its largest."""
    size = int.from_bytes(data[4:8], "big")
    return 0 < size < _RIFF_UNKNOWN_MIN and 8 + size > len(data)


def _caf(data: bytes) -> bool:
    """Chunks, each a tag and a 64-bit size; the sound may have the size -1, the rest of the file."""
    at = 8
    while at + 12 <= len(data):
        size = int.from_bytes(data[at + 4 : at + 12], "big", signed=True)
        if size < 0:
            return False
        at += 12 + size
    return at != len(data)


def _ebml_size(data: bytes, at: int) -> tuple[int | None, int]:
    """A size of 1 to 8 bytes, None for "unknown", and its end offset. Leading zeros give its length."""
    first = data[at] if at < len(data) else 0
    length = 9 - first.bit_length()
    size = int.from_bytes(data[at : at + length], "big") & ((1 << 7 * length) - 1)
    return (None if size == (1 << 7 * length) - 1 else size), at + length


_ENDS: Final[dict[Container, Callable[[bytes], bool]]] = {
    Container.WAV: _wav,
    Container.OGG: _ogg,
    Container.MP3: mp3.is_truncated,
    Container.MP4: _mp4,
    Container.WEBM: _webm,
    Container.AIFF: _aiff,
    Container.CAF: _caf,
}


def parts(data: bytes, what: Container) -> Iterator[bytes]:
    """Splits joined mp3s, each with its info frame. Yields any other file unchanged."""
    later = mp3.info_frames(data)[1:] if what is Container.MP3 else []
    for start, end in zip([0, *later], [*later, len(data)], strict=True):
        yield data[start:end]
