"""The engines that several workers share: `engine_host.py` runs them in one process, the host.

A worker opens a connection to the host's Unix socket for the state of each engine, and one for each text: it
sends a `SpeakOrder`, and the host answers with `Unspoken`, `Part` and at last `Done` or `Failed`. A byte from
the worker says that the client has disconnected; the end of its stream cancels the work. Frames are those of
`engines/pool/child_main.py`.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from myna.engines.interface import (
    FAILURES,
    NO_CLIENT,
    Client,
    Engine,
    EngineBusy,
    EngineCrashed,
    EngineFailed,
    EngineTimedOut,
    EngineUnavailable,
    SoundPart,
    SoundParts,
    SpeechResult,
    Utterance,
)
from myna.engines.output_file import DurableFiles, part_of
from myna.engines.pool.child_handle import KILL_WAIT_S
from myna.engines.pool.child_main import LENGTH, framed
from myna.engines.pool.engine import REST_MAX_S
from myna.lib.aio import cancel_and_wait
from myna.lib.files import wait_shielded
from myna.lib.sandbox import AllowedPaths

SOCKET: Final = "_MYNA_ENGINES"
"""The environment variable with the socket's path, in a worker that has no engines of its own."""
RECONNECT_S: Final = 0.5
GRACE_S: Final = 2.0
"""How long after its deadline the host may say that the text was not spoken in time."""
READ_MAX_BYTES: Final = 65_536
START_MAX_S: Final = 300.0
"""More than an engine may take to start: Kokoro has two minutes for the process of its texts, then two for
those of its model."""


class EngineState(Struct, frozen=True, array_like=True):
    """Whether an engine can speak, whether its queue is full, and why it has not started."""

    up: bool
    full: bool
    down: str = ""


class WatchOrder(Struct, frozen=True, array_like=True, tag="watch"):
    """Asks for the state of an engine, at first and after each change, until the connection ends."""

    engine: str


class SpeakOrder(Struct, frozen=True, array_like=True, tag="speak"):
    """Asks an engine to speak to the file `path`, or to send the parts if it is empty: see `Engine`."""

    engine: str
    utterance: Utterance
    path: str
    deadline_s: float
    queue_key: int | str | None
    sound_s: float


class Unspoken(Struct, frozen=True, array_like=True, tag="unspoken"):
    """What of the text is not spoken, and how often."""

    counts: dict[str, int]


class Part(Struct, frozen=True, array_like=True, tag="part"):
    """The next part of the sound."""

    sound: SoundPart


class Done(Struct, frozen=True, array_like=True, tag="done"):
    """All is spoken; the result, of a file."""

    result: SpeechResult = SpeechResult(0.0, 0, b"")


class Failed(Struct, frozen=True, array_like=True, tag="failed"):
    """The name and the message of an EngineFailed."""

    kind: str
    message: str


