"""POST /openai/v1/chat/completions, /completions and /embeddings."""

from myna.api.auth import KeyAuth
from myna.http.asgi import Handler, Request
from myna.http.responses import Response
from myna.http.stream import ResponseStream
from myna.keys import Scope
from myna.relay.plan import CHAT, COMPLETIONS, EMBEDDINGS, Endpoint, Planner
from myna.relay.relay import Relay


class RelayApi:
    """Handlers of the endpoints that a channel answers."""

    def __init__(self, key_auth: KeyAuth, relay: Relay, planner: Planner) -> None:
        self._key_auth = key_auth
        self._relay = relay
        self._planner = planner
        self.chat_completions = self._handler(CHAT)
        self.completions = self._handler(COMPLETIONS)
        self.embeddings = self._handler(EMBEDDINGS)

    def _handler(self, endpoint: Endpoint) -> Handler:
        async def handle(request: Request) -> Response | ResponseStream:
            caller, body = await self._key_auth.caller_and_body(request, Scope.CHAT)
            return await self._relay.answer(caller, lambda: self._planner.plan(endpoint, body), request)

        return handle
