"""Which compute nodes are online, what each can speak, and how long a new task would wait for its turn."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from myna.errors import DatabaseAway
from myna.store import outlook as store
from myna.store.database import Database
from myna.store.outlook import OnlineNode, Queued
from myna.store.site import Config

FRESH_S = 0.25
"""How old a look at the queue may be. What this process ordered since is added to it."""
UNTRIED_CHARS_PER_S = 15.0
"""The speed that a node is trusted with before it has shown one: that of somebody who reads aloud."""

Nodes = Mapping[int, OnlineNode]
NOBODY: Nodes = {}


class Outlook:
    """The nodes and their queue as this process sees them."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._queued: list[Queued] = []
        self._seen_at = float("-inf")

    async def nodes(self, config: Config) -> Nodes:
        """Those online now, by id. Costs nothing where no node ever said what it can do."""
        if not config.node_voices and not config.node_clones:
            return NOBODY
        try:
            return {node.id: node for node in await store.online(self._db)}
        except self._db.away:
            raise DatabaseAway from None

    async def wait_s(
        self, account_id: int, chars: int, able: Iterable[int], nodes: Nodes, config: Config
    ) -> float:
        """How long until a new task of the account is spoken by one of the `able` nodes, as fast as they have
        shown to be and with every account having its turn."""
        ahead = _ahead(account_id, await self._look())
        able = set(able)
        chars_ahead = sum(
            waiting * _share(able, _who_speaks(voice_id, nodes, config), nodes)
            for voice_id, waiting in ahead.items()
        )
        slowest = min(_speed(nodes[node]) for node in able)
        return chars_ahead / sum(_capacity(nodes[node]) for node in able) + chars / slowest

    def ordered(self, account_id: int, voice_id: str, chars: int) -> None:
        """A task was added to the queue just now."""
        self._queued.append(Queued(account_id, voice_id, 1, chars))

    async def _look(self) -> list[Queued]:
        now = time.monotonic()
        if now - self._seen_at > FRESH_S:
            try:
                self._queued = await store.queued(self._db)
            except self._db.away:
                raise DatabaseAway from None
            self._seen_at = now
        return self._queued


def _ahead(account_id: int, queued: list[Queued]) -> Counter[str]:
    """Characters that will be spoken before one more task of the account, by voice: all its own, and as many
    tasks of each other account, of that one's average length."""
    tasks: defaultdict[int, int] = defaultdict(int)
    for row in queued:
        tasks[row.account_id] += row.tasks
    turns = tasks[account_id] + 1
    ahead: Counter[str] = Counter()
    for row in queued:
        before = min(1.0, turns / tasks[row.account_id])
        ahead[row.voice_id] += round(row.chars * before)
    return ahead


def _who_speaks(voice_id: str, nodes: Nodes, config: Config) -> set[int]:
    """Of the nodes online, those that have this voice; any that clones for the voice of an account."""
    having = {row.node_id for row in config.node_voices if row.voice_id == voice_id}
    return (having or {row.node_id for row in config.node_clones}) & nodes.keys()


def _share(able: set[int], speaking: set[int], nodes: Nodes) -> float:
    """The part of a voice's tasks that the able nodes will do, others who have it doing theirs."""
    total = sum(_capacity(nodes[node]) for node in speaking)
    return sum(_capacity(nodes[node]) for node in speaking & able) / total if total else 0.0


def _speed(node: OnlineNode) -> float:
    return node.chars_per_s or UNTRIED_CHARS_PER_S


def _capacity(node: OnlineNode) -> float:
    return _speed(node) * node.slots
