"""Encoders of the formats of `POST /audio/speech`: sound in, bytes out as they are made, mono at RATE_HZ.

The streams can be played while they grow. A stream states no length: its first bytes leave before the last
ones are made; `with_length` adds it where the sound is complete. The libraries of a format are imported at
its first use, since a serving process may need none.
"""

import importlib.util
import io
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import lameenc
from msgspec import Struct

from myna.engines.audio.mp3 import mp3_encoder
from myna.engines.interface import STREAM_RATE_HZ
from myna.wire.openai import SpeechFormat

RATE_HZ: Final = STREAM_RATE_HZ
UNKNOWN_SIZE: Final = 0xFFFF_FFFF
"""The size in the header of a wav whose length is not known when it begins."""
_SAMPLE_BYTES: Final = 2
_FULL_SCALE: Final = 32768
_SOFT_FROM: Final = 0.8
_AAC_BITS_PER_S: Final = 64_000


HEAD_BYTES: Final = 44
"""What `AudioFormat.with_length` needs of a stream."""


class Encoder(Protocol):
    """One stream. Its methods take milliseconds a second of sound, so they belong in a thread. It is used by
    one thread at a time."""

    def encode(self, pcm: bytes) -> bytes:
        """The bytes that can be sent after these samples, any whole number of 16 bits. Encoders keep up to a
        second of sound back."""

    def finish(self) -> bytes:
        """The rest of the stream. The encoder can't be used after it."""


class AudioFormat(Struct, frozen=True):
    """A format of `POST /audio/speech`: its media type, and what makes the encoder of a new stream. The
    encoder may need a `library`, which is in an `extra` of this package. `with_length` returns the beginning
    of a stream with its length, a count of samples. Readers such as libsndfile refuse a format that
    `needs_length` without it, so that a stream of it can't be sent while it grows."""

    media_type: bytes
    encoder: Callable[[], Encoder]
    library: str = ""
    extra: str = ""
    with_length: Callable[[bytes, int], bytes] = lambda head, samples: head
    needs_length: bool = False

    @property
    def available(self) -> bool:
        """Whether this installation has the library."""
        return not self.library or importlib.util.find_spec(self.library) is not None


_WAV_FORMAT: Final = struct.pack("<IHHIIHH", 16, 1, 1, RATE_HZ, RATE_HZ * _SAMPLE_BYTES, _SAMPLE_BYTES, 16)
_SIZE: Final = struct.pack("<I", UNKNOWN_SIZE)
_WAV_HEADER: Final = b"RIFF" + _SIZE + b"WAVEfmt " + _WAV_FORMAT + b"data" + _SIZE


class _Pcm:
    """Samples of 16 bits, little-endian, after a header if there is one."""

    def __init__(self, header: bytes = b"") -> None:
        self._header = header

    def encode(self, pcm: bytes) -> bytes:
        header, self._header = self._header, b""
        return header + pcm

    def finish(self) -> bytes:
        return self._header


class _Mp3:
    """The frames of the record's mp3, without the info frame, which is only known at the end."""

    def __init__(self) -> None:
        self._encoder: lameenc.Encoder = mp3_encoder(RATE_HZ)

    def encode(self, pcm: bytes) -> bytes:
        return bytes(self._encoder.encode(pcm)) if pcm else b""  # LAME reports empty input as an error

    def finish(self) -> bytes:
        return bytes(self._encoder.flush())


class _Tail(io.RawIOBase):
    """A file for libsndfile and FFmpeg that keeps what is appended. libsndfile rewrites a header at the end
    of a file; that has been sent then, so it is dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._at = self._size = 0
        self._appended = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        written = bytes(data)
        if self._at == self._size:
            self._appended += written
        self._at += len(written)
        self._size = max(self._size, self._at)
        return len(written)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        return 0

    def take(self) -> bytes:
        """What was appended since the last call."""
        taken = bytes(self._appended)
        self._appended.clear()
        return taken


_OPUS_56_KBPS: Final = 0.8
"""libsndfile's level for that rate. Without one, libopus chooses some 37 kbit/s and takes twice as long."""


