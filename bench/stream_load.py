"""The load of `make bench-stream`, and its upstream: `python -m bench.stream_load`.

Both ends of every stream are in this process, on the load's core. So the next chunk of a stream can be sent
when the one before has arrived: no two chunks of a stream are in one read, and a program under test that
reads several at once gains nothing. The time of sending is in each chunk, so its delay is read off one clock.

Prints the upstream's port, then reads a `Job` as a line of JSON from stdin and prints its `Outcome`, again
and again.
"""

import asyncio
import itertools
import random
import re
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import cast

import httptools
import msgspec
import uvloop

from bench.load import KEY_FORMAT
from bench.upstream import ANSWER

GRACE_S = 20.0
"""How long streams may take to end after the time of a job."""
OPENING_MAX = 32
"""Streams that are opened at once."""
TICK_S = 0.001
DONE = b"data: [DONE]\n\n"
LAST = b"%x\r\n%b\r\n0\r\n\r\n" % (len(DONE), DONE)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"t=%020d fox"},"finish_reason":null}]}\n\n'
)
FINISHED = CHUNK.replace(b"t=%020d fox", b"").replace(b"null", b'"stop"')
_TIME = re.compile(rb"t=(\d{20}) fox")
_NUMBER = re.compile(r"stream (\d+)")
_END = b"0\r\n\r\n"
BODY = (
    '{"model":"%s","stream":true,"messages":[{"role":"system","content":"You are a helpful assistant."},'
    '{"role":"user","content":"Tell me what the fox does, please. stream %d"}],"temperature":0.2}'
)


class Job(msgspec.Struct, kw_only=True):
    """What to do. With `rate`, all `streams` are opened, then `rate` chunks a second are sent over them for
    `seconds`; without, each of `streams` clients repeats streams of `chunks` chunks, one chunk after the
    other. `headers` are sent with each request; with `keys`, each has the key of a random number."""

    port: int
    path: str
    streams: int
    seconds: float
    chunks: int = 0
    rate: float = 0.0
    model: str = "svc-chat"
    keys: int = 0
    bearer: str = ""
    headers: list[tuple[str, str]] = []


class Outcome(msgspec.Struct, frozen=True):
    """What a job saw. `first_ms` is the median time from a request to its first chunk, `delay_…` the time of
    a chunk from the upstream's write to the client's read. `broken` counts streams without a good end."""

    chunks_s: float
    first_ms: float
    delay_p50_ms: float
    delay_p99_ms: float
    streams: int
    broken: int


