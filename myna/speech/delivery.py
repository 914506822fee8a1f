"""Sends the sound of one text to its client while it is spoken, as bytes or as events.

What is sent when, and who pays:

    nothing sent     an error response; the call is refunded
    all sent         the terminating chunk leaves after the COMMIT of the keep, and so do the last bytes
    client leaves    after something was sent: the text is spoken to its end, stored, and kept;
                     before: the call is refunded
    engine fails     after something was sent: by the site setting `broken_stream` the call is refunded, or
                     kept with the sound so far; the connection is closed without the terminating chunk
"""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from myna.engines.audio import word_times
from myna.engines.audio.encoders import RATE_HZ, SoundFormat
from myna.engines.interface import CallerDisconnected, EngineFailed, SoundParts, SoundTooLong
from myna.engines.media.media import Transcoder
from myna.errors import CallAbandoned, ClientDisconnected, MynaError, UpstreamFailed
from myna.http.responses import openai_error
from myna.http.stream import ResponseStream
from myna.lib.files import DiskExecutor, remove
from myna.speech.framing import Framing, Shape
from myna.speech.sound_stream import SoundStream
from myna.store.files.spool import Spool
from myna.wire.encode import to_event

NOT_CONVERTED = "The sound can't be converted to this format; the units were refunded, try mp3."
_NEVER_KEPT = CallerDisconnected | SoundTooLong
"""Failures that the caller has caused."""


class Style(Struct, frozen=True):
    """How the sound is sent: its format, how that is written, and whether with the times of its words. The
    text has `chars` characters."""

    format: SoundFormat
    shape: Shape
    timed: bool
    chars: int


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
