"""Looks for chat servers on this machine, for the operator's first minute. A server that is found is offered
and never added unasked."""

import asyncio
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from myna.http.client import HttpClient, RequestFailed
from myna.lib.names import MODEL_MAX_CHARS, is_line

WAIT_S = 1.0
ANSWER_MAX_BYTES = 1024 * 1024
MODELS_MAX = 100


class KnownServer(Struct, frozen=True):
    """A server and the base URL that it has by default. `name` is that of its channel."""

    name: str
    title: str
    url: str


KNOWN = (
    KnownServer("ollama", "Ollama", "http://127.0.0.1:11434/v1"),
    KnownServer("llama-cpp", "llama.cpp", "http://127.0.0.1:8080/v1"),
    KnownServer("llama-cpp-8081", "llama.cpp", "http://127.0.0.1:8081/v1"),  # beside Myna, on 8080
    KnownServer("lm-studio", "LM Studio", "http://127.0.0.1:1234/v1"),
    KnownServer("vllm", "vLLM", "http://127.0.0.1:8000/v1"),
)


class FoundServer(Struct, frozen=True):
    """A server that answered, with the models that it lists."""

    server: KnownServer
    models: list[str]


class _Model(Struct):
    id: str


class _Models(Struct):
    data: list[_Model] | None = None


_decoder = msgspec.json.Decoder(_Models)


async def find_servers(
    http_client: HttpClient, own_port: int, known: tuple[KnownServer, ...] = KNOWN
) -> list[FoundServer]:
    """The known servers that list their models within a second. `own_port` is this service's and is left
    out."""
    others = [server for server in known if urlsplit(server.url).port != own_port]
    found = await asyncio.gather(*(models_of(http_client, server.url) for server in others))
    return [
        FoundServer(server, models)
        for server, models in zip(others, found, strict=True)
        if models is not None
    ]


async def models_of(http_client: HttpClient, url: str, key: str = "") -> list[str] | None:
    """The models of the server at this base URL; None if there is none that lists models within a second."""
    try:
        response = await http_client.request(
            "GET",
            f"{url}/models",
            headers={"authorization": f"Bearer {key}"} if key else {},
            body=None,
            deadline_s=WAIT_S,
            answer_max_bytes=ANSWER_MAX_BYTES,
        )
    except RequestFailed:
        return None
    models = models_in(response.body) if response.status == 200 else None
    return None if models is None else models[:MODELS_MAX]


def models_in(body: bytes) -> list[str] | None:
    """The models of an answer to GET /models; None if it is no such list."""
    try:
        listed = _decoder.decode(body).data or []
    except msgspec.DecodeError:
        return None
    return [model.id for model in listed if is_line(model.id, MODEL_MAX_CHARS)]