ORDERS: Final = msgspec.msgpack.Decoder(WatchOrder | SpeakOrder)
_REPLIES: Final = msgspec.msgpack.Decoder(Unspoken | Part | Done | Failed)
_STATE: Final = msgspec.msgpack.Decoder(EngineState)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next frame. Raises IncompleteReadError at the end of the stream."""
    (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    return await reader.readexactly(length)


class SharedEngine:
    """An engine that the host runs, which has this socket. `engine` is the same one, not started: it has the
    voices. Texts are admitted as if this worker had its share of the processes."""

    def __init__(self, name: str, engine: Engine, socket: str, *, workers: int, files_max: int) -> None:
        self._name = name
        self._socket = socket
        self._state: EngineState | None = None
        self._known = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._files = DurableFiles(contextlib.nullcontext, at_once=files_max)
        self.label = engine.label
        self.voices = engine.voices
        self.clones = engine.clones
        self.blends = engine.blends
        self.admission = engine.admission and engine.admission.share(workers)

    def up(self) -> bool:
        return self._state is not None and self._state.up

    def full(self) -> bool:
        return self._state is not None and self._state.full

    async def start(self, files: AllowedPaths | None = None) -> None:
        """Returns when the host's engine can speak. Raises EngineUnavailable, after START_MAX_S at most."""
        if self._following is None:
            self._following = asyncio.create_task(self._follow(), name=f"{self._name} of the host")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_MAX_S):
                await self._known.wait()
        if not self.up():
            state = self._state
            raise EngineUnavailable(state.down if state else "The process that speaks does not run.")

    async def close(self) -> None:
        if self._following is not None:
            await cancel_and_wait(self._following)

    async def _follow(self) -> None:
        """Reads the state of the host's engine."""
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_unix_connection(self._socket)
                with contextlib.closing(writer):
                    writer.write(framed(WatchOrder(self._name)))
                    while True:
                        self._state = _STATE.decode(await read_frame(reader))
                        self._known.set()
            self._state = None
            await asyncio.sleep(RECONNECT_S)

    async def speak(
        self, utterance: Utterance, path: Path, deadline_s: float, client: Client = NO_CLIENT
    ) -> SpeechResult:
        """The host writes the file. For a client that takes the sound the host sends it, and the file is
        written here."""
        if client.relay is not None:
            written = await self._files.write_sound(self._sound, utterance, path, deadline_s, client)
        else:
            written = await self._written(utterance, path, deadline_s, client)
        if self.admission is not None:
            self.admission.measured(client.sound_s, written.work_s)
        return written

    async def _written(
        self, utterance: Utterance, path: Path, deadline_s: float, client: Client
    ) -> SpeechResult:
        """The file that the host writes."""
        try:
            async with aclosing(self._replies(utterance, os.fspath(path), deadline_s, client)) as replies:
                (written,) = [reply.result async for reply in replies if isinstance(reply, Done)]
        except EngineBusy:  # no file was made
            raise
        except BaseException:  # the host may have finished the file, or may have died
            await self._files.discard(part_of(path), path)
            raise
        return written

    async def _sound(self, utterance: Utterance, deadline_s: float, client: Client) -> SoundParts:
        async with aclosing(self._replies(utterance, "", deadline_s, client)) as replies:
            async for reply in replies:
                if isinstance(reply, Part):
                    yield reply.sound

    async def _replies(
        self, utterance: Utterance, path: str, deadline_s: float, client: Client
    ) -> AsyncGenerator[Part | Done, None]:
        """Raises EngineFailed. When the generator has been closed, the host has ended the work."""
        order = SpeakOrder(self._name, utterance, path, deadline_s, _key(client), client.sound_s)
        ends_at = asyncio.get_running_loop().time() + deadline_s + GRACE_S
        try:
            async with asyncio.timeout(deadline_s):
                reader, writer = await asyncio.open_unix_connection(self._socket)
        except OSError as error:  # a TimeoutError too
            raise EngineUnavailable("The process that speaks does not run.") from error
        telling = asyncio.create_task(_tell(writer, client.disconnected)) if client.disconnected else None
        rest_s = 0.0
        try:
            writer.write(framed(order))
            while True:
                async with asyncio.timeout_at(ends_at):  # `wait_for` of Python 3.11 can lose a cancellation
                    frame = await read_frame(reader)
                match _REPLIES.decode(frame):
                    case Unspoken(counts=counts):
                        if client.unspoken:
                            client.unspoken(counts)
                    case Failed(kind=kind, message=message):
                        raise FAILURES.get(kind, EngineFailed)(message)
                    case reply:
                        yield reply
                        if isinstance(reply, Done):
                            return
        except TimeoutError as error:  # before OSError, of which it is one
            raise EngineTimedOut("The process that speaks does not answer.") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise EngineCrashed("The process that speaks ended in the middle of the text.") from error
        except GeneratorExit:
            rest_s = REST_MAX_S
            raise
        finally:
            if telling:
                telling.cancel()
            await _end(reader, writer, rest_s)


async def _end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rest_s: float) -> None:
    """Returns when the host has ended the work: it closes the connection then. Discards what it sends for
    `rest_s` seconds before: see `sound_of`."""
    ended = asyncio.ensure_future(_discard(reader))
    try:
        await asyncio.wait({ended}, timeout=rest_s)
    finally:
        with contextlib.suppress(OSError, RuntimeError):  # of a closed connection; the second is uvloop's
            writer.write_eof()
        try:
            await wait_shielded(ended, KILL_WAIT_S)
        finally:
            ended.cancel()
            writer.close()


async def _discard(reader: asyncio.StreamReader) -> None:
    """Reads to the end of the stream. It may be long: keeps none of it."""
    while await reader.read(READ_MAX_BYTES):
        pass


def _key(client: Client) -> int | str | None:
    key = client.queue_key
    return key if isinstance(key, int | str) else None


async def _tell(writer: asyncio.StreamWriter, disconnected: Callable[[], Awaitable[None]]) -> None:
    """Tells the host when the client has disconnected."""
    await disconnected()
    writer.write(b"\0")
