"""Runs a node: starts its engines, reports its capabilities, leases jobs, runs them, sends heartbeats.

    hello ──► lease ──► lease ──► …        one long poll at a time, for the free slots
      ▲         │
      └─────────┘ after an outage of the service, or when the voices of the engines have changed
    beat, beat, …                          while there are leased jobs

The first signal drains the node: it leases no more jobs, finishes what it can within the grace period, and
returns the rest to the queue. The second signal ends the grace period.
"""

import asyncio
import contextlib
import logging
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from myna import __version__
from myna.engines.interface import EngineFailed
from myna.errors import CommandError
from myna.http.client import HttpClient
from myna.lib.sandbox import AllowedPaths
from myna.node.benchmark import trial
from myna.node.engines import Engines, NodeConfig
from myna.node.server_client import (
    Backoff,
    CredentialRefused,
    Credentials,
    OutageLog,
    ProtocolTooOld,
    ReportRefused,
    ServerClient,
    ServerFailed,
)
from myna.node.work import LeasedJob, LeasedJobs, References, Work
from myna.wire.farm import POLL_MAX_S, Heartbeat, Heartbeats, Hello, Job, Lease, Welcome

REFUSED_RETRY_S: Final = 30.0
"""The pause of a node whose credential is refused: the operator may enable it again."""
BEAT_MIN_S: Final = 0.05
LAST_HELLO_S: Final = 3.0
LAST_LEASE_S: Final = 0.5
"""After the last hello, for the answer of an open poll that may carry jobs."""
REQUEUE_S: Final = 5.0
CONNECT_MAX_S: Final = 10.0
OTHER_CONNECTIONS: Final = 3
"""In addition to one for each job: the long poll, the heartbeat and the last hello."""
SHUTTING_DOWN: Final = "the node is shutting down"
REFUSED: Final = "the service refuses this node's credential"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger(__name__)


