"""Changes of API keys. The plain key of a new one is returned once, and never recorded."""

import re
from typing import Annotated, Generic, Protocol

from msgspec import Struct, structs

from myna.accounts import caps, keys
from myna.accounts.keys import ALL_SCOPES, Issued, Scope, Terms
from myna.accounts.limits import Given, of_row, parsed
from myna.accounts.limits import put as put_limits
from myna.actions import Action, Change, Field, R
from myna.channels.routes import check_known
from myna.errors import CommandError
from myna.lib import times
from myna.lib.names import check_name
from myna.store.queries import config as route_store
from myna.store.queries import keys as store
from myna.store.queries.keys import KeyRow

_VALUES = "a number, none, or default for the site's."
Rpm = Annotated[
    str | None,
    Field(f"Calls in a minute: {_VALUES}", value="NUMBER", hyphen=True, label="Calls per minute at most"),
]
Concurrent = Annotated[str | None, Field(f"Concurrent calls: {_VALUES}", value="NUMBER", hyphen=True)]
UnitsPerDay = Annotated[
    str | None,
    Field(f"Units in 24 hours: {_VALUES}", value="NUMBER", hyphen=True, label="Units in 24 hours at most"),
]
NO_CAP = "none"
"""Written in a command for the removal of a cap."""
_ID = re.compile(r"[1-9][0-9]{0,15}")
_CAP = "Units per day, week or month, such as 1000/month."
_ROUTE = Field(
    "A route that the key may use; may be given often; any by default.",
    value="NAME",
    label="Models it may use",
)


class _Limited(Protocol):
    @property
    def rpm(self) -> str | None: ...
    @property
    def concurrent(self) -> str | None: ...
    @property
    def units_per_day(self) -> str | None: ...


def given_limits(action: _Limited) -> Given:
    """The limits that an action sets. Raises CommandError."""
    return parsed(rpm=action.rpm, concurrent=action.concurrent, units_per_day=action.units_per_day)


class IssueKey(Action[Issued], frozen=True):
    """Issue a key. The plain key is printed once and not stored."""

    command = "key issue"
    account: Annotated[str, Field("The name of the account.", argument="ACCOUNT")]
    name: Annotated[str | None, Field("A name for the key, such as its purpose; key N by default.")] = None
    scope: Annotated[
        tuple[str, ...] | None,
        Field("chat, tts or records; may be given often; all by default.", label="Scopes"),
    ] = None
    expires_in: Annotated[
        str, Field("Such as 30d, 12h, 90s.", value="SPAN", hyphen=True, label="Expires")
    ] = ""
    cap: Annotated[str, Field(_CAP, hyphen=True)] = ""
    route: Annotated[tuple[str, ...] | None, _ROUTE] = None
    rpm: Rpm = None
    concurrent: Concurrent = None
    units_per_day: UnitsPerDay = None

    def check_values(self) -> None:
        if self.name is not None:
            check_name(self.name, keys.NAME_MAX_CHARS)
        if not self._terms().scopes:
            raise CommandError("A key needs at least one scope: chat, tts, records.", "scope")

    def _terms(self) -> Terms:
        return Terms(
            scopes=ALL_SCOPES if self.scope is None else keys.scopes_of(self.scope),
            life_ms=times.parse_duration(self.expires_in) if self.expires_in else 0,
            cap=caps.parsed(self.cap) if self.cap else None,
            routes=self.route,
            limits=given_limits(self),
        )

    async def run(self, change: Change) -> Issued:
        account = await change.account(self.account)
        others = sum(not row.internal for row in await store.of_account(change.db, account.id))
        name = f"key {others + 1}" if self.name is None else self.name
        await check_known(change.db, self.route or ())
        terms = self._terms()
        change.performed = [structs.replace(self, name=name, scope=tuple(terms.scopes.names))]
        return await keys.insert(change.db, account.id, name, terms)


class _KeyAction(Action[R], Generic[R], frozen=True):
    key: Annotated[
        str, Field("The name of the key, or its id in 'myna key list'.", argument="KEY", hyphen=True)
    ]

    async def locked(self, change: Change) -> KeyRow:
        """The key, whose account is locked. It is recorded by its id. Raises CommandError."""
        key_id = int(self.key) if _ID.fullmatch(self.key) else await _id_of(change, self.key)
        key = await store.locked(change.db, key_id, change.owner_id)
        if key is None:
            raise CommandError("There is no key {key_id}.", key_id=key_id)
        change.account_id = key.account_id
        change.performed = [structs.replace(self, key=str(key.id))]
        return key


