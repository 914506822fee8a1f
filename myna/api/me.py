"""GET /me."""

from myna.api.auth import Gate
from myna.edge import Request, Response
from myna.keys import Scope
from myna.store import keys as store
from myna.store.database import Database
from myna.wire.encode import to_json
from myna.wire.v1 import KeyInfo, KeyStats


class MeApi:
    """Handler of the key's self-information."""

    def __init__(self, gate: Gate, db: Database) -> None:
        self._gate, self._db = gate, db

    async def me(self, request: Request) -> Response:
        key = (await self._gate.reader(request, Scope(0))).key
        used = await self._gate.read(store.usage(self._db, key.id))
        stats = KeyStats(used.calls, used.cost, used.ok_calls)
        scopes, expires_at = Scope(key.scopes).names, key.expires_at // 1000
        info = KeyInfo(1, key.name, key.masked, scopes, used.calls, expires_at, stats)
        return Response(to_json(info).encode())
