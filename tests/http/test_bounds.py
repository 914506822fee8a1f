"""One request blocks the event loop for at most 50 ms with any content.

The tables list the functions that read a caller's bytes on the event loop, each with inputs that were slow or
might be. A time is judged in two ways, neither of which depends on the machine: against a reference that
is measured in the same run, and against the time for a quarter of the input.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from uvicorn.server import ServerState

from myna.accounts import keys
from myna.api.v1 import read_integer
from myna.channels.channels import Channel
from myna.engines.openai.api import cut
from myna.errors import InvalidRequest
from myna.gateway.failover import FailedAttempt
from myna.gateway.intent import speech_text
from myna.gateway.relay.plan import read
from myna.gateway.relay.v1 import TOOL_CALLS_MAX_BYTES, V1_CHAT, first_choice
from myna.http import server
from myna.http.asgi import Application
from myna.http.connection import Protocol
from myna.http.request import BodyBudget, BodyLimits, Request
from myna.http.request_head import Receive, Scope, Send
from myna.http.responses import public_error
from myna.http.server_config import WaitingConnections
from myna.lib.telemetry import logs
from myna.lib.telemetry.access_log import AccessLog
from myna.settings import Settings
from myna.speech.plan import check_text, read_speed
from myna.speech.synthesize import draft
from myna.wire import farm, v1
from myna.wire.body import decode
from myna.wire.completions import han_count
from tests.http.cpu_time import Reader, cpu_s, judge, reference

BODY_BYTES = 2**20
HEAD_BYTES = 64 * 1024
READ_BYTES = 256 * 1024
"""What the event loop reads from a socket at once, at most."""
TEXT_CHARS = 100_000
"""The highest `tts_max_chars`."""
Inputs = dict[str, Callable[[int], Any]]
"""By their name: makes an input of a size."""


def chat_body(content: str) -> bytes:
    body = {"model": "svc-chat", "messages": [{"role": "user", "content": content}]}
    return json.dumps(body, ensure_ascii=False).encode()


def chat(body: bytes) -> None:
    """The work on a chat request before its charge."""
    speech_text(read(V1_CHAT, body).instruction)


def request(headers: list[tuple[bytes, bytes]], query: bytes = b"") -> Request:
    connection: Any = None  # nothing is received or sent
    return Request(connection, "GET", b"/v1/task?" + query, headers)


def filled(piece: str, before: str = "", after: str = "") -> Callable[[int], str]:
    """A text of this size in UTF-8."""
    return lambda size: before + piece * (size // len(piece.encode())) + after


def json_filled(piece: bytes, before: bytes, after: bytes) -> Callable[[int], bytes]:
    return lambda size: before + piece * (size // len(piece)) + after


def nested(size: int) -> str:
    pairs = size // 8
    return "朗读🙂" + "「 " * pairs + " 」" * pairs


INSTRUCTIONS = {
    "nested quotes": nested,
    "apostrophes beside letters": filled("a' ", "朗读"),
    "quotes that open": filled("「", "朗读"),
    "quotes of all kinds": filled("“「『‘", "朗读"),
    "letters behind a colon": filled("a", "朗读："),
    "polite words in front": filled("please ", "", "请把朗读"),
    "a product": filled("please ", "", "的朗读"),
    "wishes": filled("用a", "", "朗读"),
    "spaces in front": filled(" ", "", "朗读"),
}
BODIES = {
    "nothing but spaces": lambda size: b" " * size,
    "NaN at the end": json_filled(b"1,", b'{"a":[', b"NaN]}"),
    "half a surrogate pair at the end": json_filled(b'"a",', b'{"a":[', rb'"\ud800"]}'),
    "no UTF-8 at the end": json_filled(b"a", b'{"a":"', b'\xff"}'),
    "empty objects": json_filled(b"{},", b'{"a":[', b"{}]}"),
    "as many objects as may be": lambda size: (
        b'{"a":["%b"%b]}' % (b"x" * size, b",{}" * (size * 48_000 // BODY_BYTES))
    ),
    "deep arrays": json_filled(b"[" * 400 + b"]" * 400 + b",", b'{"a":[', b"NaN]}"),
    "bottomless arrays": json_filled(b"[", b'{"a":', b""),
    "brackets in strings": json_filled(b'"[",', b'{"a":[', b"[]]}"),
    "a duplicate name at the end": json_filled(b"1,", b'{"b":[', b'0],"a":1,"a":1}'),
    "backslashes": json_filled(b"\\\\", b'{"a":"', b'"}'),
    "a long number": json_filled(b"9", b'{"a":', b"}"),
    "many long numbers": json_filled(b"9" * 399 + b",", b'{"a":[', b"NaN]}"),
    "many names": lambda size: b"{%b}" % b",".join(b'"%x":0' % number for number in range(size // 12)),
    "a long wrong model": json_filled(b"a", b'{"messages":[],"model":"', b'"}'),
    "a model like our own words": json_filled(b" - at `$", b'{"messages":[],"model":"', b'"}'),
    "many parts": lambda size: (
        b'{"model":"svc-chat","messages":[{"role":"user","content":[%b{}]}]}'
        % (b'{"type":"text","text":"x"},' * (size // 28))
    ),
}  # fmt: skip
QUERIES = {
    "pairs": lambda size: b"&".join(b"%x=" % number for number in range(size // 6)),
    "one name": lambda size: b"a&" * (size // 2),
    "no UTF-8": lambda size: b"a=" + b"%ff" * (size // 3),
}
TEXTS = {piece: filled(piece) for piece in ("٣", "Ⓐ", "＋", "ﷺ", "。", " ")}
FEW = {name: BODIES[name] for name in ("NaN at the end", "a duplicate name at the end", "many names")}
READERS: dict[str, tuple[Reader, Inputs, int]] = {
    "chat": (
        chat,
        {name: lambda size, text=text: chat_body(text(size)) for name, text in INSTRUCTIONS.items()},
        BODY_BYTES,
    ),
    "chat body": (chat, BODIES, BODY_BYTES),
    "speech body": (lambda body: decode(body, v1.SpeechRequest), FEW, BODY_BYTES),
    "lease of a node": (lambda body: decode(body, farm.Lease), FEW, BODY_BYTES),
    "heartbeats of a node": (lambda body: decode(body, farm.Heartbeats), FEW, BODY_BYTES),
    "usage": (han_count, {piece: filled(piece) for piece in ("中", "中a", "é", "𠀀")}, BODY_BYTES),
    "text to speak": (lambda text: check_text(text, TEXT_CHARS), TEXTS, TEXT_CHARS),
    "text for a speech server": (cut, {piece: filled(piece) for piece in (".", "，", "a.b ")}, TEXT_CHARS),
    "stored draft": (lambda text: draft(lambda *_: text), {"9": filled("9")}, BODY_BYTES),
    "speed": (read_speed, {"1": filled("1")}, BODY_BYTES),
    "query": (lambda query: request([], query).query(), QUERIES, HEAD_BYTES - 1024),
    "integer": (lambda text: read_integer("id", text), {"9": filled("9")}, HEAD_BYTES),
    "one header often": (
        lambda count: request([(b"a", b"")] * count).header(b"a"),
        {"a": lambda size: size // 4},
        HEAD_BYTES,
    ),
    "key": (keys.hash_in, {" ": b"Bearer".ljust}, HEAD_BYTES),
    "logged": (logs.masked, {piece: filled(piece) for piece in ("myna_", "://a ", "a@")}, HEAD_BYTES),
    "unhandled": (lambda text: public_error(InvalidRequest(text)), {"x": filled("x")}, HEAD_BYTES),
}  # fmt: skip


@pytest.fixture(scope="module")
def reference_s() -> float:
    return cpu_s(reference, None)


@pytest.mark.parametrize("name", READERS)
def test_the_largest_input_blocks_the_event_loop_only_briefly(name: str, reference_s: float) -> None:
    reader, inputs, size = READERS[name]
    for kind, make in inputs.items():
        judge(kind, reader, make(size), make(size // 4), reference_s)


TOOL_CALLS = b'{"choices":[{"message":{"tool_calls":[{"a":'
CONTENT = b'{"choices":[{"message":{"content":"'
MESSAGE = b'{"message":{"content":"x"}}'
COMPLETIONS = {
    "arrays in tool calls": json_filled(b"[],", TOOL_CALLS + b"[", b"[]]}]}}]}"),
    "numbers in tool calls": json_filled(b"1,", TOOL_CALLS + b"[", b"1]}]}}]}"),
    "names in tool calls": lambda size: (
        TOOL_CALLS + b"{%b}}]}}]}" % b",".join(b'"%x":0' % number for number in range(size // 10))
    ),
    "choices": json_filled(MESSAGE + b",", b'{"choices":[', MESSAGE + b"]}"),
    "other fields": json_filled(b"{},", b'{"choices":[' + MESSAGE + b'],"a":[', b"{}]}"),
    "a duplicate name": json_filled(b'"choices":[{"message":{}}],', b"{", b'"choices":[' + MESSAGE + b"]}"),
    "escapes": json_filled(rb"\u4e00", CONTENT, b'"}}]}'),
    "nothing but spaces": lambda size: b" " * size,
}


@pytest.mark.parametrize("size", [TOOL_CALLS_MAX_BYTES - 100, Settings().answer_max_bytes])
def test_the_largest_completion_blocks_the_event_loop_only_briefly(size: int, reference_s: float) -> None:
    channel = Channel(kind="chat", name="a", url="http://h/v1", model="", key="")

    def completion(body: bytes) -> None:
        with contextlib.suppress(FailedAttempt):
            first_choice(body, channel)

    for kind, make in COMPLETIONS.items():
        judge(kind, completion, make(size), make(size // 4), reference_s)


POST = b"POST /v1/tts HTTP/1.1\r\nHost: x\r\n"
UPGRADE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
READS = {
    "tiny chunks": lambda size: POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * (size // 6),
    "chunk extensions": lambda size: (
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1;a=b;c\r\nx\r\n" * (size // 12)
    ),
    "many headers": lambda size: POST + b"a:\r\n" * (size // 4),
    "a whole head of many headers": lambda size: POST + b"a:\r\n" * (size // 17) + b"\r\n",
    "one long header": lambda size: POST + b"a: " + b"x" * size,
    "a long path": lambda size: b"GET /" + b"%41/" * (size // 17) + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "requests in a row": lambda size: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * (size // 27),
    "blank lines": lambda size: b"\r\n" * (size // 2),
    "offers of another protocol": lambda size: (UPGRADE + b"a:b\r\n" * (size // 170) + b"\r\n") * 31,
    "trailers": lambda size: POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a:\r\n" * (size // 4),
}


class Sink(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False
        self.written = b""

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, lines: Iterable[Any]) -> None:
        self.written += b"".join(lines)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        """There is nothing to read."""

    def resume_reading(self) -> None:
        """Likewise."""

    def get_write_buffer_size(self) -> int:
        return 0


async def _silent(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that never answers."""
    await asyncio.Event().wait()


_limits = BodyLimits(1, 1.0, BodyBudget(1))
_config = server.configure(Application({}, _silent, _limits, AccessLog(len)), Settings())
_config.waiting = WaitingConnections(_config.connections_max, None)


@contextlib.contextmanager
def connected(transport: Sink) -> Iterator[Protocol]:
    """A connection over this transport, to an application that never answers; it is lost at the end."""
    if not _config.loaded:
        _config.load()
    state = ServerState()
    protocol = Protocol(_config, state, {})
    protocol.connection_made(transport)
    try:
        yield protocol
    finally:
        transport.abort()
        for task in state.tasks:
            task.cancel()
        protocol.connection_lost(None)


async def test_one_read_from_a_client_blocks_the_event_loop_only_briefly(reference_s: float) -> None:
    def read(data: bytes) -> None:
        with connected(Sink()) as protocol:
            protocol.data_received(data)

    for name, make in READS.items():
        judge(name, read, make(READ_BYTES), make(READ_BYTES // 4), reference_s)
        await asyncio.sleep(0)
