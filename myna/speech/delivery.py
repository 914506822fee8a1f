"""Sends the sound of one text to its client while it is spoken, as bytes or as events.

What is sent when, and who pays:

    nothing sent     an error response; the call is refunded
    all sent         the terminating chunk leaves after the COMMIT of the keep, and so do the last bytes
    client leaves    after something was sent: the text is spoken to its end, stored, and kept;
                     before: the call is refunded
    engine fails     after something was sent: by the site setting `broken_stream` the call is refunded, or
                     kept with the sound so far; the connection is closed without the terminating chunk

The engine is never slowed down by a client: what the client has not read yet waits in a temporary file. So a
slow reader occupies a place on the disk, and neither a process of the engine nor memory.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from msgspec import Struct, structs

from myna.engines.audio import word_times
from myna.engines.audio.encoders import (
    LENGTH_NEEDED,
    RATE_HZ,
    Encoder,
    SoundFormat,
    at_volume,
    encoder_of,
    with_length,
)
from myna.engines.interface import CallerDisconnected, EngineFailed, SoundPart, SoundParts, SoundTooLong
from myna.engines.media.media import Transcoder
from myna.errors import CallAbandoned, ClientDisconnected, MynaError, UpstreamFailed
from myna.http.responses import openai_error
from myna.http.stream import ResponseStream
from myna.lib.files import DiskExecutor, remove
from myna.speech.framing import Framing, Shape
from myna.store.files.named_files import Spool
from myna.wire.body import to_event

PART_MAX_BYTES: Final = 32 * 1024
TAIL_BYTES: Final = 1024
"""The end of the sound, which is not sent before `finish`: it is sent when the call is kept."""
NOT_CONVERTED = "The sound can't be converted to this format; the units were refunded, try mp3."
_NEVER_KEPT = CallerDisconnected | SoundTooLong
"""Failures that the caller has caused."""


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


class Style(Struct, frozen=True):
    """How the sound is sent: its format, how that is written, and whether with the times of its words. The
    text has `chars` characters."""

    format: SoundFormat
    shape: Shape
    timed: bool
    chars: int
    volume: float = 1.0


class Outlet(Struct, frozen=True):
    """The response: its stream, and what makes its headers when it starts."""

    stream: ResponseStream
    headers: Callable[[], Mapping[str, str]]


class Workshop(Struct, frozen=True):
    """What the deliveries of a process share."""

    spool: Spool
    transcoder: Transcoder
    disk: DiskExecutor


class Delivery:
    """The delivery of one text, and the listener of its engine. A context manager: after an error it tells a
    client that reads events, and stops sending."""

    def __init__(
        self, outlet: Outlet, style: Style, workshop: Workshop, *, keep_broken: bool = False
    ) -> None:
        self._stream = outlet.stream
        self._headers = outlet.headers
        self._style = style
        self._framing = Framing(style.shape, style.format.media_type, timed=style.timed)
        self._workshop = workshop
        self._keep_broken = keep_broken
        self._sound = SoundStream(workshop.spool, workshop.disk, style.format)
        self._sending: asyncio.Task[None] | None = None
        self.begun = False
        self.failure: EngineFailed | None = None
        """Why the engine broke off, if the sound so far is stored and kept."""
        self.abandoned = False
        """The process stopped before the call was kept, and the call was refunded."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sending is not None and not self._sending.done():
            self._sending.cancel()
            await asyncio.wait({self._sending})
        reported = CallAbandoned() if self.abandoned else error
        if self._stream.started and self._framing.events and isinstance(reported, MynaError):
            self._stream.write(to_event(openai_error(reported), "error"))
        await self._sound.close()

    # The listener:

    async def hear(self, parts: SoundParts) -> SoundParts:
        async with aclosing(parts):
            try:
                async for part in parts:
                    self._check_client()
                    self._framing.know(part.words)
                    if part.pcm:
                        part = await self._at_volume(part)
                        self.begun = True
                        await self._sound.write(part.pcm)
                        self._begin_sending()
                    elif part.mp3 and self._style.format is SoundFormat.MP3:
                        self.begun = True
                        await self._sound.write_encoded(part.mp3)
                        self._begin_sending()
                    yield part
            except EngineFailed as failure:
                if not self._keep_broken or not self.begun or isinstance(failure, _NEVER_KEPT):
                    raise
                self.failure = failure.with_traceback(None)  # its frames have this object: a cycle
        self._check_client()

    async def _at_volume(self, part: SoundPart) -> SoundPart:
        if self._style.volume == 1:
            return part
        pcm = await self._workshop.disk.run(partial(at_volume, part.pcm, self._style.volume))
        return structs.replace(part, pcm=pcm)

    async def take(self, path: Path) -> None:
        try:
            self._check_client()
            await self.adopt(path)
        except CallerDisconnected:
            raise ClientDisconnected from None
        except (EngineFailed, OSError) as failure:
            raise UpstreamFailed(NOT_CONVERTED) from failure

    # The caller:

    async def pause(self, seconds: float) -> None:
        """Sends a silence. Raises OSError."""
        await self._sound.write(bytes(2 * round(seconds * RATE_HZ)))

    async def adopt(self, path: Path, client: Hashable = None) -> None:
        """Sends a stored mp3, after it was converted. Raises EngineFailed, OSError."""
        if self._style.timed:
            self._framing.know(await self._workshop.disk.run(partial(word_times.read, path)))
        if self._style.format is SoundFormat.MP3:
            await self._sound.adopt(path, temporary=False)
            return
        target = self._workshop.spool.new()
        try:
            await self._workshop.transcoder.transcode(path, target, self._style.format, client)
            await self._sound.adopt(target, temporary=True)
        except BaseException:
            await self._workshop.disk.clean_up(partial(remove, target))
            raise

    async def send_rest(self) -> None:
        """Sends the sound to its end, as fast as the client reads. Returns early if it disconnects."""
        self._sound.finish()
        await self._begin_sending()

    def end(self) -> None:
        """Ends the response."""
        self._start()
        self._stream.write(self._framing.end(self._style.chars))
        self._stream.end()

    def _check_client(self) -> None:
        """Raises CallerDisconnected if the client has left and got nothing."""
        if self._stream.disconnected and not self._stream.sent:
            raise CallerDisconnected("The client disconnected before sound was sent.")

    def _begin_sending(self) -> asyncio.Task[None]:
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return self._sending

    async def _send(self) -> None:
        async with aclosing(self._sound.parts()) as parts:
            async for part in parts:
                self._start()
                self._stream.write(self._framing.part(part))
                await self._stream.drained()
                if self._stream.disconnected:
                    return

    def _start(self) -> None:
        if not self._stream.started:
            self._stream.start(self._headers(), self._framing.media_type)
            self._stream.write(self._framing.begin())
