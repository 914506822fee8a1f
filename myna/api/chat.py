"""GET /models, POST /chat/completions."""

from myna.api import units
from myna.api.auth import KeyAuth, model_refused
from myna.chat.complete import Chat
from myna.config import ConfigCache
from myna.errors import ModelNotFound
from myna.http.request import Request
from myna.http.responses import Response
from myna.keys import Scope
from myna.wire.encode import to_json
from myna.wire.v1 import MODELS, Model, ModelList

MODELS_CREATED = 1_767_225_600
"""2026-01-01: the creation time of both models."""


class ChatApi:
    """Handlers of the chat endpoints."""

    def __init__(self, key_auth: KeyAuth, chat: Chat, config: ConfigCache) -> None:
        self._key_auth = key_auth
        self._chat = chat
        self._config = config

    async def models(self, request: Request) -> Response:
        verified = await self._key_auth.verify(request, Scope.CHAT)
        await self._key_auth.in_time(self._config.at(verified.config_version))
        owner = self._config.settings.owner
        models = [Model(id=name, object="model", created=MODELS_CREATED, owned_by=owner) for name in MODELS]
        return Response(to_json(ModelList("list", models)))

    async def completions(self, request: Request) -> Response:
        caller, body = await self._key_auth.caller_and_body(request, Scope.CHAT)
        try:
            answer = await self._chat.complete(caller, body, request.disconnected)
        except ModelNotFound as error:
            raise model_refused(error) from None
        return Response(answer, headers=units.headers(caller.details))
