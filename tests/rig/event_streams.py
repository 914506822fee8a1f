"""Streamed answers of the upstream, with the faults of real ones, byte by byte.

A request with `"stream": true` is answered with events unless its fault is one of `upstream.py` that answers
otherwise (`status`, `close`, `hang`, …). The faults:

echo           a chunk with the role, one for each word of the last user message, one with the finish
words:N        N chunks of one word
whole[:N]      one JSON completion, not streamed  json-error    status 200 and a JSON error, not streamed
no-done        ends without `[DONE]`              open          sends `[DONE]` and does not end the response
no-end         ends after two chunks, cleanly     cut-done      the connection ends after `[DONE]`
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
import json
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
FAULTS = frozenset(
    {
        "echo", "words", "whole", "json-error", "no-done", "open", "no-end", "cut-stream", "cut-done", "long",
        "error-first", "error-later", "html-first", "html-later", "before", "pause", "half-pause", "endless",
        "much", "silent", "say",
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
            if fault != "no-done" and not self.response:
                await self._write_chunk(DONE)
        if fault == "cut-done":
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
