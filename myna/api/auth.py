"""Authentication of /v1 by API key."""

import hashlib
from collections.abc import Awaitable
from typing import TypeVar

from msgspec import structs

from myna.accounts import keys
from myna.accounts.keys import Scope, UnverifiedCaller
from myna.accounts.throttle import KeyThrottle
from myna.config import ConfigCache
from myna.errors import InvalidRequest, ModelNotFound, MynaError, Unauthorized
from myna.http.request import Request
from myna.store.batch import IdempotencyKey
from myna.store.database import Database, in_time
from myna.store.queries.keys import KeyRow, KeySnapshot

T = TypeVar("T")

UNVERIFIED_BODY_MAX_BYTES = 4 * 1024
"""A larger body is only read after its key was verified: verifying a key costs less than reading a large body
of an untrusted client."""
IDEMPOTENCY_KEY_MAX_CHARS = 255


def model_refused(error: ModelNotFound) -> Unauthorized:
    """On /v1 every model exists: that one is not found means that the key is limited to other routes."""
    return Unauthorized(f"This API key may not use the model {error.model}; use another key.")


class KeyAuth:
    """Authenticates requests. Every request queries the database: keys are not cached."""

    def __init__(self, db: Database, config: ConfigCache, wait_s: float, throttle: KeyThrottle) -> None:
        self._db = db
        self._config = config
        self._wait_s = wait_s
        self._throttle = throttle

    async def verify(self, request: Request, scope: Scope) -> KeyRow:
        """The key of a GET, with the current configuration loaded. Raises Unauthorized, RateLimited."""
        verified = await self._verify(self._unverified(request, scope))
        await self.in_time(self._config.at(verified.config_version))
        return verified.key

    async def caller_and_body(self, request: Request, scope: Scope) -> tuple[UnverifiedCaller, bytes]:
        """The caller of a POST, and its body. The charge verifies the key in its transaction. If the request
        is invalid, the key is verified first: 401 precedes 400. Raises MynaError."""
        caller = self._unverified(request, scope)
        declared = request.declared_bytes
        if declared is None or UNVERIFIED_BODY_MAX_BYTES < declared <= request.limits.body_max_bytes:
            await self._verify(caller)
        try:
            body = await request.body()
            idempotency_key = _idempotency_key(request, body)
        except MynaError:
            await self._verify(caller)
            raise
        if idempotency_key is not None:
            caller = structs.replace(caller, idempotency_key=idempotency_key)
        return caller, body

    async def verified_caller(self, request: Request, scope: Scope) -> UnverifiedCaller:
        """The caller of a POST whose body is large: its key is verified before the body is read, and again by
        the charge. Raises Unauthorized, RateLimited."""
        caller = self._unverified(request, scope)
        await self._verify(caller)
        return caller

    def with_idempotency_key(
        self, request: Request, caller: UnverifiedCaller, content: bytes
    ) -> UnverifiedCaller:
        """The caller with the request's idempotency key, if it has one. `content` is the part of the body
        that a retry repeats. Raises InvalidRequest."""
        return structs.replace(caller, idempotency_key=_idempotency_key(request, content))

    async def in_time(self, query: Awaitable[T]) -> T:
        """The query's result. Raises DatabaseUnavailable after `wait_s`."""
        return await in_time(self._db, query, self._wait_s)

    def _unverified(self, request: Request, scope: Scope) -> UnverifiedCaller:
        key_hash = keys.hash_in(request.authorization)
        use = self._throttle.begin(request.address, key_hash)
        return UnverifiedCaller(key_hash, scope, use=use, details=request.details)

    async def _verify(self, caller: UnverifiedCaller) -> KeySnapshot:
        return await self.in_time(keys.verify(self._db, caller))


def _idempotency_key(request: Request, body: bytes) -> IdempotencyKey | None:
    value = request.header(b"idempotency-key")
    if value is None:
        return None
    if not 1 <= len(value) <= IDEMPOTENCY_KEY_MAX_CHARS:
        raise InvalidRequest(
            f"must have 1 to {IDEMPOTENCY_KEY_MAX_CHARS} characters.", field="Idempotency-Key"
        )
    fingerprint = hashlib.sha256(request.path.encode() + b"\0" + body).digest()
    return IdempotencyKey(hashlib.sha256(value).hexdigest(), fingerprint)
