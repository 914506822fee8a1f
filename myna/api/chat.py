"""GET /models, POST /chat/completions."""

from myna.api.auth import Gate
from myna.chat.complete import Chat
from myna.edge import Request, Response
from myna.keys import Scope
from myna.site import Site
from myna.wire.encode import to_json
from myna.wire.v1 import MODELS, Model, ModelList

MODELS_CREATED = 1_767_225_600
"""2026-01-01: when these two models began to exist."""


class ChatApi:
    """Handlers of the chat endpoints."""

    def __init__(self, gate: Gate, chat: Chat, site: Site) -> None:
        self._gate, self._chat, self._site = gate, chat, site

    async def models(self, request: Request) -> Response:
        presented = await self._gate.reader(request, Scope.CHAT)
        await self._gate.read(self._site.at(presented.config_version))
        owner = self._site.settings.owner
        models = [Model(name, "model", MODELS_CREATED, owner) for name in MODELS]
        return Response(to_json(ModelList("list", models)).encode())

    async def completions(self, request: Request) -> Response:
        caller, body = await self._gate.caller(request, Scope.CHAT)
        return Response((await self._chat.complete(caller, body)).encode())
