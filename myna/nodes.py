"""Compute nodes: who may work for the site, and what each can do.

invited ──join──► offline ◄──── heard ────► online       a token opens the first step: once, within an hour
any of them: disabled (nothing opens to it), draining (it gets no more jobs), removed

A node's credential exists once in plain, in the answer to its join. It opens `/farm` and nothing else.
"""

import hashlib
import re
import secrets
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from myna.errors import CommandError, NodeRefused
from myna.store import nodes as store
from myna.store.database import Connection, Database
from myna.store.nodes import NodeRow, Offer

TOKEN_PREFIX, CREDENTIAL_PREFIX = "mynajoin_", "mynanode_"
TOKEN_LIFE_MS = 3_600_000
NAME_MAX_CHARS = 100
HEARD_AGAIN_MS = 5_000
"""What is heard within this time of the last note isn't noted again."""
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +(mynanode_[0-9a-f]{40}) *")
_TOKEN = re.compile(r"mynajoin_[0-9a-f]{40}")


class State(StrEnum):
    """How a node stands, as `myna node list` says it."""

    INVITED = "invited"
    ONLINE = "online"
    OFFLINE = "offline"
    DISABLED = "disabled"
    DRAINING = "draining"


class Invited(Struct, frozen=True):
    """A join token, in plain for the only time. `expires_at` in Unix seconds."""

    name: str
    token: str
    expires_at: int


class Admitted(Struct, frozen=True):
    """A node that has joined: its credential, in plain for the only time, and the name it was given."""

    name: str
    credential: str


class Known(Struct, frozen=True):
    """A node, how it stands, the ids of its voices, the languages it clones in, how many jobs it holds."""

    node: NodeRow
    state: State
    voices: list[str]
    clones: list[str]
    jobs: int


class Nodes:
    """The compute nodes of the site."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def enroll(self, name: str, *, again: bool = False) -> Invited:
        """A token for a new node, or another for one that hasn't joined yet; an earlier token is void.

        With `again` also for one that has: its credential is good until the token is used.
        """
        if not name.strip() or len(name) > NAME_MAX_CHARS or not name.isprintable():
            raise CommandError(f"A node needs a name of 1 to {NAME_MAX_CHARS} printable characters.")
        token = TOKEN_PREFIX + secrets.token_hex(20)

        async def work(connection: Connection) -> int | None:
            return await store.invite(connection, name, _hash(token.encode()), TOKEN_LIFE_MS, again)

        until = await self._db.transaction(work)
        if until is None:
            raise CommandError(
                f"The node {name!r} has joined already; 'myna node enroll NAME --again' makes a token that"
                " replaces its credential when it is used."
            )
        return Invited(name, token, until // 1000)

    async def join(self, token: str, version: str) -> Admitted:
        """The credential for who holds the token. Raises NodeRefused."""
        credential = CREDENTIAL_PREFIX + secrets.token_hex(20)

        async def work(connection: Connection) -> str | None:
            return await store.join(connection, _hash(token.encode()), _hash(credential.encode()), version)

        name = await self._db.transaction(work) if _TOKEN.fullmatch(token) else None
        if name is None:
            raise NodeRefused(
                "This join token is unknown, used or older than an hour; ask the operator for a new one."
            )
        return Admitted(name, credential)

    async def verify(self, authorization: bytes | None) -> NodeRow:
        """The node whose credential an Authorization header shows, as it stands now. Raises NodeRefused."""
        match = _BEARER.fullmatch(authorization or b"")
        if not match:
            raise NodeRefused(
                "A compute node shows its credential as 'Authorization: Bearer <credential>': mynanode_ and"
                " 40 hex digits."
            )
        node = await store.by_credential(self._db, _hash(match[1]))
        if node is None:
            raise NodeRefused("This node is unknown here: it was removed or has joined anew; join again.")
        if node.disabled_at:
            raise NodeRefused("The operator has disabled this node; ask the operator.")
        return node

    async def hello(self, node: NodeRow, offer: Offer) -> None:
        """What the node can do from now on. Raises NodeRefused where it was removed just now."""

        async def work(connection: Connection) -> bool:
            return await store.offer(connection, node.id, offer)

        if not await self._db.transaction(work):
            raise NodeRefused("This node was removed; ask the operator.")

    async def heard(self, node: NodeRow) -> None:
        """The node is there. Written down when the last note is a few seconds old."""
        if node.heard_at > node.now - HEARD_AGAIN_MS:
            return

        async def work(connection: Connection) -> None:
            await store.heard(connection, node)

        await self._db.transaction(work)

    async def list(self) -> list[Known]:
        """All nodes, by name."""
        return [
            Known(node, state_of(node), offered.voices, offered.clones, offered.jobs)
            for node, offered in await store.everyone(self._db)
        ]

    async def disable(self, name: str) -> None:
        """Nothing opens to the node from the moment this returns; what it holds is queued again."""
        await self._put(name, "disable")

    async def enable(self, name: str) -> None:
        """Lets a node work that was disabled or draining."""
        await self._put(name, "enable")

    async def drain(self, name: str) -> None:
        """The node ends what it has and gets nothing more."""
        await self._put(name, "drain")

    async def remove(self, name: str) -> None:
        """The node is gone with its credential and voices; what it holds is queued again."""

        async def work(connection: Connection) -> bool:
            return await store.remove(connection, name)

        if not await self._db.transaction(work):
            raise CommandError(f"There is no node {name!r}.")

    async def _put(self, name: str, state: Literal["enable", "disable", "drain"]) -> None:
        async def work(connection: Connection) -> bool:
            return await store.put(connection, name, state)

        if not await self._db.transaction(work):
            raise CommandError(f"There is no node {name!r}.")


def state_of(node: NodeRow) -> State:
    """What stands in its way goes before whether it is there."""
    if node.disabled_at:
        return State.DISABLED
    if not node.joined_at:
        return State.INVITED
    if node.draining:
        return State.DRAINING
    return State.ONLINE if node.online else State.OFFLINE


def _hash(plain: bytes) -> bytes:
    return hashlib.sha256(plain).digest()
