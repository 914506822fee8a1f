"""The bare floor: plain ASGI on uvicorn, uvloop and httptools, msgspec, and Myna's way out; nothing of Myna's
edge, parser or store. `python -m bench.bare_floor PORT UPSTREAM`.
"""

import sys
from typing import Any

import msgspec
import uvicorn

from myna.http.client import HttpClient

DEADLINE_S = 60.0
ANSWER_MAX_BYTES = 8 * 2**20
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
    """One POST to any path, answered with the upstream's answer."""

    def __init__(self, upstream: str) -> None:
        self._url = upstream + "/v1/chat/completions"
        self._http_client = HttpClient(connections_max=512)
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
        answer = await self._http_client.request(
            "POST", self._url, headers=HEADERS, body=self._encode(self._asked.decode(body)),
            deadline_s=DEADLINE_S, answer_max_bytes=ANSWER_MAX_BYTES,
        )  # fmt: skip
        if answer.status != 200:
            await _answer(send, 500, b"{}")
        else:
            await _answer(send, 200, self._encode(self._said.decode(answer.body)))


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
