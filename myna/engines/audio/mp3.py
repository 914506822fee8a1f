"""Mp3 files: the encoder, a file that appears whole or not at all, and what the frames of a file say."""

import contextlib
import hashlib
import struct
from collections.abc import Iterator
from functools import lru_cache
from mmap import mmap
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import lameenc

from myna.engines.interface import SpeechResult
from myna.lib.files import remove

BIT_RATE_KBPS = 48  # speech of 22 kHz, mono: 6 kB a second
# LAME's scale runs from 0 (slow) to 9. On speech 7 takes 3 ms a second of audio, 5 takes 6 and 2 takes 12.
_QUALITY = 7
_SAMPLE_BYTES = 2
_ENCODER_DELAY = 576  # samples of silence that LAME puts in front
# Bytes between frames that are searched at most: the search is slow.
STRAY_MAX_BYTES: Final = 65_536

_V1_KBPS: Final = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_V2_KBPS: Final = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_V1_HZ: Final = (44_100, 48_000, 32_000)
_HEADER_BYTES: Final = 4
_ID3V1_BYTES: Final = 128
_ID3V2_HEAD_BYTES: Final = 10
_APE_HEAD_BYTES: Final = 32


def mp3_encoder(rate_hz: int) -> lameenc.Encoder:
    """An encoder of mono sound."""
    encoder = lameenc.Encoder()
    encoder.set_channels(1)
    encoder.set_in_sample_rate(rate_hz)
    encoder.set_out_sample_rate(rate_hz)  # LAME would choose a lower one for the bit rate
    encoder.set_bit_rate(BIT_RATE_KBPS)
    encoder.set_quality(_QUALITY)
    encoder.silence()
    return encoder


class Mp3File:
    """Takes 16-bit mono PCM piece by piece and writes mp3 to `part`, a name in the folder of `target`.

    A context manager that creates the folder if it is missing. `finish` moves the file to `target`; without
    it the part is removed on exit. The file is not durable: see `lib/files.py`. Writing raises OSError,
    removing does not. At most one piece is kept in memory.
    """

    def __init__(self, part: Path, target: Path, rate_hz: int) -> None:
        self._part = part
        self._target = target
        self.rate_hz = rate_hz
        self._samples = self._sound_bytes = 0
        self._head = b""
        self._is_open = False
        self._encoder = mp3_encoder(rate_hz)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        self._part.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._part.open("w+b")
        self._is_open = True

    def close(self) -> None:
        """Removes the part, unless `finish` has moved it. Does nothing before `open`."""
        if self._is_open:
            with contextlib.suppress(OSError):  # closing flushes the buffer, which fails on a full disk
                self._file.close()
            remove(self._part)

    def write(self, pcm: bytes) -> None:
        """Encodes and writes any whole number of samples."""
        if pcm:  # LAME reports empty input as an error
            self._samples += len(pcm) // _SAMPLE_BYTES
            self._append(bytes(self._encoder.encode(pcm)))

    def finish(self, tag: bytes = b"") -> SpeechResult:
        """Moves the file to `target`, with a tag at its end. Requires at least one sample."""
        self._append(bytes(self._encoder.flush()))
        self._file.write(tag)
        self._file.seek(0)
        self._file.write(_info_frame(self._head, self.rate_hz, self._samples, self._sound_bytes))
        self._file.seek(0)
        sha256 = hashlib.file_digest(self._file, "sha256").digest()
        size_bytes = self._file.tell()
        self._file.close()
        self._part.replace(self._target)
        return SpeechResult(self._samples / self.rate_hz, size_bytes, sha256)

    def _append(self, encoded: bytes) -> None:
        if encoded and not self._head:
            self._head = encoded[:_HEADER_BYTES]
            self._file.write(
                _info_frame(self._head, self.rate_hz, 0, 0)
            )  # placeholder; `finish` overwrites it
        self._file.write(encoded)
        self._sound_bytes += len(encoded)


def _info_frame(head: bytes, rate_hz: int, samples: int, sound_bytes: int) -> bytes:
    """The silent first frame that tells players how much silence the encoder added.

    Without it a file plays some 70 ms longer than its sound. Layout: "Mp3 Info Tag revision 1" of the LAME
    project; `head` is a frame header of the same stream.
    """
    mpeg_1 = bool(head[1] & 0x08)
    frame_samples, side_bytes = (1152, 17) if mpeg_1 else (576, 9)
    frame_bytes = frame_samples // 8 * BIT_RATE_KBPS * 1000 / rate_hz
    frames = round(sound_bytes / frame_bytes)
    filling = max(0, frames * frame_samples - _ENCODER_DELAY - samples)
    unpadded = bytes([head[0], head[1], head[2] & ~0x02, head[3]])
    info = struct.pack(">4sIII", b"Info", 0x3, frames, int(frame_bytes) + sound_bytes)
    constant_rate, no_gain = 0x01, bytes(9)
    lame = struct.pack(">9sB", b"LAME3.100", constant_rate) + no_gain
    lame += struct.pack(">BB", 0, BIT_RATE_KBPS) + (_ENCODER_DELAY << 12 | filling).to_bytes(3, "big")
    return (unpadded + bytes(side_bytes) + info + lame).ljust(int(frame_bytes), b"\0")


