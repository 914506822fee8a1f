"""Compute nodes: registration, authentication and capabilities.

invited ──join──► offline ◄──heartbeat, silence──► online     a join token is valid once, for an hour
in any state: disabled (all requests are refused), draining (it gets no more jobs), removed

Only the answer to a join has a node's credential in plain text. It is valid for `/farm` only.
"""

import hashlib
import math
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from myna.channels.channels import OF_NODE
from myna.errors import DatabaseUnavailable, NodeRefused, Unavailable
from myna.store.database import Database
from myna.store.queries.config import Config
from myna.store.queries.farm import able
from myna.store.queries.farm import nodes as store
from myna.store.queries.farm.able import OnlineNode, Queued
from myna.store.queries.farm.nodes import NodeRow
from myna.wire.farm import Hello, Joined

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
FRESH_S = 0.25
"""How long the state of the queue is cached. The process adds its own new tasks to the cached state."""

OnlineNodes = Mapping[int, OnlineNode]
NO_NODES: OnlineNodes = {}
NOTATION_SINCE = (0, 31)
"""Older nodes would read the brackets of `engines/text/notation.py` aloud."""
LANGUAGE_SINCE = (0, 34)
"""Older nodes refuse a job with a `language`."""
_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\b.*")
_BEARER = re.compile(rb"[Bb][Ee][Aa][Rr][Ee][Rr] +(mynanode_[0-9a-f]{40}) *")
_TOKEN = re.compile(r"mynajoin_[0-9a-f]{40}")


class NodeState(StrEnum):
    """The state of a node in the output of `myna node list`."""

    INVITED = "invited"
    ONLINE = "online"
    OFFLINE = "offline"
    DISABLED = "disabled"
    DRAINING = "draining"


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

    async def join(self, token: str, version: str) -> Joined:
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
        return Joined(credential, name)

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


def has_feature(version: str, since: tuple[int, int]) -> bool:
    """Whether nodes of this version of Myna have a feature that exists since `since`."""
    found = _VERSION.fullmatch(version)
    return found is not None and (int(found[1]), int(found[2])) >= since


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


class Capacity:
    """Estimates from the online nodes and their queue."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._queued: list[Queued] = []
        self._read_at = float("-inf")

    async def nodes(self, config: Config) -> OnlineNodes:
        """The online nodes by id. Runs no query if no node has ever reported a voice."""
        if not config.node_voices and not config.node_clones:
            return NO_NODES
        try:
            return {node.id: node for node in await able.online_nodes(self._db)}
        except self._db.unavailable:
            raise DatabaseUnavailable from None

    async def wait_s(
        self,
        account_id: int,
        chars: int,
        capable: Iterable[int],
        nodes: OnlineNodes,
        config: Config,
        within_s: float = math.inf,
    ) -> float:
        """The estimated seconds until one of the `capable` nodes has spoken a new task of the account, which
        has a deadline in `within_s`. Uses the measured speeds, and fair queueing between accounts.

        A node gets only tasks that it can finish in time (`able.in_time`). So the slow ones are no part of
        the estimate for a long text, and whether it is done in time depends on the fastest one: it can take
        the task last, when what is ahead of it is done.
        """
        capable = set(capable)
        taking = _in_time(chars, capable, nodes, within_s) or capable
        chars_ahead = 0.0
        for row, queued in _ahead(account_id, await self._read()):
            with_voice = _nodes_with(row.voice_id, nodes, config)
            others = _in_time(row.chars / row.tasks, with_voice, nodes, within_s) or with_voice
            chars_ahead += queued * _share(taking, others, nodes)
        fastest = max(nodes[node].chars_per_s for node in taking)
        return chars_ahead / sum(_capacity(nodes[node]) for node in taking) + chars / fastest

    async def tasks_of(self, account_id: int) -> int:
        """The number of the account's tasks that are queued or leased."""
        return sum(row.tasks for row in await self._read() if row.account_id == account_id)

    def count_new_task(self, account_id: int, voice_id: str, chars: int) -> None:
        """Counts a task that was just added to the queue."""
        self._queued.append(Queued(account_id=account_id, voice_id=voice_id, tasks=1, chars=chars))

    async def _read(self) -> list[Queued]:
        now = time.monotonic()
        if now - self._read_at > FRESH_S:
            try:
                self._queued = await able.queued(self._db)
            except self._db.unavailable:
                raise DatabaseUnavailable from None
            self._read_at = now
        return self._queued


def _ahead(account_id: int, queued: list[Queued]) -> Iterator[tuple[Queued, float]]:
    """The characters of each row that will be spoken before a new task of the account: those of its earlier
    tasks, and of as many tasks of each other account, at that account's average length."""
    tasks: defaultdict[int, int] = defaultdict(int)
    for row in queued:
        tasks[row.account_id] += row.tasks
    rounds = tasks[account_id] + 1
    for row in queued:
        yield row, row.chars * min(1.0, rounds / tasks[row.account_id])


def _in_time(chars: float, among: set[int], nodes: OnlineNodes, within_s: float) -> set[int]:
    """Those of these nodes that speak so many characters in `within_s`."""
    return {node for node in among if chars <= nodes[node].chars_per_s * within_s}


def _nodes_with(voice_id: str, nodes: OnlineNodes, config: Config) -> set[int]:
    """The online nodes that have this voice; for a cloned voice, all online nodes that clone."""
    with_voice = {row.node_id for row in config.node_voices if row.voice_id == voice_id}
    return (with_voice or {row.node_id for row in config.node_clones}) & nodes.keys()


def _share(capable: set[int], with_voice: set[int], nodes: OnlineNodes) -> float:
    """The part of a voice's tasks that the capable nodes will speak, by their part of its capacity."""
    total = sum(_capacity(nodes[node]) for node in with_voice)
    return sum(_capacity(nodes[node]) for node in with_voice & capable) / total if total else 0.0


def _capacity(node: OnlineNode) -> float:
    return node.chars_per_s * node.slots