class StopSignals:
    """SIGTERM and SIGINT: the first one resolves `drain`, the second one `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.drain: asyncio.Future[None] = self._loop.create_future()
        self.stop: asyncio.Future[None] = self._loop.create_future()

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self.receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number in _SIGNALS:
            self._loop.remove_signal_handler(number)

    def receive(self) -> None:
        """Handles a signal."""
        for future in (self.drain, self.stop):
            if not future.done():
                future.set_result(None)
                return


@dataclass(eq=False, kw_only=True)
class NodeProgram:
    """A node whose engines run, with `slots` jobs at a time."""

    server: ServerClient
    engines: Engines
    work: Work
    outages: OutageLog
    slots: int
    chars_per_s: float
    refused_retry_s: float = REFUSED_RETRY_S

    def __post_init__(self) -> None:
        self._jobs = LeasedJobs(self.slots)
        self._hello_lock = asyncio.Lock()
        self._draining = False
        self._last_hello: Hello | None = None
        self._poll_s = self._beat_s = 0.0  # set by the answer to the first hello

    async def run(self, signals: StopSignals, grace_s: float) -> None:
        """Works until a signal arrives, then drains for up to `grace_s` seconds.

        Raises ProtocolTooOld, and CommandError if the service refuses the node's voices.
        """
        fatal: list[BaseException] = []
        try:
            async with asyncio.TaskGroup() as group:
                beating = group.create_task(self._beat())
                leasing = group.create_task(self._lease_jobs(group))
                await asyncio.wait({signals.drain})
                await self._drain(leasing, signals, grace_s)
                beating.cancel()
        except* (ProtocolTooOld, CommandError) as refused:
            fatal += refused.exceptions
        if fatal:
            raise fatal[0]

    # Leasing

    async def _lease_jobs(self, group: asyncio.TaskGroup) -> None:
        backoff = Backoff(self.outages)
        while not self._draining:
            try:
                await self._send_hello()
                backoff.succeeded()
                while not self._draining:
                    await self._lease(group)
                    backoff.succeeded()
            except ProtocolTooOld:
                raise
            except CredentialRefused as refused:
                self._jobs.drop_all(REFUSED)
                await asyncio.sleep(backoff.failed(refused, self.refused_retry_s))
            except ServerFailed as failed:
                await asyncio.sleep(backoff.failed(failed))

    async def _send_hello(self) -> None:
        """Reports the capabilities, and logs them if they have changed. Raises CommandError if the service
        refuses them."""
        async with self._hello_lock:
            if self._draining:
                return
            hello = self._hello()
            try:
                welcome = await self.server.hello(hello)
            except ReportRefused as refused:
                raise CommandError(f"The service doesn't take what this node offers: {refused}") from None
            if hello != self._last_hello:
                self._log_connected(hello, welcome)
            self._last_hello = hello
            self._poll_s = min(max(welcome.poll_max_s, 0.0), POLL_MAX_S)
            self._beat_s = max(welcome.beat_s, BEAT_MIN_S)

    def _hello(self) -> Hello:
        voices, clones = self.engines.offer()
        return Hello(
            voices=voices,
            clones=clones,
            slots=self.slots,
            chars_per_s=round(self.chars_per_s, 1),
            version=__version__,
        )

    def _log_connected(self, hello: Hello, welcome: Welcome) -> None:
        log.info(
            "connected to %s as %s: %d voices (%s), clones in %s, %d jobs at a time, %.0f characters/s",
            *(self.server.url, welcome.name, len(hello.voices), ", ".join(v.voice_id for v in hello.voices)),
            *(", ".join(hello.clones) or "no language", hello.slots, hello.chars_per_s),
        )

    async def _lease(self, group: asyncio.TaskGroup) -> None:
        """Leases and starts jobs for the free slots, and deletes the references that the service names."""
        await self._jobs.wait(lambda: self._jobs.free() > 0)
        if self._draining:
            return
        if self._hello() != self._last_hello:
            await self._send_hello()
        request = Lease(self._jobs.free(), self._poll_s, self.work.references.cached())
        answer = await self.server.lease(request)
        for sha256 in answer.forget:
            if self.work.references.forget(sha256):
                log.info("forgot the reference %s", sha256[:12])
        for job in answer.jobs:
            self._start(job, group)

    def _start(self, job: Job, group: asyncio.TaskGroup) -> None:
        leased = LeasedJob(job)
        if leased not in self._jobs:
            self._jobs.add(leased)
            leased.start(self.work.run(leased), group).add_done_callback(lambda _: self._end(leased))

    def _end(self, leased: LeasedJob) -> None:
        self._jobs.remove(leased)
        if leased.dropped:
            log.info("%s: dropped: %s", leased.name, leased.dropped)

    # Heartbeats

    async def _beat(self) -> None:
        backoff = Backoff(self.outages)
        pause_s = self._beat_s
        while True:
            if not len(self._jobs):
                backoff.stopped()
                await self._jobs.wait(lambda: len(self._jobs) > 0)
                pause_s = self._beat_s
            await asyncio.sleep(pause_s)
            pause_s = self._beat_s
            try:
                await self._beat_once()
                backoff.succeeded()
            except ProtocolTooOld:
                raise
            except CredentialRefused:
                self._jobs.drop_all(REFUSED)
            except ServerFailed as failed:
                pause_s = min(backoff.failed(failed), self._beat_s)

    async def _beat_once(self) -> None:
        jobs = list(self._jobs)
        sent_at = asyncio.get_running_loop().time()
        beats = [Heartbeat(leased.lease, leased.progress) for leased in jobs]
        answer = await self.server.beat(Heartbeats(beats), within_s=self._beat_s)
        cancelled = {lease.key for lease in answer.cancel}
        for leased in jobs:
            if leased.lease.key not in cancelled:
                leased.extend(sent_at + answer.lease_s)
            elif not leased.uploading:
                leased.drop("the service cancelled it")

    # Draining

    async def _drain(self, leasing: asyncio.Task[None], signals: StopSignals, grace_s: float) -> None:
        """Waits for the leased jobs during the grace period, then requeues those that are left."""
        log.info("shutting down; jobs under way: %d", len(self._jobs))
        self._draining = True
        finished = asyncio.create_task(self._finish(leasing))
        await asyncio.wait({finished, signals.stop}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        finished.cancel()
        leasing.cancel()
        self._jobs.drop_all(SHUTTING_DOWN)
        unfinished = [leased for leased in self._jobs if leased.dropped == SHUTTING_DOWN]
        await self._jobs.wait(lambda: not len(self._jobs))
        try:
            async with asyncio.timeout(REQUEUE_S):
                await asyncio.gather(*map(self.work.requeue, unfinished))
        except TimeoutError:
            log.warning(
                "not all jobs could be requeued in time; the service does so when their leases expire"
            )

    async def _finish(self, leasing: asyncio.Task[None]) -> None:
        """Reports that the node takes no more jobs, and waits for the end of the leased ones."""
        try:
            async with asyncio.timeout(LAST_HELLO_S), self._hello_lock:
                await self.server.hello(msgspec.structs.replace(self._hello(), shutting_down=True))
        except (ServerFailed, TimeoutError) as failed:
            log.info("the service was not told that the node shuts down: %s", failed)
        await asyncio.wait({leasing}, timeout=LAST_LEASE_S)
        leasing.cancel()
        await self._jobs.wait(lambda: not len(self._jobs))


async def run(credentials: Credentials, config: NodeConfig, folder: Path) -> None:
    """Works for the service until a signal arrives. `folder` belongs to this process. Raises CommandError."""
    outages = OutageLog()
    async with contextlib.AsyncExitStack() as stack:
        signals = stack.enter_context(StopSignals())
        http_client = HttpClient(
            connections_max=config.slots + OTHER_CONNECTIONS, connect_timeout_s=CONNECT_MAX_S
        )
        stack.push_async_callback(http_client.close)
        server = ServerClient(credentials.url, credentials.credential, http_client)
        engines = Engines(config.engines)
        try:
            work = Work(server, engines, References(folder / "references"), outages, folder / "work")
        except OSError as error:
            raise CommandError(f"The data folder {folder} can't be written to: {error.strerror}.") from None
        stack.push_async_callback(engines.close)
        files = AllowedPaths.of(reads=(folder / "references",), writes=(work.folder,))
        starting = asyncio.create_task(_start(engines, work.folder, files))
        events: set[asyncio.Future[Any]] = {starting, signals.drain}
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)  # loading a model may take minutes
        if not starting.done():
            starting.cancel()
            await asyncio.wait({starting})
            return
        try:
            program = NodeProgram(
                server=server,
                engines=engines,
                work=work,
                outages=outages,
                slots=config.slots,
                chars_per_s=starting.result(),
            )
            await program.run(signals, config.shutdown_grace_s)
        except (EngineFailed, ProtocolTooOld) as failure:
            raise CommandError(str(failure)) from None


async def _start(engines: Engines, folder: Path, files: AllowedPaths) -> float:
    """Starts and tries the engines. Returns the characters per second of the slowest one."""
    await engines.start(files)
    return min([(await trial(engine, folder)).chars_per_s for engine in engines.engines])