class Load:
    """The streams that are open, by their number, and what arrived of them."""

    def __init__(self) -> None:
        self.open: dict[int, Client] = {}
        self.delays: list[int] = []
        self.firsts: list[int] = []
        self.finished = 0
        self.broken = 0
        self.until = 0.0
        self.ended = asyncio.Event()
        self._numbers = itertools.count(1)

    async def run(self, job: Job) -> Outcome:
        """Does the job. Raises OSError if the program does not accept a connection."""
        self.delays, self.firsts, self.finished, self.broken = [], [], 0, 0
        loop = asyncio.get_running_loop()
        self.until = loop.time() + (GRACE_S * 6 if job.rate else job.seconds)
        clients: list[Client] = []
        began = loop.time()
        for _ in range(job.streams):
            _, client = await loop.create_connection(partial(Client, self, job), "127.0.0.1", job.port)
            clients.append(client)
            client.ask(next(self._numbers))
            while job.rate and sum(one.count == 0 for one in clients[-OPENING_MAX:]) == OPENING_MAX:
                await self._wait(0.01)
        if job.rate:
            began = await self._pace(job, clients)
        else:
            await asyncio.sleep(job.seconds)
        seconds = loop.time() - began
        arrived = len(self.delays)
        outcome = self._outcome(arrived / seconds)
        await self._finish(clients)
        return msgspec.structs.replace(outcome, broken=self.broken, streams=self.finished)

    async def _pace(self, job: Job, clients: list["Client"]) -> float:
        """Sends chunks at the rate, in turn over the streams. Returns when it began."""
        loop = asyncio.get_running_loop()
        opened_by = loop.time() + GRACE_S
        while any(client.count == 0 for client in clients) and loop.time() < opened_by:
            await self._wait(0.01)
        self.delays.clear()
        began, sent = loop.time(), 0
        turn = itertools.cycle(clients)
        while (passed := loop.time() - began) < job.seconds:
            for client in itertools.islice(turn, int(passed * job.rate) - sent):
                client.send_next()
                sent += 1
            await asyncio.sleep(TICK_S)
        return began

    async def _finish(self, clients: list["Client"]) -> None:
        """Ends the open streams, and counts as broken what doesn't end in time."""
        self.until = 0.0
        for client in self.open.values():
            client.chunks = 0  # the next chunk is the last
            if client.paced:
                client.send_next()
        ends_by = asyncio.get_running_loop().time() + GRACE_S
        while self.open and asyncio.get_running_loop().time() < ends_by:
            await self._wait(0.05)
        self.broken += len(self.open)
        self.open.clear()
        for client in clients:
            client.transport.abort()

    async def _wait(self, seconds: float) -> None:
        self.ended.clear()
        try:
            await asyncio.wait_for(self.ended.wait(), seconds)
        except TimeoutError:
            return

    def restart(self, client: "Client") -> None:
        """The client's stream has ended: it begins the next one."""
        self.finished += 1
        self.ended.set()
        if asyncio.get_running_loop().time() < self.until:
            client.ask(next(self._numbers))

    def _outcome(self, chunks_s: float) -> Outcome:
        delays = sorted(self.delays) or [0]
        return Outcome(
            chunks_s=chunks_s,
            first_ms=statistics.median(self.firsts or [0]) / 1e6,
            delay_p50_ms=delays[len(delays) // 2] / 1e6,
            delay_p99_ms=delays[int(len(delays) * 0.99)] / 1e6,
            streams=0,
            broken=0,
        )


class Client(asyncio.Protocol):
    """A connection to the program under test, which sends one request after the other."""

    transport: asyncio.Transport

    def __init__(self, load: Load, job: Job) -> None:
        self._load = load
        self._job = job
        self._seen = b""
        self._asked_at = 0
        self.number = 0
        self.count = 0
        self.chunks = job.chunks or sys.maxsize
        self.paced = bool(job.rate)
        self.upstream: Upstream | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own is none by its type

    def ask(self, number: int) -> None:
        """Begins a stream."""
        self.number, self.count, self._seen, self.upstream = number, 0, b"", None
        self._load.open[number] = self
        body = (BODY % (self._job.model, number)).encode()
        bearer = KEY_FORMAT % random.randint(1, self._job.keys) if self._job.keys else self._job.bearer
        lines = [
            f"POST {self._job.path} HTTP/1.1",
            f"Host: 127.0.0.1:{self._job.port}",
            f"Authorization: Bearer {bearer}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in self._job.headers),
        ]
        self._asked_at = time.monotonic_ns()
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        self._seen += data
        times = _TIME.findall(self._seen)
        if times:
            if self.count == 0:
                self._load.firsts.append(now - self._asked_at)
                self._load.ended.set()
            self.count += len(times)
            self._load.delays += [now - int(one) for one in times]
            self._seen = self._seen[self._seen.rfind(b" fox") :]
            if not self.paced:
                self.send_next()
        if self._seen.endswith(_END) and self.number in self._load.open:
            self._end()

    def send_next(self) -> None:
        """The upstream sends the next chunk of this stream, or its end."""
        if self.upstream is not None:
            self.upstream.send(last=self.count >= self.chunks)

    def _end(self) -> None:
        del self._load.open[self.number]
        if b"[DONE]" in self._seen:
            self._load.restart(self)
        else:  # an error, or a stream that was cut
            self._load.broken += 1
            self._load.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._load.open.pop(self.number, None):
            self._load.broken += 1
            self._load.ended.set()


class Upstream(asyncio.Protocol):
    """A connection of the program under test to its channel."""

    transport: asyncio.Transport

    def __init__(self, load: Load) -> None:
        self._load = load
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = self._body.decode(), b""
        number = _NUMBER.search(body)
        client = self._load.open.get(int(number[1])) if number else None
        if client is None:
            head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
            self.transport.write(f"{head}{len(ANSWER.encode())}\r\n\r\n{ANSWER}".encode())
            return
        client.upstream = self
        self.transport.write(HEAD)
        self.send()

    def send(self, *, last: bool = False) -> None:
        """Writes a chunk with the present time, or the end of the stream."""
        chunk = FINISHED if last else CHUNK % time.monotonic_ns()
        self.transport.write(b"%x\r\n%b\r\n%b" % (len(chunk), chunk, LAST if last else b""))


async def main() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard) if soft < hard else (soft, hard))
    loop = asyncio.get_running_loop()
    load = Load()
    server = await loop.create_server(partial(Upstream, load), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        outcome = await load.run(msgspec.json.decode(line, type=Job))
        print(msgspec.json.encode(outcome).decode(), flush=True)


def medians(outcomes: Sequence[Outcome]) -> Outcome:
    """The median of each figure; the sum of the streams, and of the broken ones."""
    return Outcome(
        chunks_s=statistics.median(one.chunks_s for one in outcomes),
        first_ms=statistics.median(one.first_ms for one in outcomes),
        delay_p50_ms=statistics.median(one.delay_p50_ms for one in outcomes),
        delay_p99_ms=statistics.median(one.delay_p99_ms for one in outcomes),
        streams=sum(one.streams for one in outcomes),
        broken=sum(one.broken for one in outcomes),
    )


if __name__ == "__main__":
    uvloop.run(main())
