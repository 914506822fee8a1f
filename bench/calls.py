"""How many Python functions the event loop calls for one request, and how many bytecode instructions they
execute: `python -m bench calls`.

The server counts each call of a function and each step of a coroutine in the thread of its event loop, those
of libraries included, and answers at COUNTED_PATH what it has counted. Times depend on the load of the
machine; these counts don't. `python -m bench.calls` is the server.
"""

import http.client
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec

from bench import contenders
from bench.contenders import ROOT, Setup
from bench.load import CHAT_BODY, CHAT_PATH, KEY_FORMAT
from bench.speech import TTS
from myna import settings
from myna.channels.channels import PARROT
from myna.http import server
from myna.http.asgi import Routes
from myna.http.request import Request
from myna.http.responses import Response
from myna.server import app
from myna.server.service import Service

COUNTED_PATH = "/v1/counted"
WARM, ROUNDS = 30, 31
HEADERS = ("Host: myna", f"Authorization: Bearer {KEY_FORMAT % 1}", "Content-Type: application/json")
_STREAM = msgspec.json.encode(msgspec.json.decode(CHAT_BODY) | {"model": "svc-chat", "stream": True}).decode()
REQUESTS = {
    "/v1 chat": (CHAT_PATH, CHAT_BODY),
    "/openai/v1 chat": ("/openai" + CHAT_PATH, CHAT_BODY),
    "streamed chat": ("/openai" + CHAT_PATH, _STREAM),
    "POST /tts": (TTS.path, TTS.body),
}
"""A request that is counted: its path and body."""

Found = dict[str, tuple[int, int]]
"""Calls and instructions by function."""


class Counts(msgspec.Struct, frozen=True):
    """Of one request, in the round with the fewest instructions, which has no periodic work: all calls, all
    instructions, and the calls by function."""

    calls: int
    instructions: int
    functions: dict[str, int]


class Counted(Service):
    """A service that counts the calls of the thread that runs it."""

    def routes(self) -> Routes:
        calls: Counter[CodeType] = Counter()
        instructions: Counter[CodeType] = Counter()

        def on_call(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            calls[frame.f_code] += 1
            return on_event

        def on_event(frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
            instructions[frame.f_code] += event == "opcode"
            return on_event

        async def answer(_: Request) -> Response:
            sys.settrace(None)
            counted = {_name(code): (calls[code], instructions[code]) for code in calls}
            calls.clear()
            instructions.clear()
            sys.settrace(on_call)
            return Response(msgspec.json.encode(counted))

        return {**super().routes(), COUNTED_PATH: {"GET": answer}}


def measure(folder: Path) -> dict[str, Counts]:
    """The counts of each of REQUESTS, on a service with espeak and the built-in parrot, which answers
    without a connection."""
    with _running(folder) as connection:
        return {name: _count(connection, *request) for name, request in REQUESTS.items()}


def table(found: dict[str, Counts], *, functions: bool = False) -> str:
    """The counts as text, with the most called functions of each request if these are wanted."""
    lines = []
    for name, counts in found.items():
        lines.append(f"{counts.calls:6} calls, {counts.instructions:6} instructions  {name}")
        most = sorted(counts.functions.items(), key=lambda one: -one[1])
        lines += [f"{count:14}  {function}" for function, count in most if functions]
    return "\n".join(lines)


@contextmanager
def _running(folder: Path) -> Iterator[socket.socket]:
    answering = {"MYNA_CHAT_URL": PARROT, "MYNA_SPEECH": "espeak"}
    setup = Setup(folder, "", None)
    with (
        contenders.myna("counted", setup, TTS, module="bench.calls", settings=answering) as target,
        closing(socket.create_connection(("127.0.0.1", target.port))) as connection,
    ):
        yield connection


def _count(connection: socket.socket, path: str, body: str) -> Counts:
    def ask(method: str, path: str, body: str = "") -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Content-Length: {len(body.encode())}", *HEADERS, "", body]
        connection.sendall("\r\n".join(lines).encode())  # at once, as most clients do
        response = http.client.HTTPResponse(connection)
        response.begin()
        answer = response.read()
        if response.status != 200:
            raise AssertionError(f"{path}: {response.status} {answer[:300]!r}")
        return answer

    def counted(work: Callable[[], object]) -> Found:
        ask("GET", COUNTED_PATH)
        work()
        return msgspec.json.decode(ask("GET", COUNTED_PATH), type=Found)

    for _ in range(WARM):
        ask("POST", path, body)
    rounds = [counted(lambda: ask("POST", path, body)) for _ in range(ROUNDS)]
    alone = [counted(lambda: None) for _ in range(ROUNDS)]
    found, own = (min(many, key=lambda one: _sums(one)[1]) for many in (rounds, alone))
    calls, instructions = (sum_of - own_sum for sum_of, own_sum in zip(_sums(found), _sums(own), strict=True))
    functions = Counter({name: calls for name, (calls, _) in found.items()})
    functions.subtract({name: calls for name, (calls, _) in own.items()})
    return Counts(calls, instructions, +functions)


def _sums(found: Found) -> tuple[int, int]:
    """All calls and all instructions."""
    return sum(calls for calls, _ in found.values()), sum(count for _, count in found.values())


def _name(code: CodeType) -> str:
    path = Path(code.co_filename)
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else Path(*path.parts[-2:])
    return f"{shown}:{code.co_firstlineno} {code.co_qualname}"


if __name__ == "__main__":
    found, _ = settings.load(os.environ)
    server.run(app.create(found, os.environ, Counted), found)
