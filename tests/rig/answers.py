"""Answers of the upstream that depend on the request, and streamed ones with the faults of real ones, byte by
byte.

A request with `"stream": true` is answered with events unless its fault is one of `upstream.py` that answers
otherwise (`status`, `close`, `hang`, …). The faults:

echo           a chunk with the role, one for each word of the last user message, one with the finish
words:N        N chunks of one word
whole[:N]      one JSON completion, not streamed  json-error    status 200 and a JSON error, not streamed
no-done        ends without `[DONE]`              open          sends `[DONE]` and does not end the response
no-end         ends after two chunks, cleanly     cut-done      the connection ends after `[DONE]`
cut-end        the connection ends in its place
error-first    an error event at once             cut-stream    the connection ends after two chunks
html-first     HTML at once                       error-later   an error event after two chunks
long:N         a chunk of N bytes among others    html-later    HTML after two chunks
before         waits for `release` before the first chunk, after the head
pause          two chunks, waits for `release`, then the rest
half-pause:N   a chunk of N bytes, of which half is sent before `release`
endless        chunks of 1 KB until the connection ends
much:N         N chunks of 1 KB
silent         two chunks, then nothing until the connection ends, or with `:pings` events without data

Of these, POST /responses has `OF_RESPONSES`, with the events of a response in place of chunks; there
`failed-later` is the event of a response that has failed, after the others.
"""

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
DONE = b"data: [DONE]\n\n"
ERROR = {"error": {"message": "out of memory at /srv/upstream.py", "type": "server_error", "code": 500}}
HTML = b"<html><body>502 Bad Gateway</body></html>\n\n"
USAGE = {"prompt_tokens": 11, "completion_tokens": 22, "total_tokens": 33}
JSON = "application/json"
EVENTS = "text/event-stream"
RESPONSE_ID = "resp_of_the_upstream"
RESPONSE_USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 22,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 33,
}
FAULTS = frozenset(
    {
        "echo", "words", "whole", "json-error", "no-done", "open", "no-end", "cut-stream", "cut-done",
        "cut-end", "long", "error-first", "error-later", "html-first", "html-later", "before", "pause",
        "half-pause", "endless", "much", "silent", "say",
    }
)  # fmt: skip
OF_RESPONSES = frozenset(
    {"no-end", "cut-stream", "error-later", "html-later", "failed-later", "before", "pause", "silent"}
)


class Disconnected(Exception):
    """The other side has closed the connection."""


def chunk(model: str, delta: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk of a chat completion."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": "chatcmpl-of-the-upstream",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": model,
        "choices": [choice],
    } | fields


def event(data: Any) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def spoken(text: str) -> list[str]:
    """The words of a text, with the spaces between them; a Han character is a word."""
    words: list[str] = []
    for part in text.split(" "):
        words += [part] if part.isascii() else list(part)
        words.append(" ")
    return words[:-1] or [""]


def chunks(model: str, words: list[str]) -> list[bytes]:
    """The events of an answer without its end."""
    deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
    return [*(event(chunk(model, delta)) for delta in deltas), event(chunk(model, {}, "stop"))]


