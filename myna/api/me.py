"""GET /me."""

from myna.api.auth import Gate
from myna.edge import Request, Response
from myna.keys import Scope
from myna.wire.encode import to_json
from myna.wire.v1 import KeyInfo, KeyStats


class MeApi:
    """Handler of the key's self-information."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def me(self, request: Request) -> Response:
        key = (await self._gate.reader(request, Scope(0))).key
        stats = KeyStats(key.calls, key.cost, key.ok_calls)
        scopes, expires_at = Scope(key.scopes).names, key.expires_at // 1000
        info = KeyInfo(1, key.name, key.masked, scopes, key.calls, expires_at, stats)
        return Response(to_json(info).encode())
