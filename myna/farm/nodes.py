"""Compute nodes: registration, authentication and capabilities.

invited ──join──► offline ◄──heartbeat, silence──► online     a join token is valid once, for an hour
in any state: disabled (all requests are refused), draining (it gets no more jobs), removed

Only the answer to a join has a node's credential in plain text. It is valid for `/farm` only.
"""

import hashlib
import re
import secrets
from enum import StrEnum
from typing import Literal

from msgspec import Struct

from myna import activity
from myna.activity import Actor
from myna.channels import OF_NODE
from myna.errors import CommandError, NodeRefused, Unavailable
from myna.names import is_name
from myna.store.database import Database, Transaction
from myna.store.queries.farm import nodes as store
from myna.store.queries.farm.nodes import NodeRow
from myna.wire.farm import Hello

TOKEN_PREFIX = "mynajoin_"  # noqa: S105  no password
CREDENTIAL_PREFIX = "mynanode_"
TOKEN_LIFE_MS = 3_600_000
NAME_MAX_CHARS = 100
RECORD_REQUESTS_EVERY_MS = 5_000
"""The time of a node's last request is recorded at most once in this interval."""
CHANGES_TOO_OFTEN = (
    f"This node changes its voices more often than every {store.CHANGE_EVERY_MS // 1000} seconds;"
    " retry later."
)
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +(mynanode_[0-9a-f]{40}) *")
_TOKEN = re.compile(r"mynajoin_[0-9a-f]{40}")


class NodeState(StrEnum):
    """The state of a node in the output of `myna node list`."""

    INVITED = "invited"
    ONLINE = "online"
    OFFLINE = "offline"
    DISABLED = "disabled"
    DRAINING = "draining"


class Invitation(Struct, frozen=True):
    """A join token in plain text, which is not shown again. `expires_at` in Unix seconds."""

    name: str
    token: str
    expires_at: int


class JoinedNode(Struct, frozen=True):
    """A new node: its name, and its credential in plain text, which is not shown again."""

    name: str
    credential: str


class NodeStatus(Struct, frozen=True):
    """A node, its state, the ids of its voices, its languages for clones, and the number of its leased
    jobs."""

    node: NodeRow
    state: NodeState
    voices: list[str]
    clones: list[str]
    jobs: int


class Nodes:
    """The compute nodes of the service."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def enroll(self, name: str, *, again: bool = False, by: Actor) -> Invitation:
        """A join token for a new node, or for one that has not joined; it replaces an earlier token.

        With `again` also for a node that has joined. Its credential stays valid until the token is used.
        Raises CommandError.
        """
        if not is_name(name, NAME_MAX_CHARS):
            raise CommandError(
                "A node needs a name of 1 to {name_max_chars} printable characters.",
                name_max_chars=NAME_MAX_CHARS,
            )
        token = TOKEN_PREFIX + secrets.token_hex(20)

        async def work(connection: Transaction) -> int:
            until = await store.invite(connection, name, _hash(token.encode()), TOKEN_LIFE_MS, again)
            if until is None:
                raise CommandError(
                    "The node {name!r} has joined already; 'myna node enroll NAME --again' makes a"
                    " token that replaces its credential when it is used.",
                    name=name,
                )
            await activity.record(connection, by, activity.words("node", "enroll", name, again=again))
            return until

        return Invitation(name, token, await self._db.transaction(work) // 1000)

    async def join(self, token: str, version: str) -> JoinedNode:
        """Exchanges a join token for a credential. Raises NodeRefused."""
        credential = CREDENTIAL_PREFIX + secrets.token_hex(20)
        name = None
        if _TOKEN.fullmatch(token):
            hashes = _hash(token.encode()), _hash(credential.encode())
            name = await self._db.transaction(lambda connection: store.join(connection, *hashes, version))
        if name is None:
            raise NodeRefused(
                "This join token is unknown, used or older than an hour; ask the operator for a new one."
            )
        return JoinedNode(name, credential)

    async def verify(self, authorization: bytes | None) -> NodeRow:
        """The node whose credential is in an Authorization header. Raises NodeRefused."""
        credential = credential_in(authorization)
        if not credential:
            raise NodeRefused(
                "A compute node sends its credential as 'Authorization: Bearer <credential>': mynanode_ and"
                " 40 hex digits."
            )
        node = await store.by_credential(self._db, _hash(credential))
        if node is None:
            raise NodeRefused("This node is unknown: it was removed or has joined again; join again.")
        if node.disabled_at:
            raise NodeRefused("The operator has disabled this node; ask the operator.")
        return node

    async def hello(self, node: NodeRow, offer: Hello) -> None:
        """Records the node's capabilities; writes nothing if they are known. Raises NodeRefused if the node
        has been removed, and Unavailable if its voices change too often."""
        if not await store.differs(self._db, node, offer):
            if not offer.shutting_down:
                await self.record_request(node)
            return
        try:
            exists = await self._db.transaction(lambda connection: store.offer(connection, node.id, offer))
        except store.TooManyChanges:
            raise Unavailable(CHANGES_TOO_OFTEN) from None
        if not exists:
            raise NodeRefused("This node was removed; ask the operator.")

    async def record_request(self, node: NodeRow) -> None:
        """Records that the node sent a request, at most once in RECORD_REQUESTS_EVERY_MS."""
        if node.heard_at > node.now - RECORD_REQUESTS_EVERY_MS:
            return
        await self._db.transaction(lambda connection: store.record_request(connection, node))

    async def list(self) -> list[NodeStatus]:
        """All nodes, by name."""
        return [
            NodeStatus(
                node=node,
                state=state_of(node),
                voices=offered.voices,
                clones=offered.clones,
                jobs=offered.jobs,
            )
            for node, offered in await store.all_nodes(self._db)
        ]

    async def disable(self, name: str, *, by: Actor) -> None:
        """Disables the node: once this returns, all its requests are refused. Requeues its jobs."""
        await self._change(name, "disable", by)

    async def enable(self, name: str, *, by: Actor) -> None:
        """Enables a node that is disabled or draining."""
        await self._change(name, "enable", by)

    async def drain(self, name: str, *, by: Actor) -> None:
        """The node finishes its jobs and gets no more."""
        await self._change(name, "drain", by)

    async def remove(self, name: str, *, by: Actor) -> None:
        """Deletes the node with its credential and voices, and requeues its jobs."""
        await self._change(name, "remove", by)

    async def _change(
        self, name: str, change: Literal["enable", "disable", "drain", "remove"], by: Actor
    ) -> None:
        async def work(connection: Transaction) -> None:
            if change == "remove":
                found = await store.remove(connection, name)
            else:
                found = await store.set_state(connection, name, change)
            if not found:
                raise CommandError("There is no node {name!r}.", name=name)
            await activity.record(connection, by, activity.words("node", change, name))

        await self._db.transaction(work)


def credential_in(authorization: bytes | None) -> bytes:
    """The credential in an Authorization header; empty for a header of another form."""
    match = _BEARER.fullmatch(authorization or b"")
    return match[1] if match else b""


def node_channel(name: str) -> str:
    """Under what name a node's calls are reported beside those of the channels."""
    return OF_NODE + name


def state_of(node: NodeRow) -> NodeState:
    """The state of a node. What the operator has set precedes whether it is online."""
    if node.disabled_at:
        return NodeState.DISABLED
    if not node.joined_at:
        return NodeState.INVITED
    if node.draining:
        return NodeState.DRAINING
    return NodeState.ONLINE if node.online else NodeState.OFFLINE


def _hash(plain: bytes) -> bytes:
    return hashlib.sha256(plain).digest()
