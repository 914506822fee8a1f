"""Sends the sound of one text to its client while it is spoken: as it is, as events, or with the times of its
words. Those two shapes are of Kokoro-FastAPI's captioned speech: one object, or one a line.

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
import base64
import io
import threading
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Literal, Self

from msgspec import Struct, structs

from myna.engines.audio import word_times
from myna.engines.audio.encoders import FORMATS, RATE_HZ, Encoder, at_volume
from myna.engines.interface import (
    CallerDisconnected,
    EngineFailed,
    EngineTimedOut,
    SoundPart,
    SoundParts,
    SoundTooLong,
    WordTime,
)
from myna.engines.media.media import Transcoder
from myna.errors import CallAbandoned, ClientDisconnected, MynaError, UpstreamFailed
from myna.http.exchange import ResponseStream
from myna.http.responses import openai_error
from myna.lib.files import DiskExecutor, remove
from myna.store.files.named_files import Spool
from myna.wire.body import to_event, to_json
from myna.wire.openai import CaptionedSpeech, SpeechDelta, SpeechEnd, SpeechFormat, SpeechUsage, WordTimestamp

PART_MAX_BYTES: Final = 32 * 1024
TAIL_BYTES: Final = 1024
"""The end of the sound, which is not sent before `finish`: it is sent when the call is kept."""
NOT_CONVERTED = "The sound can't be converted to this format; the units were refunded, try mp3."
_NEVER_KEPT = CallerDisconnected | SoundTooLong
"""Failures that the caller has caused."""
Shape = Literal["sound", "events", "lines", "object"]
_MEDIA_TYPES: Final[dict[Shape, bytes]] = {
    "events": b"text/event-stream",
    "lines": b"application/x-ndjson",
    "object": b"application/json",
}
_OBJECT: Final = b'{"audio":"'
_BASE64_BYTES: Final = 3
"""Base64 of so many bytes can be followed by more."""


class SoundStream:
    """The sound in one format. It gets samples with `write`, encoded sound with `write_encoded`, or a
    finished file with `use_file`, and then `finish`. `parts` reads and encodes them: a slow encoder
    delays its client alone. Close it: that removes the file."""

    def __init__(self, spool: Spool, disk: DiskExecutor, kind: SpeechFormat) -> None:
        self._spool = spool
        self._disk = disk
        self._format = FORMATS[kind]
        self._encoder: Encoder | None = None
        self._file: BinaryIO = io.BytesIO()  # until there is sound
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
            self._encoder = await self._disk.run(self._format.encoder)
        await self.write_encoded(pcm)

    async def write_encoded(self, data: bytes) -> None:
        """Appends sound in the format of this stream. Raises OSError."""
        self._size_bytes += await self._disk.run(partial(self._append, data))
        self._changed.set()

    async def use_file(self, path: Path, *, temporary: bool) -> None:
        """Sends a finished file; a temporary one loses its name. Raises OSError."""
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
            while at < self._size_bytes and (self._whole or not self._format.needs_length):
                count = min(PART_MAX_BYTES, self._size_bytes - at)
                unsent += await self._disk.run(partial(self._encoded, at, count))
                at += count
                ready = len(unsent) - TAIL_BYTES
                if ready > 0:
                    if samples:
                        unsent, samples = self._format.with_length(unsent, samples), 0
                    yield unsent[:ready]
                    unsent = unsent[ready:]
            if self._whole and at == self._size_bytes:
                if self._encoder is not None:
                    unsent += await self._disk.run(self._encoder.finish)
                if samples:
                    unsent = self._format.with_length(unsent, samples)
                if unsent:
                    yield unsent
                return
            await self._changed.wait()

    def _encoded(self, at: int, count: int) -> bytes:
        """Raises EOFError if the file is shorter."""
        with self._file_lock:
            self._file.seek(at)
            data = self._file.read(count)
        if len(data) < count:
            raise EOFError("the sound is shorter than it was")
        return data if self._encoder is None else self._encoder.encode(data)

    def _append(self, data: bytes) -> int:
        with self._file_lock:
            if not self._size_bytes:
                path = self._spool.new()
                self._file = path.open("x+b")
                path.unlink()
            self._file.seek(0, 2)
            self._file.write(data)
            self._file.flush()
        return len(data)

    def _open_existing(self, path: Path, temporary: bool) -> int:
        with self._file_lock:
            self._file = path.open("rb")
            if temporary:
                path.unlink()
            return self._file.seek(0, 2)

    def _close(self) -> None:
        with self._file_lock:
            self._file.close()


class Style(Struct, frozen=True):
    """How the sound is sent: its format, how that is written, and whether with the times of its words. The
    text has `chars` characters."""

    format: SpeechFormat
    shape: Shape
    timed: bool
    chars: int
    volume: float = 1.0


class Framing:
    """Writes one response. It has the times of words as far as the engine knows them."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._words: list[WordTime] = []
        self._sent_words = 0
        self._rest = b""
        self.media_type = _MEDIA_TYPES.get(style.shape, FORMATS[style.format].media_type)

    def add_words(self, words: Sequence[WordTime]) -> None:
        """These words come next."""
        self._words += words

    def begin(self) -> bytes:
        return _OBJECT if self._style.shape == "object" else b""

    def part(self, sound: bytes) -> bytes:
        """A part of the sound."""
        if self._style.shape == "sound":
            return sound
        if self._style.shape == "object":
            whole = self._rest + sound
            end = len(whole) - len(whole) % _BASE64_BYTES
            self._rest = whole[end:]
            return base64.b64encode(whole[:end])
        captioned = self._captioned(base64.b64encode(sound).decode())
        if self._style.shape == "lines":
            return to_json(captioned) + b"\n"
        return to_event(SpeechDelta(captioned.audio, captioned.timestamps if self._style.timed else None))

    def end(self) -> bytes:
        """The end of the response."""
        chars = self._style.chars
        if self._style.shape == "events":
            return to_event(SpeechEnd(SpeechUsage(chars, 0, chars)))
        if self._style.shape == "object":
            end = to_json(self._captioned("")).removeprefix(_OBJECT)
            return base64.b64encode(self._rest) + end
        return b""

    def _captioned(self, audio: str) -> CaptionedSpeech:
        new = self._words[self._sent_words :]
        self._sent_words = len(self._words)
        kind = FORMATS[self._style.format].media_type.decode()
        return CaptionedSpeech(audio, kind, timestamps(new) if self._words else None)


