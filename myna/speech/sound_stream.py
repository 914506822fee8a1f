"""The sound of one response, from the engine to the client.

The engine is never slowed down by a client: what the client has not read yet waits in a temporary file. So a
slow reader occupies a place on the disk, and neither a process of the engine nor memory.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from myna.engines.audio.encoders import LENGTH_NEEDED, Encoder, SoundFormat, encoder_of, with_length
from myna.lib.files import DiskExecutor
from myna.store.files.spool import Spool

PART_MAX_BYTES: Final = 32 * 1024
TAIL_BYTES: Final = 1024
"""The end of the sound, which is not sent before `finish`: it is sent when the call is kept."""


class SoundStream:
    """Takes samples with `write`, encoded sound with `write_encoded`, or one finished file with `adopt`, and
    then `finish`. `parts` reads and encodes them: a slow encoder delays its client alone. Close it: that
    removes the file."""

    def __init__(self, spool: Spool, disk: DiskExecutor, kind: SoundFormat) -> None:
        self._spool = spool
        self._disk = disk
        self._kind = kind
        self._encoder: Encoder | None = None
        self._file: BinaryIO | None = None
        self._file_lock = threading.Lock()
        self._size_bytes = 0
        self._whole = False
        self._changed = asyncio.Event()

    async def close(self) -> None:
        """Removes the file."""
        await self._disk.clean_up(self._close)

    async def write(self, pcm: bytes) -> None:
        """Appends samples. Raises OSError, and errors of the encoder's start: before the call is kept."""
        if self._encoder is None:
            self._encoder = await self._disk.run(partial(encoder_of, self._kind))
        await self.write_encoded(pcm)

    async def write_encoded(self, data: bytes) -> None:
        """Appends sound in the format of this stream. Raises OSError."""
        self._size_bytes += await self._disk.run(partial(self._append, data))
        self._changed.set()

    async def adopt(self, path: Path, *, temporary: bool) -> None:
        """Takes a finished file; a temporary one loses its name. Raises OSError."""
        self._size_bytes = await self._disk.run(partial(self._open_existing, path, temporary))

    def finish(self) -> None:
        """The sound is complete."""
        self._whole = True
        self._changed.set()

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """The encoded bytes in order, as soon as they are there, up to the end. Sound that is complete before
        its first bytes leave states its length. Raises OSError."""
        at, unsent, samples = 0, b"", 0
        while True:
            self._changed.clear()
            if not at and self._whole and self._encoder is not None:
                samples = self._size_bytes // 2
            while at < self._size_bytes and (self._whole or self._kind not in LENGTH_NEEDED):
                count = min(PART_MAX_BYTES, self._size_bytes - at)
                unsent += await self._disk.run(partial(self._encoded, at, count))
                at += count
                ready = len(unsent) - TAIL_BYTES
                if ready > 0:
                    if samples:
                        unsent, samples = with_length(self._kind, unsent, samples), 0
                    yield unsent[:ready]
                    unsent = unsent[ready:]
            if self._whole and at == self._size_bytes:
                if self._encoder is not None:
                    unsent += await self._disk.run(self._encoder.finish)
                if samples:
                    unsent = with_length(self._kind, unsent, samples)
                if unsent:
                    yield unsent
                return
            await self._changed.wait()

    def _encoded(self, at: int, count: int) -> bytes:
        data = self._read(at, count)
        return data if self._encoder is None else self._encoder.encode(data)

    def _append(self, data: bytes) -> int:
        with self._file_lock:
            if self._file is None:
                path = self._spool.new()
                self._file = path.open("x+b")
                path.unlink()
            return self._write(data)

    def _write(self, data: bytes) -> int:
        self._open_file.seek(0, 2)
        self._open_file.write(data)
        self._open_file.flush()
        return len(data)

    def _open_existing(self, path: Path, temporary: bool) -> int:
        with self._file_lock:
            self._file = path.open("rb")
            if temporary:
                path.unlink()
            return self._file.seek(0, 2)

    def _read(self, at: int, count: int) -> bytes:
        """Raises EOFError if the file is shorter."""
        with self._file_lock:
            self._open_file.seek(at)
            data = self._open_file.read(count)
        if len(data) < count:
            raise EOFError("the sound is shorter than it was")
        return data

    def _close(self) -> None:
        with self._file_lock:
            if self._file is not None:
                self._file.close()

    @property
    def _open_file(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("there is no file")
        return self._file
