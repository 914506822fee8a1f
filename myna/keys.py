"""API keys: issue, verify, revoke. The plain key is returned once, when it is issued."""

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from enum import IntFlag

from msgspec import Struct, field

from myna import activity, caps, durations
from myna.activity import Actor
from myna.caps import Cap
from myna.errors import CommandError, ScopeMissing, Unauthorized
from myna.key_throttle import KeyUse
from myna.limits import NO_CHANGE, Given, as_texts, of_row
from myna.limits import put as put_limits
from myna.names import is_name
from myna.routes import check_known
from myna.store.batch import IdempotencyKey
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import accounts
from myna.store.queries import caps as cap_store
from myna.store.queries import keys as store
from myna.store.queries import limits as limit_store
from myna.store.queries import routes as route_store
from myna.telemetry.requests import RequestDetails

PREFIX = "myna_"
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +(myna_[0-9a-f]{40}) *")
NAME_MAX_CHARS = 100
NO_CAP = "none"
"""Written in a command for the removal of a cap."""
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


class Rolled(Struct, frozen=True):
    """A new key that replaces another, and when that one expires, in Unix seconds."""

    issued: Issued
    old_expires_at: int


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


def unverified(authorization: bytes | None, scope: Scope) -> UnverifiedCaller:
    """The caller of a request with this Authorization header. Raises Unauthorized if it has no key."""
    if authorization is None:
        raise Unauthorized("There is no API key; send it as 'Authorization: Bearer <key>'.")
    match = _BEARER.fullmatch(authorization)
    if not match:
        raise Unauthorized("The Authorization header must be 'Bearer' and a key: myna_ and 40 hex digits.")
    return UnverifiedCaller(hashlib.sha256(match[1]).digest(), scope)


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


async def issue(
    db: Database,
    account_id: int,
    name: str,
    scopes: Scope,
    life_ms: int,
    *,
    by: Actor,
    cap: Cap | None = None,
    routes: Sequence[str] | None = None,
    limits: Given = NO_CHANGE,
) -> Issued:
    """Issues a key of the account; `life_ms` 0: it never expires. With `routes` it is limited to these.
    Raises CommandError."""
    _check_name(name)
    if not scopes:
        raise CommandError("A key needs at least one scope: chat, tts, records.")

    async def work(connection: Transaction) -> Issued:
        account = await accounts.by_id(connection, account_id)
        if account is None:
            raise CommandError("There is no such account.")
        command = activity.words(
            *("key", "issue", account.name),
            name=name,
            scope=scopes.names,
            expires_in=durations.text_of(life_ms) if life_ms else None,
            cap=str(cap) if cap else None,
            route=routes,
            **as_texts(limits),
        )
        await accounts.lock(connection, account_id)
        if routes is not None:
            await check_known(connection, routes)
        await activity.record(connection, by, command, account_id)
        terms = _Terms(scopes=scopes, life_ms=life_ms, cap=cap, routes=routes, limits=limits)
        return await _insert(connection, account_id, name, terms)

    return await db.transaction(work)


