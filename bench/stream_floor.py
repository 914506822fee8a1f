"""The bare floor of streams: plain ASGI on uvicorn that passes chunks through with Myna's HTTP client;
nothing of Myna's edge, parser or store. `python -m bench.stream_floor PORT UPSTREAM`.
"""

import asyncio
import sys
from typing import Any

import msgspec
import uvicorn

from bench.bare_floor import ANSWER_MAX_BYTES, HEADERS, BareFloor, Conversation
from myna.http.client import HttpClient

CONNECTIONS_MAX = 4096
DEADLINE_S = 600.0
_EVENTS = [(b"content-type", b"text/event-stream")]


class StreamFloor:
    """One POST to any path: a stream if `stream` is true, else the bare floor's answer."""

    def __init__(self, upstream: str) -> None:
        self._url = upstream + "/v1/chat/completions"
        self._whole = BareFloor(upstream)
        self._http_client = HttpClient(connections_max=CONNECTIONS_MAX)
        self._asked = msgspec.json.Decoder(Conversation)
        self._encode = msgspec.json.Encoder().encode

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        asked = self._asked.decode(body) if scope["method"] == "POST" else None
        if asked is None or not asked.stream:
            await self._whole(scope, _again(body), send)
            return
        parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        calling = asyncio.create_task(self._call(self._encode(asked), parts))
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        while (part := await parts.get()) is not None:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await calling
        await send({"type": "http.response.body", "body": b""})

    async def _call(self, body: bytes, parts: "asyncio.Queue[bytes | None]") -> None:
        try:
            await self._http_client.request(
                "POST", self._url, headers=HEADERS, body=body, deadline_s=DEADLINE_S,
                answer_max_bytes=ANSWER_MAX_BYTES, sink=lambda part: parts.put_nowait(bytes(part)),
                accept=lambda status, headers: status == 200,
            )  # fmt: skip
        finally:
            parts.put_nowait(None)


def _again(body: bytes) -> Any:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    return receive


if __name__ == "__main__":
    uvicorn.run(
        StreamFloor(sys.argv[2]), port=int(sys.argv[1]), lifespan="off", ws="none", access_log=False,
        log_level="warning", server_header=False, proxy_headers=False, loop="uvloop", http="httptools",
        backlog=2048,
    )  # fmt: skip
