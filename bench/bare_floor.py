"""The bare floor of whole answers and of streams: plain ASGI on uvicorn, uvloop and httptools, msgspec, and
Myna's HTTP client; nothing of Myna's edge, parser or store. `python -m bench.bare_floor PORT UPSTREAM`.
"""

import asyncio
import sys
from typing import Any

import msgspec
import uvicorn

from myna.http.client import HttpClient

DEADLINE_S, STREAM_DEADLINE_S = 60.0, 600.0
CONNECTIONS_MAX = 4096
ANSWER_MAX_BYTES = 8 * 2**20
EVENTS = [(b"content-type", b"text/event-stream")]
HEADERS = {"content-type": "application/json", "accept": "application/json"}


class Conversation(msgspec.Struct):
    """A request, and what goes upstream of it."""

    model: str
    messages: msgspec.Raw
    temperature: float = 1.0
    stream: bool = False


class Message(msgspec.Struct):
    role: str
    content: str


class Choice(msgspec.Struct):
    index: int
    message: Message
    finish_reason: str


class Completion(msgspec.Struct):
    """The upstream's answer, and ours."""

    id: str
    object: str
    created: int
    model: str
    choices: list[Choice]
    usage: dict[str, int]


class BareFloor:
    """One POST to any path, answered with the upstream's answer, or with its stream if `stream` is true."""

    def __init__(self, upstream: str) -> None:
        self._url = upstream + "/v1/chat/completions"
        self._http_client = HttpClient(connections_max=CONNECTIONS_MAX)
        self._asked = msgspec.json.Decoder(Conversation)
        self._said = msgspec.json.Decoder(Completion)
        self._encode = msgspec.json.Encoder().encode

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "GET":
            await _answer(send, 200, b"{}")
            return
        message = await receive()
        body = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        asked = self._asked.decode(body)
        if asked.stream:
            await self._stream(self._encode(asked), send)
            return
        answer = await self._http_client.request(
            "POST", self._url, headers=HEADERS, body=self._encode(asked), deadline_s=DEADLINE_S,
            answer_max_bytes=ANSWER_MAX_BYTES,
        )  # fmt: skip
        if answer.status != 200:
            await _answer(send, 500, b"{}")
        else:
            await _answer(send, 200, self._encode(self._said.decode(answer.body)))

    async def _stream(self, body: bytes, send: Any) -> None:
        parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        calling = asyncio.create_task(self._ask(body, parts))
        await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
        while (part := await parts.get()) is not None:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await calling
        await send({"type": "http.response.body", "body": b""})

    async def _ask(self, body: bytes, parts: "asyncio.Queue[bytes | None]") -> None:
        """Puts the parts of the upstream's stream into the queue, and None after the last one."""
        try:
            await self._http_client.request(
                "POST", self._url, headers=HEADERS, body=body, deadline_s=STREAM_DEADLINE_S,
                answer_max_bytes=ANSWER_MAX_BYTES, sink=lambda part: parts.put_nowait(bytes(part)),
                accept=lambda status, headers: status == 200,
            )  # fmt: skip
        finally:
            parts.put_nowait(None)


async def _answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    uvicorn.run(
        BareFloor(sys.argv[2]), port=int(sys.argv[1]), lifespan="off", ws="none", access_log=False,
        log_level="warning", server_header=False, proxy_headers=False, loop="uvloop", http="httptools",
        backlog=2048,
    )  # fmt: skip
