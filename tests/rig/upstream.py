"""An upstream for chat and speech on a real socket, with all faults of an upstream.

It speaks the OpenAI protocol byte by byte. What it does with a request is its *fault*, in this order: the
last user message or the text to speak, if it starts with `fault=NAME` or `fault=NAME:ARGUMENT` (up to the
first space); else what `behave` set; else `echo`. The faults:

echo            answer with the last user message            tool-calls   answer with a tool call, no content
say:TEXT        answer with TEXT                             status:N     an error whose body has a secret
count           answer "一二三 abc": three Han characters    redirect     307 to a trap on the same socket
empty           content ""                                   hang         read the request, never answer
no-choices      choices []                                   block[:N]    echo, or status:N, after `release()`
not-chat        JSON that is no completion                   drip         the head, then a byte every 50 ms
broken          JSON that ends too early                     close        close without an answer
list            a JSON array                                 cut          close in the middle of the body
garbage         bytes that aren't HTTP                       oversized    200 MB of body, or until closed
tool:JSON       call the first tool, then say its output     long:N       answer with N times "x"
error:N,S BODY  the status N, with Retry-After: S and this body
vectors:N       embeddings of N numbers each
refuses:A,B     a 400 that names the first of these members that the request has; else echo

GET /v1/models is answered with a list, which says how many tokens `m` takes, and is not among `requests`,
unless a key is refused (401). POST /embeddings is answered with vectors, which `floats` never encodes.
POST /responses is answered with the text; `failed` is a response that has failed. With `withholds_usage` no
completion has a usage.

A request for a stream is answered as `answers.py` says. A text to speak that names no fault is answered
with an mp3, and the list of voices with 404. The faults above
with an answer in JSON are no sound; `noise` is invalid data with the type of an mp3.
"""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.rig import answers
from tests.rig.answers import Disconnected, EventStream
from tests.rig.samples import mp3
from tests.rig.waiting import wait_until

