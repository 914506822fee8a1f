"""Streamed answers of the upstream, with the faults of real ones, byte by byte.

A request with `"stream": true` is answered with events unless its fault is one of `upstream.py` that answers
otherwise (`status`, `close`, `hang`, …). The faults:

echo           a chunk with the role, one for each word of the last user message, one with the finish
words:N        N chunks of one word               usage         echo, with a chunk about the usage
tools          deltas of a tool call, reasoning and logprobs
whole[:N]      one JSON completion, not streamed  json-error    status 200 and a JSON error, not streamed
crlf           echo, with CRLF as line end        bytes:N       echo, written N bytes at a time
no-space       `data:` without a space            comments      comments before, between and after the chunks
no-done        ends without `[DONE]`              open          sends `[DONE]` and does not end the response
cut-done       the connection ends after `[DONE]`  chatty        comments after `[DONE]` until it is closed
no-end         ends after two chunks, cleanly     cut-stream    the connection ends after two chunks
error-first    an error event at once             error-later   an error event after two chunks
html-first     HTML at once                       html-later    HTML after two chunks
half-event     ends within the third chunk        long:N        a chunk of N bytes among others
before         waits for `release` before the first chunk, after the head
pause          two chunks, waits for `release`, then the rest
half-pause:N   a chunk of N bytes, of which half is sent before `release`
endless        chunks of 1 KB until the connection ends
much:N         N chunks of 1 KB
silent         two chunks, then nothing until the connection ends

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
        "echo", "words", "usage", "tools", "whole", "json-error", "crlf", "bytes", "no-space", "comments",
        "no-done", "open", "no-end", "cut-stream", "error-first", "error-later", "html-first", "html-later",
        "cut-done", "chatty", "half-event", "long",
        "before", "pause", "half-pause", "endless", "much", "silent", "say", "count", "odd", "tool-calls",
    }
)  # fmt: skip
OF_RESPONSES = frozenset(
    {
        "no-end", "cut-stream", "error-later", "html-later", "half-event", "failed-later", "before", "pause",
        "silent",
    }
)  # fmt: skip


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


def tool_chunks(model: str) -> list[bytes]:
    """A tool call in two deltas, after reasoning, with logprobs."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    more = {"index": 0, "function": {"arguments": '{"city":"Oslo"}'}}
    logprobs = {"content": [{"token": "a", "logprob": -0.1, "bytes": None, "top_logprobs": []}]}
    first = chunk(model, {"role": "assistant", "content": None, "reasoning_content": "let me think"})
    first["choices"][0]["logprobs"] = logprobs
    deltas = [{"tool_calls": [call]}, {"tool_calls": [more]}]
    return [event(first), *(event(chunk(model, d)) for d in deltas), event(chunk(model, {}, "tool_calls"))]


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
        self._piece_bytes = 0
        self.response: list[bytes] = []
        self.sent_bytes = 0

    async def send(self, fault: str, argument: str, model: str, text: str, *, usage: bool) -> bool:
        """Sends the answer. True if the connection may be used again."""
        if fault in ("whole", "json-error"):
            body = json.dumps(ERROR).encode() if fault == "json-error" else self._whole()
            await self._write(JSON_HEAD % len(body) + body)
            return True
        await self._write(HEAD)
        if fault == "bytes":
            self._piece_bytes = int(argument)
        async for part in self._events(fault, argument, model, text):
            await self._write_chunk(part)
        if fault == "cut-stream":
            return False
        if fault not in ("no-end", "half-event", "error-first", "error-later", "html-first", "html-later"):
            if (usage or fault == "usage") and not self.response:
                await self._write_chunk(event(chunk(model, {}) | {"choices": [], "usage": USAGE}))
            if fault != "no-done" and not self.response:
                await self._write_chunk(DONE.replace(b"\n", b"\r\n") if fault == "crlf" else DONE)
        if fault == "cut-done":
            return False
        while fault == "chatty":
            await self._write_chunk(b": still here\n\n")
            await asyncio.sleep(0.05)
        if fault == "open":
            await asyncio.wait([self._disconnected])
            return False
        await self._write(b"0\r\n\r\n")
        return True

    async def _events(self, fault: str, argument: str, model: str, text: str) -> AsyncIterator[bytes]:
        words = [f"w{n} " for n in range(int(argument))] if fault == "words" else spoken(text)
        events = tool_chunks(model) if fault in ("tools", "tool-calls") else chunks(model, words)
        events = self.response or events
        firsts, rest = events[:2], events[2:]
        if fault == "error-first":
            firsts, rest = [event(ERROR)], []
        elif fault == "html-first":
            firsts, rest = [HTML], []
        elif fault == "comments":
            firsts, rest = [b": waiting\n\n", *firsts, b": still here\n\n"], [*rest, b": bye\n\n"]
        elif fault == "long":
            rest = [event(chunk(model, {"content": "x" * int(argument)})), *rest]
        elif fault == "crlf":
            firsts = [one.replace(b"\n", b"\r\n") for one in firsts]
            rest = [one.replace(b"\n", b"\r\n") for one in rest]
        elif fault == "no-space":
            firsts = [one.replace(b"data: ", b"data:") for one in firsts]
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
        elif fault == "half-event":
            rest = [rest[0][: len(rest[0]) // 2]]
        elif fault == "pause":
            await self._until(self._released)
        elif fault == "silent":
            await asyncio.wait([self._disconnected])
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
        size = self._piece_bytes or len(part)
        for at in range(0, len(part), size):
            piece = part[at : at + size]
            await self._write(b"%x\r\n%b\r\n" % (len(piece), piece))

    async def _write(self, data: bytes) -> None:
        if self._disconnected.done():
            raise Disconnected
        self._writer.write(data)
        self.sent_bytes += len(data)
        await self._writer.drain()
        if self._piece_bytes:
            await asyncio.sleep(0)