class Frame(NamedTuple):
    """One frame of layer III: its size, its samples a channel, and where its side information ends."""

    size_bytes: int
    samples: int
    rate_hz: int
    side_end: int


@lru_cache(maxsize=256)
def frame(header: bytes) -> Frame | None:
    """Parses a frame header of four bytes. None for anything but layer III with a stated bit rate.

    ISO 11172-3, 2.4.1.3 and 2.4.2.3; ISO 13818-3 for the lower rates (version 2), halved again by MPEG 2.5.
    """
    if len(header) < _HEADER_BYTES or header[0] != 0xFF or header[1] & 0xE6 != 0xE2:
        return None
    version = header[1] >> 3 & 3
    rate = header[2] >> 2 & 3
    kbps = header[2] >> 4
    if version == 1 or rate == 3 or kbps in (0, 15):
        return None
    first = version == 3
    rate_hz = _V1_HZ[rate] >> (0 if first else 1 if version == 2 else 2)
    samples = 1152 if first else 576
    bits = (_V1_KBPS if first else _V2_KBPS)[kbps] * 1000
    size = samples // 8 * bits // rate_hz + (header[2] >> 1 & 1)
    mono = header[3] >> 6 == 3
    checksum = 0 if header[1] & 1 else 2
    side = (17 if mono else 32) if first else (9 if mono else 17)
    return Frame(size_bytes=size, samples=samples, rate_hz=rate_hz, side_end=_HEADER_BYTES + checksum + side)


def frames(data: bytes | mmap) -> Iterator[tuple[int, Frame]]:
    """Yields the offset of each whole frame, and the frame. Tags and stray bytes are skipped."""
    at, stray = 0, 0
    while at + _HEADER_BYTES <= len(data) and stray < STRAY_MAX_BYTES:
        found = frame(data[at : at + _HEADER_BYTES])
        if found is not None and _continues(data, at + found.size_bytes):
            yield at, found
            at += found.size_bytes
        elif tag := _tag_bytes(data[at : at + _APE_HEAD_BYTES]):
            at += tag
        else:
            at, stray = at + 1, stray + 1


def duration_s(data: bytes | mmap) -> float:
    """Seconds of sound in an mp3, or in several joined ones; 0 if there is no whole frame.

    An info frame ("Xing", "Info") has no sound. The encoder's silence at both ends, which it states, is
    subtracted.
    """
    seconds = 0.0
    for at, found in frames(data):
        silence = _silence(data[at : at + found.size_bytes], found)
        seconds += (found.samples if silence is None else -silence) / found.rate_hz
    return max(seconds, 0.0)


def info_frames(data: bytes | mmap) -> list[int]:
    """Offsets of the info frames: each of several joined mp3s begins with one."""
    return [at for at, found in frames(data) if _silence(data[at : at + found.size_bytes], found) is not None]


def is_truncated(data: bytes | mmap) -> bool:
    """True if the last frame is incomplete. A cut between two frames can't be detected."""
    end = 0
    for at, found in frames(data):
        end = at + found.size_bytes
    while last := frame(data[end : end + _HEADER_BYTES]):  # frames with no whole frame after them
        end += last.size_bytes
    rest = data[end : end + _HEADER_BYTES]
    return end > len(data) or (len(rest) < _HEADER_BYTES and rest[:1] == b"\xff")


def _continues(data: bytes | mmap, at: int) -> bool:
    """True at another frame, a tag or the end of the data. Random bytes rarely match."""
    rest = data[at : at + _APE_HEAD_BYTES]
    return at == len(data) or frame(rest[:_HEADER_BYTES]) is not None or _tag_bytes(rest) > 0


def _tag_bytes(head: bytes) -> int:
    """The length of the ID3 or APEv2 tag that begins here, 0 for none."""
    if head[:3] == b"TAG":
        return _ID3V1_BYTES
    if head[:8] == b"APETAGEX":
        return _APE_HEAD_BYTES + int.from_bytes(head[12:16], "little")
    if head[:3] != b"ID3" or len(head) < _ID3V2_HEAD_BYTES:
        return 0
    size = 0
    for seven_bits in head[6:10]:
        size = size << 7 | seven_bits & 0x7F
    return _ID3V2_HEAD_BYTES + size


def _silence(data: bytes, found: Frame) -> int | None:
    """Samples of silence around the sound, from an info frame; None for a frame with sound.

    Layout: "Mp3 Info Tag revision 1" of the LAME project, with the delay and the padding at byte 21 of the
    LAME part, 12 bits each.
    """
    info = data[found.side_end :]
    if info[:4] not in (b"Xing", b"Info"):
        return None
    flags = info[7] if len(info) > 7 else 0
    at = 8 + 4 * (flags & 1) + 4 * (flags >> 1 & 1) + 100 * (flags >> 2 & 1) + 4 * (flags >> 3 & 1) + 21
    pair = int.from_bytes(info[at : at + 3], "big") if len(info) >= at + 3 else 0
    return (pair >> 12) + (pair & 0xFFF)
