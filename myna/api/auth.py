"""Authentication of /v1 by API key."""

import hashlib
from collections.abc import Awaitable
from typing import TypeVar

from myna import keys
from myna.errors import InvalidRequest, MynaError
from myna.http.asgi import Request
from myna.keys import Scope, UnverifiedCaller
from myna.store.batch import IdempotencyKey
from myna.store.database import Database, in_time
from myna.store.queries.keys import PresentedKey

T = TypeVar("T")

UNVERIFIED_BODY_MAX_BYTES = 4 * 1024
"""A larger body is only read after its key was verified: verifying a key costs less than reading a large body
of an untrusted client."""
IDEMPOTENCY_KEY_MAX_CHARS = 255


class KeyAuth:
    """Authenticates requests. Every request queries the database: keys are not cached."""

    def __init__(self, db: Database, wait_s: float) -> None:
        self._db = db
        self._wait_s = wait_s

    async def reader(self, request: Request, scope: Scope) -> PresentedKey:
        """Verifies the key of a GET. Raises Unauthorized."""
        key_hash = keys.presented(request.authorization)
        return await self.read(keys.verify(self._db, key_hash, scope))

    async def caller(self, request: Request, scope: Scope) -> tuple[UnverifiedCaller, bytes]:
        """The caller of a POST, and its body. The charge verifies the key in its transaction. If the request
        is invalid, the key is verified first: 401 precedes 400."""
        key_hash = keys.presented(request.authorization)
        try:
            declared = request.declared_bytes
            if declared is None or UNVERIFIED_BODY_MAX_BYTES < declared <= request.limits.body_max_bytes:
                await self.read(keys.verify(self._db, key_hash, scope))
            body = await request.body(key_hash)
            return UnverifiedCaller(key_hash, scope, _idempotency_key(request, body)), body
        except MynaError:
            await self.read(keys.verify(self._db, key_hash, scope))
            raise

    async def read(self, query: Awaitable[T]) -> T:
        """Waits at most `wait_s` for a query. Raises DatabaseUnavailable."""
        return await in_time(self._db, query, self._wait_s)


def _idempotency_key(request: Request, body: bytes) -> IdempotencyKey | None:
    value = request.header(b"idempotency-key")
    if value is None:
        return None
    if not 1 <= len(value) <= IDEMPOTENCY_KEY_MAX_CHARS:
        raise InvalidRequest(f"Idempotency-Key: must have 1 to {IDEMPOTENCY_KEY_MAX_CHARS} characters.")
    fingerprint = hashlib.sha256(request.path.encode() + b"\0" + body).digest()
    return IdempotencyKey(hashlib.sha256(value).hexdigest(), fingerprint)