SECRET = "sk-upstream-secret-4f2a9c"
COUNTED_TEXT = "一二三 abc"
OVERSIZED_BYTES = 200_000_000
_CHUNK = b"x" * 65536
TOOL_CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
]


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it arrived. Header names are lower case; `json` is None if the body isn't JSON."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Upstream:
    """A running upstream. `requests` are all requests; `trapped` counts those that followed a redirect."""

    def __init__(self) -> None:
        self.key = SECRET
        self.model = "upstream-model"
        self.requests: list[ReceivedRequest] = []
        self.trapped = 0
        self.open_now = 0
        self.open_max = 0
        self.abandoned = 0
        self.withholds_usage = False
        self.streams: list[EventStream] = []
        self._fault = "echo"
        self._released = asyncio.Event()
        self._over = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._port = 0
        self._thread = threading.Thread(target=self._run, name="upstream", daemon=True)
        self._thread.start()
        wait_until(lambda: self._port != 0, 60, "the upstream listens")

    @property
    def url(self) -> str:
        """The base address, to which a client adds `/chat/completions`."""
        return f"http://127.0.0.1:{self._port}/v1"

    def as_chat(self) -> dict[str, str]:
        """The parameters of a service whose chat it is."""
        return {"chat_url": self.url, "chat_key": self.key, "chat_model": self.model}

    def behave(self, fault: str = "echo") -> None:
        """Sets the fault for requests whose last user message names none."""
        self._fault = fault

    def release(self) -> None:
        """Answer every blocked request, now and from now on, until `block_again`."""
        self._loop.call_soon_threadsafe(self._released.set)

    def block_again(self) -> None:
        self._loop.call_soon_threadsafe(self._released.clear)

    def forget(self) -> None:
        """Reset to the initial state: no requests recorded, echoing, holding."""
        self.requests.clear()
        self.trapped = self.abandoned = 0
        self.open_max = self.open_now
        self.withholds_usage = False
        self.streams.clear()
        self.behave()
        self.block_again()

    def wait_for_requests(self, count: int, deadline_s: float = 60) -> None:
        wait_until(lambda: len(self.requests) >= count, deadline_s, f"{count} requests upstream")

    def close(self) -> None:
        """Stop listening and close all connections. Idempotent."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=1 << 24, backlog=1024)
        self._port = server.sockets[0].getsockname()[1]
        await self._over.wait()
        server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_now += 1
        self.open_max = max(self.open_max, self.open_now)
        try:
            while (seen := await _read(reader)) is not None and await self._answer(seen, reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            self.abandoned += 1
        finally:
            self.open_now -= 1
            writer.close()

    async def _answer(
        self, seen: ReceivedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Do what the request's fault says; true if the connection may be used again."""
        if seen.path.endswith("/trap"):
            self.trapped += 1
        fault, _, argument = _fault_of(seen, self._fault).partition(":")
        if (
            seen.method == "GET"
            and seen.path.endswith("/models")
            and self._fault not in ("status:401", "close")
        ):
            listed = {"object": "list", "data": [{"id": self.model}, {"id": "m", "max_model_len": 4096}]}
            writer.write(_http(200 if seen.path == "/v1/models" else 404, json.dumps(listed).encode()))
            return True
        self.requests.append(seen)
        if fault in ("hang", "drip"):
            await self._stall(fault, reader, writer)
            return False
        if fault == "block":
            await self._released.wait()
            fault = "status" if argument else "echo"
        if fault == "refuses":
            refused = [name for name in argument.split(",") if f'"{name}":'.encode() in seen.body]
            message = f"Unrecognized request argument supplied: {refused[0]}" if refused else ""
            fault, argument = (
                ("error", "400,0 " + json.dumps({"error": {"message": message}})) if refused else ("echo", "")
            )
        if fault == "oversized":
            await _pour(writer)
            return False
        is_response = seen.path.endswith("/responses")
        streamed = answers.OF_RESPONSES if is_response else answers.FAULTS
        if fault in streamed and seen.body and seen.json.get("stream"):
            return await self._stream(fault, argument, seen, reader, writer)
        writer.write(_bytes_of(fault, argument, seen, usage=not self.withholds_usage))
        await writer.drain()
        return fault not in ("close", "cut", "garbage")

    async def _stream(
        self,
        fault: str,
        argument: str,
        seen: ReceivedRequest,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Sends a streamed answer; true if the connection may be used again."""
        disconnected = asyncio.ensure_future(reader.read(1))
        given = not self.withholds_usage
        stream = EventStream(
            writer, self._released, disconnected, lambda: _body_of(fault, argument, seen, usage=given)
        )
        self.streams.append(stream)
        usage = given and bool((seen.json.get("stream_options") or {}).get("include_usage"))
        model, text = seen.json.get("model", ""), argument if fault == "say" else _last_user_text(seen)
        if seen.path.endswith("/responses"):
            status = "failed" if fault == "failed-later" else "completed"
            stream.response = answers.response_events(seen.json, text, status)
        try:
            reusable = await stream.send(fault, argument, model, text, usage=usage)
            return reusable and not disconnected.done()
        except (Disconnected, ConnectionError):
            self.abandoned += 1
            return False
        finally:
            disconnected.cancel()
            await asyncio.wait([disconnected])  # else the next request is read while this read still waits

    async def _stall(self, fault: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep the connection until the other side closes it, sending nothing or one byte at a time."""
        if fault == "drip":
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
            )
        disconnected = asyncio.ensure_future(reader.read(1))
        while not disconnected.done():
            await asyncio.wait([disconnected], timeout=0.05)
            if fault == "drip":
                writer.write(b" ")
                await writer.drain()
        self.abandoned += 1


