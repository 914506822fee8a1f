"""One request blocks the event loop for at most 50 ms with any content.

The table lists every function that reads a caller's bytes on the event loop, each with inputs that were slow
or might be. A time is judged in two ways, neither of which depends on the machine: against a reference that
is measured in the same run, and against the time for a quarter of the input.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from starlette.datastructures import Headers
from uvicorn.server import ServerState

from myna import keys
from myna.api import auth, speech, uploads
from myna.channels import Channel
from myna.chat import upstream
from myna.chat.complete import instruction_of
from myna.chat.failover import FailedAttempt
from myna.chat.han import han_count
from myna.chat.intent import speech_text
from myna.engines.openai.text import cut
from myna.errors import InvalidRequest
from myna.http import server
from myna.http.asgi import Request
from myna.http.asgi_types import Receive, Scope, Send
from myna.http.body_limits import BodyBudget, BodyLimits
from myna.http.connection import Protocol
from myna.http.responses import public_error
from myna.http_client import ClientResponse, HttpClient
from myna.http_client.connection import ClientConnection
from myna.http_client.errors import AnswerTooLarge
from myna.settings import Settings
from myna.speech.draft import draft
from myna.speech.plan import check_text, read_speed
from myna.telemetry import logs
from myna.wire import farm, v1
from myna.wire.body import decode
from tests.http.cpu_time import BLOCKED_MAX, MEASURED_MAX, Reader, cpu_s, judge, reference

BODY_BYTES = 2**20
HEAD_BYTES = 64 * 1024
READ_BYTES = 256 * 1024
"""What the event loop reads from a socket at once, at most."""
ANSWER_BYTES = 2**21
TEXT_CHARS = 100_000
"""The highest `tts_max_chars`."""
Case = tuple[Reader, Callable[[int], Any], int]


def chat_body(content: str) -> bytes:
    body = {"model": "svc-chat", "messages": [{"role": "user", "content": content}]}
    return json.dumps(body, ensure_ascii=False).encode()


def chat(body: bytes) -> None:
    """The work on a chat request before its charge."""
    request = decode(body, v1.ChatRequest)[1]
    speech_text(instruction_of(request.messages))


def request(headers: list[tuple[bytes, bytes]], query: bytes = b"") -> Request:
    scope = {"headers": headers, "query_string": query, "path": "/v1/task"}
    return Request(scope, None, BodyLimits(1, 1.0, BodyBudget(1)))  # type: ignore[arg-type]  # nothing is received


def conditional(fields: dict[str, str]) -> None:
    headers = Headers(fields)
    uploads._not_modified(headers, '"name"', 1.0)
    uploads._byte_range(headers, {"ETag": "x", "Last-Modified": "y"}, 10)


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
    "apostrophes": filled("'", "朗读"),
    "apostrophes beside letters": filled("a' ", "朗读"),
    "quotes that open": filled("「", "朗读"),
    "quotes of all kinds": filled("“「『‘", "朗读"),
    "blank quotes": filled("“ ”", "朗读"),
    "quotes behind a colon": filled("「」", "朗读："),
    "letters behind a colon": filled("a", "朗读："),
    "keywords": filled("朗读"),
    "parts of keywords": filled("转成语"),
    "polite words": filled("麻烦您", "", "进行配音"),
    "polite words in front": filled("please ", "", "请把朗读"),
    "a product": filled("please ", "", "的朗读"),
    "wishes": filled("用a", "", "朗读"),
    "marks": filled("，", "", "朗读，"),
    "spaces behind": filled(" ", "朗读"),
    "spaces in front": filled(" ", "", "朗读"),
}
BODIES = {
    "nothing but spaces": lambda size: b" " * size,
    "NaN at the end": json_filled(b"1,", b'{"a":[', b"NaN]}"),
    "half a surrogate pair at the end": json_filled(b'"a",', b'{"a":[', rb'"\ud800"]}'),
    "no end": json_filled(b"1,", b'{"a":[', b""),
    "no UTF-8 at the end": json_filled(b"a", b'{"a":"', b'\xff"}'),
    "empty objects": json_filled(b"{},", b'{"a":[', b"{}]}"),
    "empty arrays": json_filled(b"[],", b'{"a":[', b"[]]}"),
    "as many objects as may be": lambda size: (
        b'{"a":["%b"%b]}' % (b"x" * size, b",{}" * (size * 48_000 // BODY_BYTES))
    ),
    "deep arrays": json_filled(b"[" * 400 + b"]" * 400 + b",", b'{"a":[', b"NaN]}"),
    "bottomless arrays": json_filled(b"[", b'{"a":', b""),
    "brackets in strings": json_filled(b'"[",', b'{"a":[', b"[]]}"),
    "numbers that are written otherwise": json_filled(b"1e9,", b'{"a":[', b"0]}"),
    "a duplicate name at the end": json_filled(b"1,", b'{"b":[', b'0],"a":1,"a":1}'),
    "escaped colons": json_filled(rb"\u003a", b'{"a":"', b'"}'),
    "backslashes": json_filled(b"\\\\", b'{"a":"', b'"}'),
    "a long number": json_filled(b"9", b'{"a":', b"}"),
    "many long numbers": json_filled(b"9" * 399 + b",", b'{"a":[', b"NaN]}"),
    "many names": lambda size: b"{%b}" % b",".join(b'"%x":0' % number for number in range(size // 12)),
    "a long wrong model": json_filled(b"a", b'{"messages":[],"model":"', b'"}'),
    "a model like our own words": json_filled(b" - at `$", b'{"messages":[],"model":"', b'"}'),
    "a long array as the model": json_filled(b"1,", b'{"messages":[],"model":[', b'1]}'),
    "a message that is none": json_filled(b"1,", b'{"model":"svc-chat","messages":[', b"1]}"),
    "many parts": lambda size: (
        b'{"model":"svc-chat","messages":[{"role":"user","content":[%b{}]}]}'
        % (b'{"type":"text","text":"x"},' * (size // 28))
    ),
}  # fmt: skip
QUERIES = {
    "pairs": lambda size: b"&".join(b"%x=" % number for number in range(size // 6)),
    "one name": lambda size: b"a&" * (size // 2),
    "escapes": lambda size: b"a=" + b"%41" * (size // 3),
    "no UTF-8": lambda size: b"a=" + b"%ff" * (size // 3),
    "separators": lambda size: b"&" * size,
}
HEADS = {
    "if-none-match": ('"', "W/", '",'),
    "if-modified-since": ("1 ", "Mon, ", "9", ":", "-", "("),
    "range": (" ", "1", "-", ","),
}


def cases() -> dict[str, Case]:
    """Every reader of a caller's bytes, with its largest input."""
    found: dict[str, Case] = {}
    for name, text in INSTRUCTIONS.items():
        found[f"chat: {name}"] = (chat, lambda size, text=text: chat_body(text(size)), BODY_BYTES)
    for name, body in BODIES.items():
        found[f"chat body: {name}"] = (chat, body, BODY_BYTES)
    for shape in (v1.SpeechRequest, farm.Hello, farm.Lease, farm.Heartbeats, farm.Failure):
        for name in ("NaN at the end", "a duplicate name at the end", "many names"):
            reader: Reader = lambda body, shape=shape: decode(body, shape)  # noqa: E731
            found[f"{shape.__name__}: {name}"] = (reader, BODIES[name], BODY_BYTES)
    for piece in ("中", "中a", "中。", "あ", "é", "𠀀"):
        found[f"usage: {piece}"] = (han_count, filled(piece), BODY_BYTES)
    for piece in ("٣", "①", "Ⓐ", "＋", "ﷺ", "。", " "):
        found[f"text: {piece}"] = (
            lambda text: check_text(text, TEXT_CHARS),
            lambda size, piece=piece: piece * size,
            TEXT_CHARS,
        )
    for piece in (".", "。", "，", " ", ".)", "a.b "):
        found[f"text for a speech server: {piece}"] = (cut, filled(piece), TEXT_CHARS)
    found["stored draft"] = (lambda text: draft(lambda *_: text), filled("9"), BODY_BYTES)
    found["speed"] = (read_speed, filled("1"), BODY_BYTES)
    for name, query in QUERIES.items():
        found[f"query: {name}"] = (lambda query: request([], query).query(), query, HEAD_BYTES)
    found["integer"] = (lambda text: speech.read_integer("id", text), filled("9"), HEAD_BYTES)
    found["one header often"] = (
        lambda count: request([(b"a", b"")] * count).header(b"a"),
        lambda size: size // 4,
        HEAD_BYTES,
    )
    found["key"] = (lambda key: keys.unverified(key, keys.Scope.CHAT), b"Bearer".ljust, HEAD_BYTES)
    found["idempotency key"] = (
        lambda body: auth._idempotency_key(request([(b"idempotency-key", b"a")]), body),
        lambda size: b"x" * size,
        BODY_BYTES,
    )
    for header, pieces in HEADS.items():
        for piece in pieces:
            found[f"{header}: {piece}"] = (
                lambda value, header=header: conditional({header: "bytes=" * (header == "range") + value}),
                filled(piece),
                HEAD_BYTES,
            )
    for piece in ("myna_", "://", "://a ", "a@"):
        found[f"logged: {piece}"] = (logs.masked, filled(piece), HEAD_BYTES)
    found["unhandled"] = (lambda text: public_error(InvalidRequest(text)), filled("x"), HEAD_BYTES)
    return found