class _Sndfile:
    """FLAC, and Opus in Ogg, whose pages have a second of sound."""

    def __init__(self, container: str, subtype: str, compression: float | None = None) -> None:
        import soundfile

        self._tail = _Tail()
        self._file = soundfile.SoundFile(
            self._tail,
            "w",
            samplerate=RATE_HZ,
            channels=1,
            format=container,
            subtype=subtype,
            compression_level=compression,
        )

    def encode(self, pcm: bytes) -> bytes:
        self._file.buffer_write(pcm, "int16")
        return self._tail.take()

    def finish(self) -> bytes:
        self._file.close()
        return self._tail.take()


class _Aac:
    """AAC-LC in ADTS frames, by FFmpeg."""

    def __init__(self) -> None:
        import av

        self._tail = _Tail()
        self._new_frame = av.AudioFrame.from_ndarray
        self._container = av.open(self._tail, "w", format="adts")
        self._stream = self._container.add_stream("aac", rate=RATE_HZ, layout="mono")
        self._stream.bit_rate = _AAC_BITS_PER_S
        self._resampler = av.AudioResampler(format="fltp", layout="mono", rate=RATE_HZ)

    def encode(self, pcm: bytes) -> bytes:
        import numpy as np

        if pcm:
            samples = np.frombuffer(pcm, "<i2").reshape(1, -1)
            frame = self._new_frame(samples, format="s16", layout="mono")
            frame.sample_rate = RATE_HZ
            for converted in self._resampler.resample(frame):
                self._container.mux(self._stream.encode(converted))
        return self._tail.take()

    def finish(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._tail.take()


def _wav_with_length(head: bytes, samples: int) -> bytes:
    size = samples * _SAMPLE_BYTES
    sizes = struct.pack("<I", size + HEAD_BYTES - 8), struct.pack("<I", size)
    return head[:4] + sizes[0] + head[8:40] + sizes[1] + head[HEAD_BYTES:]


def _flac_with_length(head: bytes, samples: int) -> bytes:
    """Source: RFC 9639, 8.2: 36 bits of the number of samples end at byte 26."""
    described = int.from_bytes(head[18:26], "big") >> 36 << 36 | samples
    return head[:18] + described.to_bytes(8, "big") + head[26:]


FORMATS: Final[Mapping[SpeechFormat, AudioFormat]] = {
    "mp3": AudioFormat(b"audio/mpeg", _Mp3),
    "opus": AudioFormat(b"audio/ogg", lambda: _Sndfile("OGG", "OPUS", _OPUS_56_KBPS)),
    "aac": AudioFormat(b"audio/aac", _Aac, library="av", extra="m4a"),
    "flac": AudioFormat(
        b"audio/flac",
        lambda: _Sndfile("FLAC", "PCM_16"),
        with_length=_flac_with_length,
        needs_length=True,
    ),
    "wav": AudioFormat(b"audio/wav", lambda: _Pcm(_WAV_HEADER), with_length=_wav_with_length),
    "pcm": AudioFormat(b"audio/pcm", _Pcm),
}


def at_volume(pcm: bytes, volume: float) -> bytes:
    """16-bit PCM `volume` times as loud; what would be over the limit is rounded off rather than cut."""
    import numpy as np

    samples = np.frombuffer(pcm, "<i2").astype(np.float32) * np.float32(volume / _FULL_SCALE)
    room = 1 - _SOFT_FROM
    over = np.maximum(np.abs(samples) - _SOFT_FROM, 0)
    soft = np.sign(samples) * (_SOFT_FROM + room * np.tanh(over / room))
    return (np.where(over > 0, soft, samples) * (_FULL_SCALE - 1)).astype("<i2").tobytes()