async def _pour(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
    writer.write(b'Content-Length: %d\r\n\r\n{"id":"' % OVERSIZED_BYTES)
    for _ in range(OVERSIZED_BYTES // len(_CHUNK)):
        writer.write(_CHUNK)
        await writer.drain()


async def _read(reader: asyncio.StreamReader) -> ReceivedRequest | None:
    """One request, or None where the client is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ")
    fields = (line.partition(":") for line in lines[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in fields}
    if headers.get("transfer-encoding") == "chunked":
        return ReceivedRequest(method=method, path=path, headers=headers, body=await _chunks(reader))
    return ReceivedRequest(
        method=method,
        path=path,
        headers=headers,
        body=await reader.readexactly(int(headers.get("content-length", "0"))),
    )


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readline()
    return body


def _fault_of(seen: ReceivedRequest, default: str) -> str:
    text = _last_user_text(seen)
    return text.removeprefix("fault=").split(" ")[0] if text.startswith("fault=") else default


def _last_user_text(seen: ReceivedRequest) -> str:
    if not seen.body:
        return ""
    for name in ("input", "prompt"):
        if name in seen.json:
            return str(seen.json[name])
    contents = [m.get("content") for m in seen.json.get("messages", []) if m.get("role") == "user"]
    content = contents[-1] if contents else ""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _bytes_of(fault: str, argument: str, seen: ReceivedRequest, *, usage: bool) -> bytes:
    """The whole answer of a fault that needs no waiting, possibly not HTTP at all."""
    if fault == "close":
        return b""
    if fault == "garbage":
        return b"\x00\xff\xfe this is not HTTP \r\n\r\n" + bytes(range(256))
    if fault == "cut":
        return b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"id": "cut'
    if fault == "redirect":
        return b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /trap\r\nContent-Length: 0\r\n\r\n"
    if fault == "status":
        error = {"error": {"message": f"no: {SECRET} at /srv/upstream.py", "type": "x", "code": argument}}
        return _http(int(argument), json.dumps(error).encode())
    if fault == "error":
        numbers, _, body = argument.partition(" ")
        status, _, wait = numbers.partition(",")
        return _http(int(status), body.encode(), retry_after=wait)
    if fault == "tool":
        return _http(200, *answers.tool_answer(seen.json, argument))
    if seen.path.endswith("/responses") and fault in ("echo", "say", "failed", "long"):
        text, status = argument or _last_user_text(seen), "failed" if fault == "failed" else "completed"
        text = "x" * int(argument) if argument and fault == "long" else text
        return _http(200, *answers.response_answer(seen.json, text, status))
    if seen.path.partition("?")[0].endswith("/voices"):
        return _http(404, b"{}")
    if seen.path.endswith("/audio/speech") and fault in _SOUNDS:
        return _http(200, _SOUNDS[fault](), "audio/mpeg")
    return _http(200, _body_of(fault, argument, seen, usage=usage))


def _body_of(fault: str, argument: str, seen: ReceivedRequest, *, usage: bool) -> bytes:
    request = seen.json if seen.body else {}
    if fault in ("echo", "floats", "vectors") and seen.path.endswith("/embeddings"):
        encoding = {} if fault == "echo" else {"encoding_format": "float"}
        return json.dumps(answers.embeddings(request | encoding, int(argument or 0))).encode()
    completion = partial(answers.completion, request, usage=usage)
    if fault == "no-choices":
        return json.dumps(completion("") | {"choices": []}).encode()
    if fault == "whole" and argument:
        return json.dumps(completion("x" * int(argument)), indent=1).encode()
    if fault == "broken":
        return json.dumps(completion("broken")).encode()[:-20]
    if fault == "tool-calls":
        answer = completion(None, "tool_calls")
        answer["choices"][0]["message"]["tool_calls"] = TOOL_CALLS
        return json.dumps(answer).encode()
    if fault in ("list", "not-chat"):
        return b"[]" if fault == "list" else b'{"hello": "world"}'
    said: dict[str, Any] = {
        "say": argument,
        "long": "x" * int(argument) if fault == "long" else "",
        "count": COUNTED_TEXT,
        "empty": "",
    }
    return json.dumps(completion(said.get(fault, _last_user_text(seen)))).encode()


_SOUNDS: dict[str, Callable[[], bytes]] = {
    "echo": partial(mp3, 0.5, 16_000),
    "noise": lambda: b"this is no mp3 " * 100,
}


def _http(status: int, body: bytes, media_type: str = "application/json", *, retry_after: str = "0") -> bytes:
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Type: {media_type}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Retry-After: %b\r\n\r\n" % retry_after.encode() + body


@pytest.fixture(scope="session")
def session_upstream() -> Iterator[Upstream]:
    """One upstream for services that live longer than a test."""
    with closing(Upstream()) as running:
        yield running


@pytest.fixture
def chat_upstream(session_upstream: Upstream) -> Upstream:
    """The upstream of the services that share it, reset: it echoes and has recorded no requests."""
    session_upstream.forget()
    return session_upstream


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """An upstream of this test."""
    with closing(Upstream()) as running:
        yield running