TOOL_CALLS = b'{"choices":[{"message":{"tool_calls":[{"a":'
CONTENT = b'{"choices":[{"message":{"content":"'
MESSAGE = b'{"message":{"content":"x"}}'
COMPLETIONS = {
    "tool calls": json_filled(b"{},", TOOL_CALLS + b"[", b"{}]}]}}]}"),
    "arrays in tool calls": json_filled(b"[],", TOOL_CALLS + b"[", b"[]]}]}}]}"),
    "deep arrays in tool calls": json_filled(b"[" * 400 + b"]" * 400 + b",", TOOL_CALLS + b"[", b"[]]}]}}]}"),
    "numbers in tool calls": json_filled(b"1,", TOOL_CALLS + b"[", b"1]}]}}]}"),
    "strings in tool calls": json_filled(b'"ab",', TOOL_CALLS + b"[", b"1]}]}}]}"),
    "names in tool calls": lambda size: (
        TOOL_CALLS + b"{%b}}]}}]}" % b",".join(b'"%x":0' % number for number in range(size // 10))
    ),
    "choices": json_filled(MESSAGE + b",", b'{"choices":[', MESSAGE + b"]}"),
    "other fields": json_filled(b"{},", b'{"choices":[' + MESSAGE + b'],"a":[', b"{}]}"),
    "a duplicate name": json_filled(b'"choices":[{"message":{}}],', b"{", b'"choices":[' + MESSAGE + b"]}"),
    "escapes": json_filled(rb"\u4e00", CONTENT, b'"}}]}'),
    "backslashes": json_filled(rb"\\", CONTENT, b'"}}]}'),
    "no UTF-8 at the end": json_filled(b"a", CONTENT, b'\xff"}}]}'),
    "nothing but spaces": lambda size: b" " * size,
}


def completion(body: bytes) -> None:
    with contextlib.suppress(FailedAttempt):
        upstream._read(
            ClientResponse(200, (), body), Channel(kind="chat", name="a", url="http://h/v1", model="", key="")
        )


@pytest.mark.parametrize("name", COMPLETIONS)
@pytest.mark.parametrize("size", [upstream.TOOL_CALLS_MAX_BYTES - 100, Settings().answer_max_bytes])
def test_the_largest_completion_blocks_the_event_loop_only_briefly(
    name: str, size: int, reference_s: float
) -> None:
    make = COMPLETIONS[name]
    judge(completion, make(size), make(size // 4), reference_s)


CASES = cases()


@pytest.fixture(scope="module")
def reference_s() -> float:
    return cpu_s(reference, None)


@pytest.mark.parametrize("name", CASES)
def test_the_largest_input_blocks_the_event_loop_only_briefly(name: str, reference_s: float) -> None:
    reader, make, size = CASES[name]
    judge(reader, make(size), make(size // 4), reference_s)


class Sink(asyncio.Transport):
    """A transport that discards what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: object) -> None:
        """Dropped."""

    def writelines(self, lines: object) -> None:
        """Dropped."""

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
    "unknown methods": lambda size: b"FOO / HTTP/1.1\r\nHost: x\r\n\r\n" * (size // 27),
    "offers of another protocol": lambda size: (UPGRADE + b"a:b\r\n" * (size // 170) + b"\r\n") * 31,
    "trailers": lambda size: POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a:\r\n" * (size // 4),
}


async def silent(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that never answers."""
    await asyncio.Event().wait()


@pytest.mark.anyio
@pytest.mark.parametrize("name", READS)
async def test_one_read_from_a_client_blocks_the_event_loop_only_briefly(
    name: str, reference_s: float
) -> None:
    config = server.configure(silent, Settings())
    config.load()

    def read(data: bytes) -> None:
        state, transport = ServerState(), Sink()
        protocol = Protocol(config, state, {})
        protocol.connection_made(transport)
        protocol.data_received(data)
        protocol.transport.abort()
        for task in state.tasks:
            task.cancel()
        protocol.connection_lost(None)

    judge(read, READS[name](READ_BYTES), READS[name](READ_BYTES // 4), reference_s)
    await asyncio.sleep(0)


@pytest.mark.anyio
async def test_one_read_from_an_upstream_blocks_the_event_loop_only_briefly(
    reference_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer has 2 MB in chunks of one byte. It may be accepted or refused."""
    reads_s: list[float] = []
    read = ClientConnection.buffer_updated

    def timed(connection: ClientConnection, size: int) -> None:
        began = time.thread_time()
        read(connection, size)
        reads_s.append(time.thread_time() - began)

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"1\r\nx\r\n" * ANSWER_BYTES + b"0\r\n\r\n")
        writer.close()

    async def longest_s() -> float:
        reads_s.clear()
        with contextlib.suppress(AnswerTooLarge):
            await http_client.request(
                "GET",
                f"http://{host}:{port}/",
                headers={},
                body=None,
                deadline_s=60,
                answer_max_bytes=ANSWER_BYTES,
            )
        assert len(reads_s) > 1
        return max(reads_s)

    monkeypatch.setattr(ClientConnection, "buffer_updated", timed)
    http_client = HttpClient(connections_max=1)
    async with await asyncio.start_server(upstream, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        tries = [await longest_s()]
        while min(tries) > BLOCKED_MAX * reference_s and len(tries) < MEASURED_MAX:
            tries.append(await longest_s())
        await http_client.close()
    assert min(tries) <= BLOCKED_MAX * reference_s
