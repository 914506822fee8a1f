"""What the parts of a connection cost: `python -m bench.connections`.

Four servers answer the same small JSON to the same load, in turns: uvicorn's own protocol, ours as it is, and
ours without the write buffer or without the shared timers. The server has core 0, the load core 1. What is
compared is CPU time of the server for a request, which other programs on the machine change least.
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, cast

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bench.processes import Program, cores, pinned
from myna.http import connection, server_config
from myna.http.exchange import EXCHANGE
from myna.http.responses import Response
from myna.lib.aio import FlushQueue, Timeouts

UNCHANGED, NO_BUFFER, NO_TIMERS, UVICORN = "as it is", "no write buffer", "no shared timers", "uvicorn"
ARMS = (UNCHANGED, NO_BUFFER, NO_TIMERS, UVICORN)
BODY = b'{"model":"m","messages":[{"role":"user","content":"The quick brown fox"}]}'
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
) + BODY
ANSWER = b'{"choices":[{"message":{"role":"assistant","content":"jumps over the lazy dog"}}]}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]


class Timers(Timeouts):
    """What `Timeouts` replaces: a timer of the event loop for each wait."""

    def __init__(self) -> None:
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}

    def add(self, key: Hashable, deadline: float, callback: Callable[[], object]) -> None:
        wait_s = deadline - time.monotonic()
        self._timers[key] = asyncio.get_running_loop().call_later(wait_s, partial(self._fire, key, callback))

    def remove(self, key: Hashable) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()

    def _fire(self, key: Hashable, callback: Callable[[], object]) -> None:
        del self._timers[key]
        callback()


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, then answers, with ours as Myna does."""
    while (await receive()).get("more_body"):
        pass
    if EXCHANGE in scope:
        await scope[EXCHANGE].respond(Response(ANSWER))
        return
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


def serve(arm: str) -> None:
    """Serves with one of ARMS until it is killed; the first line of stdout is the port."""
    options: dict[str, Any] = {
        "ws": "none", "lifespan": "off", "log_config": None, "access_log": False, "server_header": False,
        "timeout_keep_alive": 75,
    }  # fmt: skip
    config: uvicorn.Config
    if arm == UVICORN:
        config = uvicorn.Config(answer, http=HttpToolsProtocol, **options)
    else:
        config = server_config.ServerConfig(answer, http=connection.Protocol, **options)
        config.connections_max = 10_000
        config.waiting = server_config.WaitingConnections(config.connections_max)
        config.flush_queue = FlushQueue()
        config.keep_alive_timeouts = Timeouts()
        if arm == NO_TIMERS:
            config.keep_alive_timeouts = Timers()
        if arm == NO_BUFFER:
            setattr(connection, "WriteBuffer", lambda transport, _queue: transport)  # noqa: B010  not exported
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(config).run(sockets=[listening])


class Client(asyncio.Protocol):
    """Sends the next request when the answer to the one before is whole."""

    def __init__(self, budget: list[int], done: asyncio.Future[None]) -> None:
        self._budget = budget
        self._done = done
        self._seen = b""
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own is none by its type
        self.transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        self._seen += data
        if not self._seen.endswith(ANSWER):
            return
        self._seen = b""
        self._budget[0] -= 1
        if self._budget[0] > 0:
            self.transport.write(REQUEST)
        elif not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        if not self._done.done():
            self._done.set_exception(ConnectionError("the server has closed a connection"))


async def load(port: int, connections: int, requests: int) -> None:
    """So many requests over so many connections, each of which waits for its answer."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    budget = [requests]
    clients = [Client(budget, done) for _ in range(connections)]
    for client in clients:
        await loop.create_connection(partial(_same, client), "127.0.0.1", port)
    await done
    for client in clients:
        client.transport.abort()
        await client.lost.wait()


def _same(client: Client) -> Client:
    return client


def measure(arm: str, connections: int, requests: int) -> tuple[float, float]:
    """Microseconds of CPU for a request, and requests a second, after a tenth as many to warm up."""
    program = cores().program
    command = [sys.executable, "-m", "bench.connections", "--serve", arm]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            os.sched_setaffinity(server.pid, program)
            assert server.stdout is not None
            port = int(server.stdout.readline())
            uvloop.run(load(port, connections, max(requests // 10, connections)))
            measured = Program(server.pid)
            cpu_nanos, began_s = measured.cpu_nanos()[server.pid], time.perf_counter()
            uvloop.run(load(port, connections, requests))
            took_s = time.perf_counter() - began_s
            used_nanos = measured.cpu_nanos()[server.pid] - cpu_nanos
            return used_nanos / requests / 1000, requests / took_s
        finally:
            server.kill()


def compare(connections: int, requests: int, rounds: int) -> dict[str, tuple[float, float, float]]:
    """For each arm the medians of CPU microseconds and of requests a second, and the median of the ratio of
    its CPU time to that of the connection as it is in the same round."""
    found: dict[str, list[tuple[float, float]]] = {arm: [] for arm in ARMS}
    with pinned(cores().load):
        for number in range(rounds):
            for arm in ARMS[number % len(ARMS) :] + ARMS[: number % len(ARMS)]:
                found[arm].append(measure(arm, connections, requests))
    return {arm: _medians(found[arm], found[UNCHANGED]) for arm in ARMS}


def _medians(of: list[tuple[float, float]], base: list[tuple[float, float]]) -> tuple[float, float, float]:
    ratios = [one[0] / other[0] for one, other in zip(of, base, strict=True)]
    cpu, rate = (statistics.median(column) for column in zip(*of, strict=True))
    return cpu, rate, statistics.median(ratios)


async def wait_us(waits: Timeouts, open_waits: int = 32, repeated: int = 20_000) -> float:
    """Microseconds to add a wait and remove it again, beside others that stay."""
    until = time.monotonic() + 60
    for number in range(open_waits):
        waits.add(number, until, asyncio.Event().set)
    began_s = time.perf_counter()
    for number in range(repeated):
        waits.add(-1, until, asyncio.Event().set)
        waits.remove(-1)
        if number % 100 == 0:
            await asyncio.sleep(0)  # the loop drops what was cancelled
    took_s = time.perf_counter() - began_s
    for number in range(open_waits):
        waits.remove(number)
    return took_s / repeated * 1e6


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m bench.connections", description=__doc__)
    options.add_argument("--serve", choices=ARMS, help=argparse.SUPPRESS)
    options.add_argument("--connections", type=int, nargs="+", default=[1, 32])
    options.add_argument("--requests", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=9)
    chosen = options.parse_args()
    if chosen.serve:
        serve(chosen.serve)
        return
    print(f"{os.cpu_count()} cores, {chosen.rounds} rounds of {chosen.requests} requests")
    for kind in (Timeouts, Timers):
        least = min(uvloop.run(wait_us(kind())) for _ in range(chosen.rounds))
        print(f"a wait added and removed, {kind.__name__}: {least:.2f} us")
    for connections in chosen.connections:
        print(f"\n{connections} connections       CPU us/request   requests/s   CPU, as it is = 1")
        for arm, (cpu, rate, ratio) in compare(connections, chosen.requests, chosen.rounds).items():
            print(f"{arm:20} {cpu:17.1f} {rate:12,.0f} {ratio:19.3f}")


if __name__ == "__main__":
    main()
