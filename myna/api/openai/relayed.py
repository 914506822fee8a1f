"""POST /openai/v1/chat/completions, /responses, /completions and /embeddings, and stored responses."""

from collections.abc import Awaitable, Callable
from functools import partial

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.api.auth import KeyAuth
from myna.gateway.relay import responses
from myna.gateway.relay.plan import CHAT, COMPLETIONS, EMBEDDINGS, Planner, RelayPlan
from myna.gateway.relay.relay import Relay
from myna.gateway.relay.stored_responses import StoredResponses
from myna.http.asgi import RESPONSES_PREFIX, Handler
from myna.http.request import Request
from myna.http.responses import Response
from myna.http.stream import ResponseStream
from myna.wire.body import to_json
from myna.wire.openai import DeletedResponse


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
