"""Compute nodes: registration, authentication and capabilities.

invited ──join──► offline ◄──heartbeat, silence──► online     a join token is valid once, for an hour
in any state: disabled (all requests are refused), draining (it gets no more jobs), removed

Only the answer to a join has a node's credential in plain text. It is valid for `/farm` only.
"""

import hashlib
import re
import secrets
from enum import StrEnum

from msgspec import Struct

from myna.channels.channels import OF_NODE
from myna.errors import NodeRefused, Unavailable
from myna.store.database import Database
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
        self.db = db

    async def join(self, token: str, version: str) -> JoinedNode:
        """Exchanges a join token for a credential. Raises NodeRefused."""
        credential = CREDENTIAL_PREFIX + secrets.token_hex(20)
        name = None
        if _TOKEN.fullmatch(token):
            hashes = hash_of(token.encode()), hash_of(credential.encode())
            name = await self.db.transaction(lambda connection: store.join(connection, *hashes, version))
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
        node = await store.by_credential(self.db, hash_of(credential))
        if node is None:
            raise NodeRefused("This node is unknown: it was removed or has joined again; join again.")
        if node.disabled_at:
            raise NodeRefused("The operator has disabled this node; ask the operator.")
        return node

    async def hello(self, node: NodeRow, offer: Hello) -> None:
        """Records the node's capabilities; writes nothing if they are known. Raises NodeRefused if the node
        has been removed, and Unavailable if its voices change too often."""
        if not await store.differs(self.db, node, offer):
            if not offer.shutting_down:
                await self.record_request(node)
            return
        try:
            exists = await self.db.transaction(lambda connection: store.offer(connection, node.id, offer))
        except store.TooManyChanges:
            raise Unavailable(CHANGES_TOO_OFTEN) from None
        if not exists:
            raise NodeRefused("This node was removed; ask the operator.")

    async def record_request(self, node: NodeRow) -> None:
        """Records that the node sent a request, at most once in RECORD_REQUESTS_EVERY_MS."""
        if node.heard_at > node.now - RECORD_REQUESTS_EVERY_MS:
            return
        await self.db.transaction(lambda connection: store.record_request(connection, node))

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
            for node, offered in await store.all_nodes(self.db)
        ]


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


def hash_of(plain: bytes) -> bytes:
    """What is stored of a token or a credential."""
    return hashlib.sha256(plain).digest()
