"""POST /openai/v1/chat/completions, /responses, /completions and /embeddings."""

from collections.abc import Awaitable, Callable
from functools import partial

from myna.api.auth import KeyAuth
from myna.http.asgi import Handler, Request
from myna.http.responses import Response
from myna.http.stream import ResponseStream
from myna.keys import Scope, UnverifiedCaller
from myna.relay import responses
from myna.relay.plan import CHAT, COMPLETIONS, EMBEDDINGS, Planner, RelayPlan
from myna.relay.relay import Relay


class RelayApi:
    """Handlers of the endpoints that a channel answers."""

    def __init__(self, key_auth: KeyAuth, relay: Relay, planner: Planner) -> None:
        self._key_auth = key_auth
        self._relay = relay
        self.chat_completions = self._handler(partial(planner.plan, CHAT))
        self.completions = self._handler(partial(planner.plan, COMPLETIONS))
        self.embeddings = self._handler(partial(planner.plan, EMBEDDINGS))
        self.responses = self._handler(partial(responses.plan, planner))

    def _handler(self, plan: Callable[[UnverifiedCaller, bytes], Awaitable[RelayPlan]]) -> Handler:
        async def handle(request: Request) -> Response | ResponseStream:
            caller, body = await self._key_auth.caller_and_body(request, Scope.CHAT)
            return await self._relay.answer(caller, lambda: plan(caller, body), request)

        return handle
