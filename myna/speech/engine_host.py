"""The host: the process that runs the engines of several workers, and how `myna serve` keeps it running.

The program is `python -m myna.speech.engine_host SOCKET`. It has the environment and the rights of a worker,
and ends when its standard input does, as it does when `myna serve` has ended in whatever way. The protocol is
described in `shared_engines.py`.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from io import FileIO
from pathlib import Path
from typing import Final, cast

from prometheus_client import multiprocess as metric_files

from myna.engines.interface import Client, EngineFailed, StreamingEngine
from myna.engines.pool.child_main import framed
from myna.lib.aio import cancel_and_wait
from myna.lib.sandbox import keep_to_ourselves
from myna.lib.telemetry import logs, metrics
from myna.settings import load
from myna.speech.shared_engines import (
    ORDERS,
    Done,
    EngineState,
    Failed,
    Part,
    SpeakOrder,
    Unspoken,
    WatchOrder,
    read_frame,
)
from myna.speech.site_engines import SiteEngines, speech_engines
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import open_storage

log = logging.getLogger(__name__)

STATE_EVERY_S: Final = 0.1
RESTART_S: Final = 1.0
POLL_S: Final = 0.1
END_MAX_S: Final = 15.0
BEAT_S: Final = 1.0
BEATS_MAX: Final = 1024
HANG_MAX_S: Final = 20.0
"""A host whose event loop has not run for so long is killed."""
_PROGRAM: Final = "myna.speech.engine_host"


class EngineHost:
    """The host's side of the connections. `down` says why an engine has not started."""

    def __init__(self, engines: Mapping[str, StreamingEngine], down: Mapping[str, str]) -> None:
        self._engines = engines
        self._down = down
        self.started = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one connection."""
        disconnected = asyncio.Event()
        tasks: list[asyncio.Task[None]] = []
        try:
            order = ORDERS.decode(await read_frame(reader))
            if isinstance(order, WatchOrder):
                tasks.append(asyncio.create_task(self._report(order.engine, writer)))
            else:
                tasks.append(asyncio.create_task(self._speak(order, writer, disconnected)))
            tasks.append(asyncio.create_task(_follow_worker(reader, disconnected)))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            log.debug("a connection ended")  # cancelled at the host's end; asyncio would log that as an error
        finally:
            await cancel_and_wait(*tasks)
            writer.close()

    async def _report(self, name: str, writer: asyncio.StreamWriter) -> None:
        await self.started.wait()
        engine, sent = self._engines[name], None
        while True:
            state = EngineState(engine.up(), engine.full(), self._down.get(name, ""))
            if state != sent:
                writer.write(framed(state))
                await writer.drain()
                sent = state
            metrics.fold()
            await asyncio.sleep(STATE_EVERY_S)

    async def _speak(
        self, order: SpeakOrder, writer: asyncio.StreamWriter, disconnected: asyncio.Event
    ) -> None:
        async def wait_disconnected() -> None:
            await disconnected.wait()

        client = Client(
            queue_key=order.queue_key,
            sound_s=order.sound_s,
            disconnected=wait_disconnected,
            unspoken=lambda counts: writer.write(framed(Unspoken(dict(counts)))),
            relay=None if order.path else lambda parts: parts,
        )
        reply: Done | Failed = Done()
        engine = self._engines[order.engine]
        try:
            if order.path:
                path = Path(order.path)
                reply = Done(await engine.speak(order.utterance, path, order.deadline_s, client))
            else:
                async with aclosing(engine.sound(order.utterance, order.deadline_s, client)) as parts:
                    async for part in parts:
                        writer.write(framed(Part(part)))
                        await writer.drain()
        except EngineFailed as failure:
            reply = Failed(type(failure).__name__, str(failure))
        except Exception as error:
            log.exception("unhandled exception while a text was spoken")
            reply = Failed(EngineFailed.__name__, type(error).__name__)
        writer.write(framed(reply))
        await writer.drain()


async def _follow_worker(reader: asyncio.StreamReader, disconnected: asyncio.Event) -> None:
    """Returns at the end of what the worker sends."""
    while await reader.read(1):
        disconnected.set()


@contextlib.contextmanager
def host_process() -> Iterator[str]:
    """Runs the host. Yields its socket, which workers find in the variable SOCKET."""
    with tempfile.TemporaryDirectory(prefix="myna-engines-") as folder:
        socket, ending = str(Path(folder) / "socket"), threading.Event()
        thread = threading.Thread(target=_keep_running, args=(socket, ending), name="engines")
        thread.start()
        try:
            yield socket
        finally:
            ending.set()
            thread.join()


def _keep_running(socket: str, ending: threading.Event) -> None:
    while not ending.is_set():
        command = (sys.executable, "-P", "-m", _PROGRAM, socket)
        try:
            pipe = subprocess.PIPE
            host = subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe)  # noqa: S603  our own program
        except OSError as error:
            log.error("the process that speaks can't be started: %s", error.strerror)
        else:
            with host:
                _watch(host, ending)
            if os.environ.get(metrics.MULTIPROCESS):
                metric_files.mark_process_dead(host.pid)  # type: ignore[no-untyped-call]
        ending.wait(RESTART_S)


def _watch(host: subprocess.Popen[bytes], ending: threading.Event) -> None:
    """Returns when the host has ended. One that hangs is killed, and one that does not end its engines."""
    beats, seen = cast(FileIO, host.stdout), time.monotonic()
    os.set_blocking(beats.fileno(), False)
    while host.poll() is None and not ending.wait(POLL_S):
        if beats.read(BEATS_MAX):
            seen = time.monotonic()
        elif time.monotonic() - seen > HANG_MAX_S:
            host.kill()
    if not ending.is_set():
        log.error("the process that speaks has ended (exit code %s)", host.poll())
    cast(FileIO, host.stdin).close()
    try:
        host.wait(END_MAX_S)
    except subprocess.TimeoutExpired:
        host.kill()


async def _beat() -> None:
    """Tells the parent that the event loop runs."""
    while True:
        os.write(sys.stdout.fileno(), b".")
        await asyncio.sleep(BEAT_S)


async def _run(socket: str) -> None:
    settings = load(os.environ)[0]
    logs.configure(settings.log_level)
    audio = AudioStore(open_storage(settings, os.environ))
    audio.prepare()
    engines = cast(dict[str, StreamingEngine], speech_engines(settings, {}))
    site = SiteEngines(settings, engines, audio.folder, may_fail=True)
    host = EngineHost(engines, site.down)
    beating = asyncio.create_task(_beat(), name="beat")
    # Not as a context manager: its end waits, from Python 3.12 on, for workers that are still connected.
    await asyncio.start_unix_server(host.answer, socket)
    await site.start()
    host.started.set()
    await asyncio.to_thread(sys.stdin.buffer.read)
    beating.cancel()
    await site.close()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # the workers drain first
        signal.signal(number, signal.SIG_IGN)
    keep_to_ourselves()
    asyncio.run(_run(sys.argv[1]))
