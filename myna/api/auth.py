"""From the headers of a request to its caller."""

import hashlib
from collections.abc import Awaitable
from typing import TypeVar

from myna import keys
from myna.edge import Request
from myna.errors import InvalidRequest, MynaError
from myna.keys import Scope
from myna.ledger import Caller
from myna.store.batch import Reservation
from myna.store.database import Database, in_time
from myna.store.keys import Presented

T = TypeVar("T")

TRUSTED_BYTES = 4 * 1024
"""A larger body is only waited for, and read, once its key is known to be good: looking at a key costs less
than reading what a stranger made to be slow to read."""
RESERVATION_MAX_CHARS = 255


class Gate:
    """Who may pass. Looks at the database for every request: no key is remembered."""

    def __init__(self, db: Database, wait_s: float) -> None:
        self._db, self._wait_s = db, wait_s

    async def reader(self, request: Request, scope: Scope) -> Presented:
        """The caller of a GET. Raises Unauthorized."""
        key_hash = keys.presented(request.authorization)
        return await self.read(keys.verify(self._db, key_hash, scope))

    async def caller(self, request: Request, scope: Scope) -> tuple[Caller, bytes]:
        """The caller of a POST and its body. A good body leaves the key to be checked by the charge, in the
        same transaction; a body that is refused is only refused to somebody whose key is good."""
        key_hash = keys.presented(request.authorization)
        try:
            declared = request.declared_bytes
            if declared is None or TRUSTED_BYTES < declared <= request.limits.body_max_bytes:
                await self.read(keys.verify(self._db, key_hash, scope))
            body = await request.body()
            return Caller(key_hash, scope, _reservation(request, body)), body
        except MynaError:
            await self.read(keys.verify(self._db, key_hash, scope))
            raise

    async def read(self, query: Awaitable[T]) -> T:
        """Waits for a query, for so long. Raises DatabaseAway."""
        return await in_time(self._db, query, self._wait_s)


def _reservation(request: Request, body: bytes) -> Reservation | None:
    value = request.header(b"idempotency-key")
    if value is None:
        return None
    text = value.decode("latin-1")
    if not 1 <= len(text) <= RESERVATION_MAX_CHARS:
        raise InvalidRequest(f"Idempotency-Key: must have 1 to {RESERVATION_MAX_CHARS} characters.")
    fingerprint = hashlib.sha256(request.path.encode() + b"\0" + body).digest()
    return Reservation(text, fingerprint)
