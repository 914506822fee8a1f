"""What a chat server lists as its models: their names, and how many tokens they take. Also looks for chat
servers on this machine, for the operator's first minute; one that is found is offered, never added unasked.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from myna.channels import routes
from myna.channels.channels import PARROT, Channel, Channels
from myna.channels.routes import Route, RouteKind
from myna.config import context_lengths
from myna.engines.openai.api import request_headers
from myna.http.client import ClientResponse, HttpClient, RequestFailed
from myna.lib.names import MODEL_MAX_CHARS, is_line
from myna.store.queries.config import Config
from myna.wire.lenient import UNREADABLE, loads, object_of

WAIT_S: Final = 1.0
ANSWER_MAX_BYTES: Final = 4 * 2**20
MODELS_MAX: Final = 100
ASKED_EVERY_S: Final = 600.0
NAMES: Final = ("context_length", "max_model_len", "context_window", "max_context_length", "n_ctx")
"""Of a model's context length: OpenRouter's and Together's, vLLM's, Groq's, Mistral's and LM Studio's, and
llama.cpp's."""
WITHIN: Final = ("meta", "top_provider")
"""Members with such names too: llama.cpp's, and OpenRouter's of the provider that serves the model."""


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


async def ask(
    http_client: HttpClient, base_url: str, headers: Mapping[str, str], wait_s: float = WAIT_S
) -> ClientResponse | None:
    """The answer to GET /models of the server at this base URL; None without one."""
    try:
        return await http_client.request(
            "GET",
            f"{base_url.rstrip('/')}/models",
            headers=headers,
            body=None,
            deadline_s=wait_s,
            answer_max_bytes=ANSWER_MAX_BYTES,
        )
    except RequestFailed:
        return None


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
    response = await ask(http_client, url, request_headers(key, "application/json"))
    models = models_in(response) if response else None
    return None if models is None else models[:MODELS_MAX]


def models_in(answer: ClientResponse) -> list[str] | None:
    """The models of an answer to GET /models; None if it is not such a list."""
    if answer.status != HTTPStatus.OK:
        return None
    try:
        listed = _decoder.decode(answer.body).data or []
    except msgspec.DecodeError:
        return None
    return [model.id for model in listed if is_line(model.id, MODEL_MAX_CHARS)]


class _Listed(Struct):
    """The lengths by model that a server has listed, and when it was asked."""

    asked_at: float
    lengths: dict[str, int]


class ContextLengths:
    """Asks the server of a channel for its models, at most once in ASKED_EVERY_S, when somebody asks for
    them here."""

    def __init__(self, http_client: HttpClient, channels: Channels) -> None:
        self._http_client = http_client
        self._channels = channels
        self._listed: dict[tuple[str, str], _Listed] = {}

    async def of(self, config: Config, said: str, named: Mapping[str, Route]) -> dict[str, int]:
        """By the names of models, whose routes are given: what is set for the model or its route, else
        the least of its channels, where one is known."""
        lengths = context_lengths(said)
        given = {
            name: lengths[each]
            for name, route in named.items()
            for each in (route.name, name)
            if each in lengths
        }
        asked = {
            name: [one for one in self._channels.of_route(config, route) if one.url != PARROT]
            for name, route in named.items()
            if route.kind in (RouteKind.CHAT, RouteKind.EMBEDDINGS) and name not in given
        }
        servers = {_server(channel): channel for found in asked.values() for channel in found}
        await asyncio.gather(*map(self._ask, servers.values()))
        known = {
            name: [self._known(channel, named[name], name) for channel in found]
            for name, found in asked.items()
        }
        return given | {name: min(filter(None, found)) for name, found in known.items() if any(found)}

    def _known(self, channel: Channel, route: Route, name: str) -> int:
        """0 if it is not known."""
        model = routes.model_for(route, channel.model, name)
        return self._listed[_server(channel)].lengths.get(model, 0)

    async def _ask(self, channel: Channel) -> None:
        now, server = time.monotonic(), _server(channel)
        before = self._listed.get(server)
        if before is not None and now - before.asked_at < ASKED_EVERY_S:
            return
        # noted first: while this one waits, others answer with what is known
        listed = self._listed[server] = _Listed(now, before.lengths if before else {})
        answer = await ask(self._http_client, channel.url, channel.headers())
        with contextlib.suppress(*UNREADABLE):
            listed.lengths = lengths_in(answer.body) if answer else listed.lengths


def lengths_in(body: bytes) -> dict[str, int]:
    """The lengths by model in an answer to GET /models. Raises UNREADABLE."""
    data = object_of(loads(body)).get("data")
    models = [object_of(one) for one in data] if isinstance(data, list) else []
    found = {str(model.get("id")): _length(model) for model in models}
    return {name: length for name, length in found.items() if length}


def _length(model: dict[str, Any]) -> int:
    """The least that is said; 0 if nothing is."""
    said = [object_of(model.get(within)).get(name) for within in WITHIN for name in NAMES]
    said += [model.get(name) for name in NAMES]
    return min((length for length in said if type(length) is int and 0 < length < 2**31), default=0)


def _server(channel: Channel) -> tuple[str, str]:
    return channel.url, channel.key
