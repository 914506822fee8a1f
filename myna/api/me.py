"""GET /me."""

from myna.api import units
from myna.api.auth import KeyAuth
from myna.http.request import Request
from myna.http.responses import Response
from myna.keys import Scope
from myna.store.database import Database
from myna.store.queries import keys as store
from myna.wire.encode import to_json
from myna.wire.v1 import KeyInfo, KeyStats


class MeApi:
    """Handler of the key's self-information."""

    def __init__(self, key_auth: KeyAuth, db: Database) -> None:
        self._key_auth = key_auth
        self._db = db

    async def me(self, request: Request) -> Response:
        key = (await self._key_auth.verify(request, Scope(0))).key
        used = await self._key_auth.in_time(store.usage(self._db, key.id))
        stats = KeyStats(used.calls, used.cost, used.ok_calls)
        scopes, expires_at = Scope(key.scopes).names, key.expires_at // 1000
        info = KeyInfo(
            ok=1,
            key_name=key.name,
            masked=key.masked,
            scopes=scopes,
            use_count=used.calls,
            expires_at=expires_at,
            stats=stats,
        )
        return Response(to_json(info), headers=units.headers(request.details))