def timestamps(words: Sequence[WordTime]) -> list[WordTimestamp]:
    """The words without the spaces around them."""
    return [WordTimestamp(word.text.strip(), round(word.begin_s, 3), round(word.end_s, 3)) for word in words]


Captions = tuple[str, Callable[[Sequence[WordTime]], str]]
CAPTIONS: Final[Mapping[str, Captions]] = {
    "srt": ("application/x-subrip", lambda words: word_times.srt(word_times.cues_of(words))),
    "vtt": ("text/vtt", lambda words: word_times.vtt(word_times.cues_of(words))),
    "json": ("application/json", lambda words: to_json(timestamps(words)).decode()),
}
"""How the captions of a sound are written, by the ending of their name: the content type, and the content."""


class SoundResponse(Struct, frozen=True):
    """The response: its stream, and what makes its headers when it starts."""

    stream: ResponseStream
    headers: Callable[[], Mapping[str, str]]


class DeliveryTools(Struct, frozen=True):
    """What the deliveries of a process share. An engine has `idle_s` seconds for the next part of a sound."""

    spool: Spool
    transcoder: Transcoder
    disk: DiskExecutor
    idle_s: float


class Delivery:
    """The delivery of one text. A context manager: an error is sent to a client that reads events, and
    nothing more is sent."""

    def __init__(
        self, response: SoundResponse, style: Style, tools: DeliveryTools, *, keep_broken: bool = False
    ) -> None:
        self._stream = response.stream
        self._headers = response.headers
        self._style = style
        self._framing = Framing(style)
        self._tools = tools
        self._keep_broken = keep_broken
        self._sound = SoundStream(tools.spool, tools.disk, style.format)
        self._sending: asyncio.Task[None] | None = None
        self.begun = False
        """It has sound: no other channel can begin the text again."""
        self.failure: EngineFailed | None = None
        """Why the engine broke off, if the sound so far is stored and kept."""
        self.abandoned = False
        """The process stopped before the call was kept, and the call was refunded."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sending, self._sending = self._sending, None  # whose error has frames with this object: a cycle
        if sending is not None and not sending.done():
            sending.cancel()
            await asyncio.wait({sending})
        reported = CallAbandoned() if self.abandoned else error
        if self._stream.started and self._style.shape == "events" and isinstance(reported, MynaError):
            self._stream.write(to_event(openai_error(reported), "error"))
        await self._sound.close()

    async def send(self, parts: SoundParts) -> SoundParts:
        """Sends the sound of an engine that returns it part by part. Yields what is stored, and raises
        EngineFailed."""
        async with aclosing(parts):
            try:
                while (part := await self._next(parts)) is not None:
                    self._check_client()
                    self._framing.add_words(part.words)
                    if part.pcm:
                        if self._style.volume != 1:
                            louder = partial(at_volume, part.pcm, self._style.volume)
                            part = structs.replace(part, pcm=await self._tools.disk.run(louder))
                        self.begun = True
                        await self._sound.write(part.pcm)
                        self._begin_sending()
                    elif part.mp3 and self._style.format == "mp3":
                        self.begun = True
                        await self._sound.write_encoded(part.mp3)
                        self._begin_sending()
                    yield part
            except EngineFailed as failure:
                if not self._keep_broken or not self.begun or isinstance(failure, _NEVER_KEPT):
                    raise
                self.failure = failure.without_frames()
        self._check_client()

    async def _next(self, parts: SoundParts) -> SoundPart | None:
        """The next part, None at the end. Raises EngineTimedOut if the engine is silent for too long."""
        try:
            async with asyncio.timeout(self._tools.idle_s):
                return await anext(parts, None)
        except TimeoutError as error:
            raise EngineTimedOut("The engine sent no sound for too long.") from error

    async def send_file(self, path: Path) -> None:
        """Sends the finished file, if no part of its sound could be sent. Raises MynaError."""
        try:
            self._check_client()
            await self.send_mp3(path)
        except CallerDisconnected:
            raise ClientDisconnected from None
        except (EngineFailed, OSError) as failure:
            raise UpstreamFailed(NOT_CONVERTED) from failure

    async def send_mp3(self, path: Path, account_id: Hashable = None) -> None:
        """Sends a stored mp3, after it was converted. Raises EngineFailed, OSError."""
        disk = self._tools.disk
        if self._style.timed:
            self._framing.add_words(await disk.run(partial(word_times.read, path)))
        if self._style.format == "mp3":
            await self._sound.use_file(path, temporary=False)
            return
        target = self._tools.spool.new()
        try:
            await self._tools.transcoder.transcode(path, target, self._style.format, account_id)
            await self._sound.use_file(target, temporary=True)
        except BaseException:
            await disk.clean_up(partial(remove, target))
            raise

    async def send_silence(self, seconds: float) -> None:
        """Raises OSError."""
        await self._sound.write(bytes(2 * round(seconds * RATE_HZ)))

    async def send_rest(self) -> None:
        """Sends the sound to its end, as fast as the client reads. Returns early if it disconnects."""
        self._sound.finish()
        await self._begin_sending()

    def end(self) -> None:
        """Ends the response."""
        self._start()
        self._stream.write(self._framing.end())
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
