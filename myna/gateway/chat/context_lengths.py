"""How many tokens the models of the routes take: as the operator says, else the servers of their channels."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from myna.channels import routes
from myna.channels.channels import PARROT, Channel, Channels
from myna.channels.routes import Route, RouteKind
from myna.config import context_lengths
from myna.http.client import HttpClient, RequestFailed
from myna.store.queries.config import Config
from myna.wire.lenient import UNREADABLE, loads, object_of

WAIT_S: Final = 1.0
ASKED_EVERY_S: Final = 600.0
ANSWER_MAX_BYTES: Final = 4 * 2**20
NAMES: Final = ("context_length", "max_model_len", "context_window", "max_context_length", "n_ctx")
"""OpenRouter's and Together's, vLLM's, Groq's, Mistral's and LM Studio's, and llama.cpp's."""
WITHIN: Final = ("meta", "top_provider")
"""Members with names too: llama.cpp's, and OpenRouter's of the provider that serves the model."""


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
        try:
            answer = await self._http_client.request(
                "GET",
                channel.url.rstrip("/") + "/models",
                headers=channel.headers(),
                body=None,
                deadline_s=WAIT_S,
                answer_max_bytes=ANSWER_MAX_BYTES,
            )
            listed.lengths = lengths_in(answer.body)
        except (RequestFailed, *UNREADABLE):
            return


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