class EventStream:
    """One streamed answer over a connection. `whole` makes the JSON of an answer that is not streamed.
    `response` are the events of POST /responses; other streams have none."""

    def __init__(
        self,
        writer: asyncio.StreamWriter,
        released: asyncio.Event,
        disconnected: "asyncio.Task[bytes]",
        whole: Callable[[], bytes],
    ) -> None:
        self._writer = writer
        self._released = released
        self._disconnected = disconnected
        self._whole = whole
        self.response: list[bytes] = []
        self.sent_bytes = 0

    async def send(self, fault: str, argument: str, model: str, text: str, *, usage: bool) -> bool:
        """Sends the answer. True if the connection may be used again."""
        if fault in ("whole", "json-error"):
            body = json.dumps(ERROR).encode() if fault == "json-error" else self._whole()
            await self._write(JSON_HEAD % len(body) + body)
            return True
        await self._write(HEAD)
        async for part in self._events(fault, argument, model, text):
            await self._write_chunk(part)
        if fault == "cut-stream":
            return False
        if fault not in ("no-end", "error-first", "error-later", "html-first", "html-later"):
            if usage and not self.response:
                await self._write_chunk(event(chunk(model, {}) | {"choices": [], "usage": USAGE}))
            if fault not in ("no-done", "cut-end") and not self.response:
                await self._write_chunk(DONE)
        if fault in ("cut-done", "cut-end"):
            return False
        if fault == "open":
            await asyncio.wait([self._disconnected])
            return False
        await self._write(b"0\r\n\r\n")
        return True

    async def _events(self, fault: str, argument: str, model: str, text: str) -> AsyncIterator[bytes]:
        words = [f"w{n} " for n in range(int(argument))] if fault == "words" else spoken(text)
        events = self.response or chunks(model, words)
        firsts, rest = events[:2], events[2:]
        if fault == "error-first":
            firsts, rest = [event(ERROR)], []
        elif fault == "html-first":
            firsts, rest = [HTML], []
        elif fault == "long":
            rest = [event(chunk(model, {"content": "x" * int(argument)})), *rest]
        if fault == "before":
            await self._until(self._released)
        for one in firsts:
            yield one
        if fault in ("no-end", "cut-stream"):
            return
        if fault == "error-later":
            rest = [event(ERROR)]
        elif fault == "html-later":
            rest = [HTML]
        elif fault == "pause":
            await self._until(self._released)
        elif fault == "silent":
            while not (await asyncio.wait([self._disconnected], timeout=0.1 if argument else None))[0]:
                yield b"event: ping\ndata:\n\n"
            raise Disconnected
        elif fault == "half-pause":
            long = event(chunk(model, {"content": "x" * int(argument)}))
            yield long[: len(long) // 2]
            await self._until(self._released)
            yield long[len(long) // 2 :]
        kilobyte = event(chunk(model, {"content": "x" * 1024}))
        while fault == "endless":
            yield kilobyte
        for _ in range(int(argument) if fault == "much" else 0):
            yield kilobyte
        for one in rest:
            yield one

    async def _until(self, event: asyncio.Event) -> None:
        """Waits for the event. Raises Disconnected."""
        waiting = asyncio.ensure_future(event.wait())
        await asyncio.wait([waiting, self._disconnected], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._disconnected.done():
            raise Disconnected

    async def _write_chunk(self, part: bytes) -> None:
        await self._write(b"%x\r\n%b\r\n" % (len(part), part))

    async def _write(self, data: bytes) -> None:
        if self._disconnected.done():
            raise Disconnected
        self._writer.write(data)
        self.sent_bytes += len(data)
        await self._writer.drain()


def tool_answer(request: dict[str, Any], arguments: str) -> tuple[bytes, str]:
    """A call of the first tool of a chat. After the tool's output: that output as the answer. Returns the
    body and its media type."""
    *_, last = request["messages"]
    finish = "stop" if last["role"] == "tool" else "tool_calls"
    if last["role"] == "tool":
        message: dict[str, Any] = {"role": "assistant", "content": last["content"]}
    else:
        function = {"name": request["tools"][0]["function"]["name"], "arguments": arguments}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    if request.get("stream"):
        model = request["model"]
        usage = event(chunk(model, {}) | {"choices": [], "usage": USAGE})
        parts = [event(chunk(model, message)), event(chunk(model, {}, finish)), usage, DONE]
        return b"".join(parts), EVENTS
    choice = {"index": 0, "message": message, "finish_reason": finish}
    completion = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": request["model"]}
    return json.dumps({**completion, "choices": [choice], "usage": USAGE}).encode(), JSON


def completion(
    request: dict[str, Any], content: Any, finish_reason: str = "stop", *, usage: bool = True
) -> dict[str, Any]:
    """A whole completion, of a chat or of a prompt, with its usage or without."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish_reason, "logprobs": None}
    answer: dict[str, Any] = {"created": 1, "model": request.get("model", "")}
    if usage:
        answer["usage"] = USAGE
    if "prompt" in request:
        return {
            "id": "cmpl-1",
            "object": "text_completion",
            **answer,
            "choices": [{**choice, "text": content}],
        }
    choice["message"] = {"role": "assistant", "content": content}
    return {
        "id": "chatcmpl-of-the-upstream",
        "object": "chat.completion",
        **answer,
        "system_fingerprint": "fp_upstream",
        "choices": [choice],
    }


def embeddings(request: dict[str, Any], numbers: int = 0) -> dict[str, Any]:
    """A vector for each text, or for the one list of tokens, as floats or in base64: of so many zeros, or of
    three numbers."""
    given = request["input"]
    count = len(given) if isinstance(given, list) and not isinstance(given[0], int) else 1
    vector: Any = [0.0] * numbers or [0.25, -0.5, 1.0]
    if request.get("encoding_format") == "base64":
        vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    data = [{"object": "embedding", "index": index, "embedding": vector} for index in range(count)]
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    return {"object": "list", "model": request["model"], "data": data, "usage": usage}


def response_answer(request: dict[str, Any], text: str, status: str = "completed") -> tuple[bytes, str]:
    """A response that says the text, whole or as `response_events`."""
    if request.get("stream"):
        return b"".join(response_events(request, text, status)), EVENTS
    return json.dumps(_response(request, text, status)).encode(), JSON


def response_events(request: dict[str, Any], text: str, status: str = "completed") -> list[bytes]:
    """The events that are needed to know a response that says the text."""
    whole = _response(request, text, status)
    (item,) = whole["output"]
    (part,) = item["content"]
    begun = {**whole, "status": "in_progress", "output": [], "usage": None, "error": None}
    at = {"item_id": "msg_1", "output_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **at, "content_index": 0, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **at, "content_index": 0, "delta": text, "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": f"response.{status}", "response": whole},
    ]
    numbered = [{**each, "sequence_number": number} for number, each in enumerate(events)]
    return [b"event: %b\n" % each["type"].encode() + event(each) for each in numbered]


def _response(request: dict[str, Any], text: str, status: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": RESPONSE_ID,
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": {"code": "server_error", "message": "at /srv/upstream.py"} if status == "failed" else None,
        "incomplete_details": None,
        "model": request["model"],
        "output": [item],
        "parallel_tool_calls": True,
        "store": request.get("store", True),
        "tool_choice": "auto",
        "tools": [],
        "usage": RESPONSE_USAGE,
    }
