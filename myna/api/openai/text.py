"""GET /openai/v1/models and /models/{id}; POST /chat/completions, /responses, /completions and /embeddings;
and stored responses."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from msgspec import UNSET

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.api.auth import KeyAuth
from myna.channels import routes
from myna.channels.routes import Route
from myna.config import ConfigCache
from myna.errors import ModelNotFound
from myna.gateway.models import ContextLengths
from myna.gateway.relay import responses
from myna.gateway.relay.plan import CHAT, COMPLETIONS, EMBEDDINGS, Planner, RelayPlan
from myna.gateway.relay.relay import Relay
from myna.gateway.relay.stored_responses import StoredResponses
from myna.gateway.transcription import EmbeddedWhisper
from myna.http.asgi import MODELS_PREFIX, RESPONSES_PREFIX, Handler
from myna.http.exchange import ResponseStream
from myna.http.request import Request
from myna.http.responses import Response
from myna.store.database import Database
from myna.store.queries import config as store
from myna.wire.body import to_json
from myna.wire.openai import DeletedResponse, RoutedModel, RoutedModelList

CREATED = 1_767_225_600
"""2026-01-01: the creation time of every model."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelsApi:
    """Handlers of the list of models: the built-in ones and the operator's routes, as far as the key may use
    them. Wildcards are not listed, nor is the embedded Whisper where it is not installed."""

    key_auth: KeyAuth
    db: Database
    config: ConfigCache
    whisper: EmbeddedWhisper
    context_lengths: ContextLengths

    async def list_all(self, request: Request) -> Response:
        usable = await self._usable(request)
        named = {route.name: route for route in usable if not route.name.endswith("*")}
        return Response(to_json(RoutedModelList("list", await self._models(named))))

    async def one(self, request: Request) -> Response:
        wanted = request.path.removeprefix(MODELS_PREFIX)
        usable = {route.name: route for route in await self._usable(request)}
        route = routes.named(self.config.current, self.config.settings, wanted)
        if route is None or route.name not in usable:
            raise ModelNotFound(wanted)
        (model,) = await self._models({wanted: route})
        return Response(to_json(model))

    async def _usable(self, request: Request) -> list[Route]:
        verified = await self.key_auth.verify(request, Scope.CHAT)
        await self.key_auth.in_time(self.config.at(verified.config_version))
        found = routes.listed(self.config.current, self.config.settings)
        if await self.whisper.missing():
            found = [route for route in found if route.name != routes.TRANSCRIPTION_ROUTE]
        allowed = await self.key_auth.in_time(store.routes_of_key(self.db, verified.key.id))
        return found if allowed is None else [route for route in found if route.name in allowed]

    async def _models(self, named: dict[str, Route]) -> list[RoutedModel]:
        """The models of these names."""
        said = self.config.settings.context_lengths
        lengths = await self.context_lengths.of(self.config.current, said, named)
        return [
            RoutedModel(
                id=name,
                object="model",
                created=CREATED,
                owned_by=self.config.settings.owner,
                kind=route.kind,
                units=route.units,
                context_length=lengths.get(name, UNSET),
            )
            for name, route in named.items()
        ]


class RelayApi:
    """Handlers of the endpoints that a channel answers."""

    def __init__(self, key_auth: KeyAuth, relay: Relay, planner: Planner, stored: StoredResponses) -> None:
        self._key_auth = key_auth
        self._relay = relay
        self._stored = stored
        self.chat_completions = self._handler(partial(planner.plan, CHAT))
        self.completions = self._handler(partial(planner.plan, COMPLETIONS))
        self.embeddings = self._handler(partial(planner.plan, EMBEDDINGS))
        self.responses = self._handler(partial(responses.plan, planner, stored))

    async def stored_response(self, request: Request) -> Response:
        account_id, response_id = await self._one(request)
        return Response(await self._stored.one(account_id, response_id))

    async def delete_response(self, request: Request) -> Response:
        account_id, response_id = await self._one(request)
        await self._stored.delete(account_id, response_id)
        return Response(to_json(DeletedResponse(response_id, "response", deleted=True)))

    async def _one(self, request: Request) -> tuple[int, str]:
        """The account and the id of the response."""
        verified = await self._key_auth.verify(request, Scope.CHAT)
        return verified.key.account_id, request.path.removeprefix(RESPONSES_PREFIX)

    def _handler(self, plan: Callable[[UnverifiedCaller, bytes], Awaitable[RelayPlan]]) -> Handler:
        async def handle(request: Request) -> Response | ResponseStream:
            caller, body = await self._key_auth.caller_and_body(request, Scope.CHAT)
            return await self._relay.answer(caller, lambda: plan(caller, body), request)

        return handle