async def roll(
    db: Database, key_id: int, grace_ms: int, *, by: Actor, account_id: int | None = None
) -> Rolled:
    """Issues a key with the name, scopes, routes, cap and limits of a key, of `account_id` if given, which
    expires after `grace_ms` at the latest. The new key lives as long as that one was issued for, and nothing
    of its cap and limits is used. Raises CommandError."""
    command = activity.words("key", "roll", key_id, grace=durations.text_of(grace_ms))

    async def work(connection: Transaction) -> Rolled:
        old = await _locked(connection, key_id, account_id)
        ((now,),) = await connection.fetch("SELECT now_ms()")
        if state(old, now) != "active":
            raise CommandError(
                "The key {key_id} is {what}; issue a new one.", key_id=key_id, what=state(old, now)
            )
        issued = await _insert(connection, old.account_id, old.name, await _terms_of(connection, old))
        expires_at = await store.expire(connection, key_id, grace_ms)
        await activity.record(connection, by, command, old.account_id)
        return Rolled(issued, expires_at // 1000)

    return await db.transaction(work)


async def rename(db: Database, key_id: int, name: str, *, by: Actor, account_id: int | None = None) -> None:
    """Renames a key, of `account_id` if given. Raises CommandError."""
    _check_name(name)

    async def work(connection: Transaction) -> None:
        key = await _locked(connection, key_id, account_id)
        await store.rename(connection, key_id, name)
        command = activity.words("key", "rename", key_id, name)
        await activity.record(connection, by, command, key.account_id)

    await db.transaction(work)


async def set_cap(
    db: Database, key_id: int, cap: Cap | None, *, by: Actor, account_id: int | None = None
) -> None:
    """Sets the cap of a key, of `account_id` if given, or removes it. A cap with another period counts from
    now on; one with other units keeps what is used. Raises CommandError."""

    async def work(connection: Transaction) -> None:
        key = await _locked(connection, key_id, account_id)
        await caps.put(connection, key_id, cap)
        command = activity.words("key", "cap", key_id, str(cap) if cap else NO_CAP)
        await activity.record(connection, by, command, key.account_id)

    await db.transaction(work)


async def set_routes(
    db: Database, key_id: int, routes: Sequence[str] | None, *, by: Actor, account_id: int | None = None
) -> None:
    """Limits a key, of `account_id` if given, to these routes, or with None to any. Raises CommandError."""
    command = activity.words("key", "routes", key_id, route=routes, any=routes is None)

    async def work(connection: Transaction) -> None:
        key = await _locked(connection, key_id, account_id)
        await check_known(connection, routes or ())
        await route_store.set_of_key(connection, key_id, routes)
        await activity.record(connection, by, command, key.account_id)

    await db.transaction(work)


async def set_limits(
    db: Database, key_id: int, limits: Given, *, by: Actor, account_id: int | None = None
) -> None:
    """Sets limits of a key, of `account_id` if given. What is used of them stays. Raises CommandError."""
    command = activity.words("key", "limit", key_id, **as_texts(limits))

    async def work(connection: Transaction) -> None:
        key = await _locked(connection, key_id, account_id)
        await put_limits(connection, key.account_id, limits, key_id)
        await activity.record(connection, by, command, key.account_id)

    await db.transaction(work)


async def revoke(db: Database, key_id: int, *, by: Actor, account_id: int | None = None) -> None:
    """Revokes a key, of `account_id` if given. Every process refuses it once this returns. Raises
    CommandError."""

    async def work(connection: Transaction) -> None:
        key = await _locked(connection, key_id, account_id)
        await store.revoke(connection, key_id)
        await activity.record(connection, by, activity.words("key", "revoke", key_id), key.account_id)

    await db.transaction(work)


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


async def _locked(connection: Transaction, key_id: int, account_id: int | None) -> store.KeyRow:
    """The key, whose account is locked. Raises CommandError if there is none, or none of this account."""
    key = await store.locked(connection, key_id, account_id)
    if key is None:
        raise CommandError("There is no key {key_id}.", key_id=key_id)
    return key


class _Terms(Struct, frozen=True):
    """What a new key may do, for how long, and what limits it."""

    scopes: Scope
    life_ms: int
    cap: Cap | None
    routes: Sequence[str] | None
    limits: Given


async def _terms_of(connection: Transaction, key: store.KeyRow) -> _Terms:
    """The terms on which a key was issued, or that were set since."""
    cap = await cap_store.of_key(connection, key.id)
    return _Terms(
        scopes=Scope(key.scopes),
        life_ms=key.expires_at - key.created_at if key.expires_at else 0,
        cap=caps.of_row(cap) if cap else None,
        routes=await route_store.of_key(connection, key.id),
        limits=of_row(await limit_store.of_key(connection, key.account_id, key.id)),
    )


async def _insert(connection: Transaction, account_id: int, name: str, terms: _Terms) -> Issued:
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
        await route_store.set_of_key(connection, key_id, terms.routes)
    await put_limits(connection, account_id, terms.limits, key_id)
    return Issued(
        id=key_id,
        name=name,
        key=plain,
        masked=masked,
        scopes=terms.scopes.names,
        expires_at=expires_at_ms // 1000,
    )


def _check_name(name: str) -> None:
    if not is_name(name, NAME_MAX_CHARS):
        raise CommandError(
            "A key needs a name of 1 to {name_max_chars} printable characters.", name_max_chars=NAME_MAX_CHARS
        )
