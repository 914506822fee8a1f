"""Writes an mp3 file that appears whole or not at all."""

import contextlib
import hashlib
import struct
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import lameenc

from myna.lib.files import remove

BIT_RATE_KBPS = 48  # speech of 22 kHz, mono: 6 kB a second
# LAME's scale runs from 0 (slow) to 9. On speech 7 takes 3 ms a second of audio, 5 takes 6 and 2 takes 12.
_QUALITY = 7
_SAMPLE_BYTES = 2
_FRAME_HEADER_BYTES = 4
_ENCODER_DELAY = 576  # samples of silence that LAME puts in front


class Mp3(NamedTuple):
    """A finished file: the length of its sound in seconds, its size and its SHA-256."""

    seconds: float
    size_bytes: int
    sha256: bytes


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

    def finish(self, tag: bytes = b"") -> Mp3:
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
        return Mp3(self._samples / self.rate_hz, size_bytes, sha256)

    def _append(self, encoded: bytes) -> None:
        if encoded and not self._head:
            self._head = encoded[:_FRAME_HEADER_BYTES]
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