class SetKeyCap(_KeyAction[KeyRow], frozen=True):
    """Cap the units that a key may use in each day, week or month, or remove its cap. A cap with another
    period counts from now on; one with other units keeps what is used."""

    command = "key cap"
    cap: Annotated[str, Field(f"{_CAP} Or none.", argument="CAP", hyphen=True)]

    def check_values(self) -> None:
        if self.cap != NO_CAP:
            caps.parsed(self.cap)

    async def run(self, change: Change) -> KeyRow:
        key = await self.locked(change)
        await change.compare(store.cap_of, key.id)
        await caps.put(change.db, key.id, None if self.cap == NO_CAP else caps.parsed(self.cap))
        return key


class LimitKey(_KeyAction[KeyRow], frozen=True):
    """Limit the calls and units of a key; options that are not given stay as they are."""

    command = "key limit"
    rpm: Rpm = None
    concurrent: Concurrent = None
    units_per_day: UnitsPerDay = None

    def check_values(self) -> None:
        self.check_given()
        given_limits(self)

    async def run(self, change: Change) -> KeyRow:
        key = await self.locked(change)
        await change.compare(store.limits_of, key.account_id, key.id)
        await put_limits(change.db, key.account_id, given_limits(self), key.id)
        return key


class SetKeyRoutes(_KeyAction[KeyRow], frozen=True):
    """Limit a key to routes, or let it use any again."""

    command = "key routes"
    route: Annotated[tuple[str, ...] | None, _ROUTE] = None
    any: Annotated[bool, Field("It may use any route.")] = False

    def check_values(self) -> None:
        if bool(self.route) is self.any:
            raise CommandError("Give either --route, once for each route, or --any.")

    async def run(self, change: Change) -> KeyRow:
        key = await self.locked(change)
        await check_known(change.db, self.route or ())
        await change.compare(route_store.routes_of_key, key.id)
        await route_store.set_routes_of_key(change.db, key.id, None if self.any else self.route)
        return key


class Rolled(Struct, frozen=True):
    """A new key that replaces `old`, and when that one expires, in Unix seconds."""

    issued: Issued
    old: KeyRow
    old_expires_at: int


class RollKey(_KeyAction[Rolled], frozen=True):
    """Replace a key by a new one with the same name and scopes, printed once. The old one expires."""

    command = "key roll"
    grace: Annotated[
        str,
        Field(
            "How long the old key still works.",
            value="SPAN",
            hyphen=True,
            label="The old key works for another",
        ),
    ] = "7d"

    def check_values(self) -> None:
        times.parse_duration(self.grace)

    async def run(self, change: Change) -> Rolled:
        old = await self.locked(change)
        ((now,),) = await change.db.fetch("SELECT now_ms()")
        if keys.state(old, now) != "active":
            raise CommandError(
                "The key {key_id} is {what}; issue a new one.", key_id=old.id, what=keys.state(old, now)
            )
        cap = await store.cap_of(change.db, old.id)
        terms = Terms(
            scopes=Scope(old.scopes),
            life_ms=old.expires_at - old.created_at if old.expires_at else 0,
            cap=caps.of_row(cap) if cap else None,
            routes=await route_store.routes_of_key(change.db, old.id),
            limits=of_row(await store.limits_of(change.db, old.account_id, old.id)),
        )
        issued = await keys.insert(change.db, old.account_id, old.name, terms)
        expires_at = await store.expire(change.db, old.id, times.parse_duration(self.grace))
        return Rolled(issued, old, expires_at // 1000)


class RenameKey(_KeyAction[KeyRow], frozen=True):
    """Rename a key."""

    command = "key rename"
    name: Annotated[str, Field("Its new name.", argument="NAME")]

    def check_values(self) -> None:
        check_name(self.name, keys.NAME_MAX_CHARS)

    async def run(self, change: Change) -> KeyRow:
        key = await self.locked(change)
        await change.compare(store.of_account_by_id, key.account_id, key.id)
        await store.rename(change.db, key.id, self.name)
        return key


class RevokeKey(_KeyAction[KeyRow], frozen=True):
    """Revoke a key: every process refuses it."""

    command = "key revoke"

    async def run(self, change: Change) -> KeyRow:
        key = await self.locked(change)
        await change.compare(store.of_account_by_id, key.account_id, key.id)
        await store.revoke(change.db, key.id)
        return key


async def _id_of(change: Change, name: str) -> int:
    """The id of the key of this name that is not revoked. Raises CommandError if it isn't the only one."""
    found = await store.of_name(change.db, name)
    if not found:
        raise CommandError(
            "There is no key {name!r}; 'myna key list ACCOUNT' has the names and ids.", name=name
        )
    if len(found) > 1:
        ids = ", ".join(f"{key_id} (of {owner})" for key_id, owner in found.items())
        raise CommandError("There are several keys {name!r}; name one by its id: {ids}.", name=name, ids=ids)
    return next(iter(found))
