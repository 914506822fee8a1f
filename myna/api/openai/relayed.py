"""POST /openai/v1/chat/completions, /responses, /completions and /embeddings."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from myna.api.auth import KeyAuth
from myna.http.asgi import Handler, Request
from myna.http.responses import Response
from myna.http.stream import ResponseStream
from myna.keys import Scope
from myna.relay import responses
from myna.relay.plan import CHAT, COMPLETIONS, EMBEDDINGS, Planner, RelayPlan
from myna.relay.relay import Relay
from myna.wire.body import in_thread_if_large

T = TypeVar("T")


class RelayApi:
    """Handlers of the endpoints that a channel answers."""

    def __init__(self, key_auth: KeyAuth, relay: Relay, planner: Planner) -> None:
        self._key_auth = key_auth
        self._relay = relay
        self.chat_completions = self._handler(CHAT.read, planner.plan_read)
        self.completions = self._handler(COMPLETIONS.read, planner.plan_read)
        self.embeddings = self._handler(EMBEDDINGS.read, planner.plan_read)
        self.responses = self._handler(responses.read, partial(responses.plan, planner))

    def _handler(self, read: Callable[[bytes], T], plan: Callable[[T], RelayPlan]) -> Handler:
        async def handle(request: Request) -> Response | ResponseStream:
            caller, body = await self._key_auth.caller_and_body(request, Scope.CHAT)

            async def planned() -> RelayPlan:
                return plan(await in_thread_if_large(read, body))

            return await self._relay.answer(caller, planned, request)

        return handle
