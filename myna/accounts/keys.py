"""API keys: what one is, and how it is verified. The plain key is returned once, when it is issued."""

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from enum import IntFlag

from msgspec import Struct, field

from myna.accounts import caps
from myna.accounts.caps import Cap
from myna.accounts.limits import Given
from myna.accounts.limits import put as put_limits
from myna.accounts.throttle import KeyUse
from myna.errors import CommandError, ScopeMissing, Unauthorized
from myna.lib.telemetry.requests import RequestDetails
from myna.store.batch import IdempotencyKey
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import accounts
from myna.store.queries import config as route_store
from myna.store.queries import keys as store

PREFIX = "myna_"
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +(myna_[0-9a-f]{40}) *")
NAME_MAX_CHARS = 100
TRY_NAME = "Try"
"""The name of the internal key, after the page of the back office that uses it."""


class Scope(IntFlag):
    """The scopes of a key. The names are those of the API."""

    CHAT = 1
    TTS = 2
    RECORDS = 4

    @property
    def names(self) -> list[str]:
        return [scope.name.lower() for scope in Scope if scope in self and scope.name]


ALL_SCOPES = Scope.CHAT | Scope.TTS | Scope.RECORDS


class UnverifiedCaller(Struct, frozen=True):
    """A request's key before it is verified: its hash, the endpoint's scope, the idempotency key if any. No
    client sent a key without `use`.

    Only `Ledger.charge` turns it into a `Call`, which has a verified account.
    """

    key_hash: bytes
    scope: Scope
    idempotency_key: IdempotencyKey | None = None
    use: KeyUse | None = None
    details: RequestDetails = field(default_factory=RequestDetails)

    def found(self) -> None:
        """The key is valid. For the throttle of unknown keys."""
        if self.use is not None:
            self.use.verified()


class Issued(Struct, frozen=True):
    """A new key, the only time that the plain key is shown. `expires_at` in Unix seconds, 0: never."""

    id: int
    name: str
    key: str
    masked: str
    scopes: list[str]
    expires_at: int


def scopes_of(names: Iterable[str]) -> Scope:
    """The scopes of these names. Raises CommandError for an unknown name."""
    scopes = Scope(0)
    for name in names:
        if name != name.lower() or name.upper() not in Scope.__members__:
            raise CommandError("There is no scope {name!r}; there are chat, tts and records.", name=name)
        scopes |= Scope[name.upper()]
    return scopes


def hash_of(plain: str) -> bytes:
    """The SHA-256 of a key, which is all that is stored of it."""
    return hashlib.sha256(plain.encode()).digest()


def hash_in(authorization: bytes | None) -> bytes:
    """The SHA-256 of the key in an Authorization header. Raises Unauthorized if it has no key."""
    if authorization is None:
        raise Unauthorized("There is no API key; send it as 'Authorization: Bearer <key>'.")
    match = _BEARER.fullmatch(authorization)
    if not match:
        raise Unauthorized("The Authorization header must be 'Bearer' and a key: myna_ and 40 hex digits.")
    return hashlib.sha256(match[1]).digest()


async def verify(db: Queries, caller: UnverifiedCaller) -> store.KeySnapshot:
    """The caller's key if it is valid and has the scope. Raises Unauthorized with the reason."""
    found = await store.by_hash(db, caller.key_hash)
    if found is None:
        if caller.use is not None:
            caller.use.failed()
        raise Unauthorized("This API key is unknown; check that it is complete.")
    key = found.key
    details = caller.details
    details.account_id = key.account_id
    details.key_id = key.id
    details.balance = found.balance
    key_state = state(key, found.now)
    if key_state == "revoked":
        raise Unauthorized("This API key was revoked; use another one.")
    if key_state == "expired":
        raise Unauthorized("This API key has expired; use another one.")
    if key.account_disabled_at:
        raise Unauthorized("The account of this API key is disabled; ask the operator.")
    if caller.scope & ~Scope(key.scopes):
        raise ScopeMissing(
            "This API key lacks the {names} scope; use one that has it.", names=caller.scope.names[0]
        )
    caller.found()
    return found


def state(key: store.KeyRow, now: int) -> str:
    """The state of a key at `now` (Unix milliseconds): active, revoked or expired."""
    if key.revoked_at:
        return "revoked"
    return "expired" if key.expires_at and key.expires_at <= now else "active"


async def try_hash(db: Database, account_id: int) -> bytes:
    """The hash of the key that pays for what the account tries in the back office, made at the first use. No
    plain key has this hash, so no request from outside can use it. It has the scopes chat and tts, and is
    neither listed nor changed: `key` of the command line does not know it."""

    async def work(connection: Transaction) -> bytes:
        await accounts.lock(connection, account_id)
        made_before = await store.internal_hash(connection, account_id)
        if made_before:
            return made_before
        key_hash, scopes = secrets.token_bytes(32), int(Scope.CHAT | Scope.TTS)
        await store.insert_internal(connection, account_id, TRY_NAME, key_hash, scopes)
        return key_hash

    found = await store.internal_hash(db, account_id)
    return found if found else await db.transaction(work)


class Terms(Struct, frozen=True):
    """What a new key may do, for how long, and what limits it."""

    scopes: Scope
    life_ms: int
    cap: Cap | None
    routes: Sequence[str] | None
    limits: Given


async def insert(connection: Transaction, account_id: int, name: str, terms: Terms) -> Issued:
    """Issues a key of a locked account."""
    plain = PREFIX + secrets.token_hex(20)
    masked = plain[: len(PREFIX) + 6] + "***"
    key_id, expires_at_ms = await store.insert(
        connection,
        account_id,
        name=name,
        key_hash=hash_of(plain),
        masked=masked,
        scopes=int(terms.scopes),
        life_ms=terms.life_ms,
    )
    if terms.cap:
        await caps.put(connection, key_id, terms.cap)
    if terms.routes is not None:
        await route_store.set_routes_of_key(connection, key_id, terms.routes)
    await put_limits(connection, account_id, terms.limits, key_id)
    return Issued(
        id=key_id,
        name=name,
        key=plain,
        masked=masked,
        scopes=terms.scopes.names,
        expires_at=expires_at_ms // 1000,
    )
