"""Which compute nodes are online, and the estimated wait of a new task."""

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from myna.errors import DatabaseUnavailable
from myna.store.database import Database
from myna.store.queries.config import Config
from myna.store.queries.farm import able as store
from myna.store.queries.farm.able import OnlineNode, Queued

FRESH_S = 0.25
"""How long the state of the queue is cached. The process adds its own new tasks to the cached state."""

Nodes = Mapping[int, OnlineNode]
NO_NODES: Nodes = {}


class Capacity:
    """Estimates from the online nodes and their queue."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._queued: list[Queued] = []
        self._read_at = float("-inf")

    async def nodes(self, config: Config) -> Nodes:
        """The online nodes by id. Runs no query if no node has ever reported a voice."""
        if not config.node_voices and not config.node_clones:
            return NO_NODES
        try:
            return {node.id: node for node in await store.online_nodes(self._db)}
        except self._db.unavailable:
            raise DatabaseUnavailable from None

    async def wait_s(
        self,
        account_id: int,
        chars: int,
        capable: Iterable[int],
        nodes: Nodes,
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
                self._queued = await store.queued(self._db)
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


def _in_time(chars: float, among: set[int], nodes: Nodes, within_s: float) -> set[int]:
    """Those of these nodes that speak so many characters in `within_s`."""
    return {node for node in among if chars <= nodes[node].chars_per_s * within_s}


def _nodes_with(voice_id: str, nodes: Nodes, config: Config) -> set[int]:
    """The online nodes that have this voice; for a cloned voice, all online nodes that clone."""
    with_voice = {row.node_id for row in config.node_voices if row.voice_id == voice_id}
    return (with_voice or {row.node_id for row in config.node_clones}) & nodes.keys()


def _share(capable: set[int], with_voice: set[int], nodes: Nodes) -> float:
    """The part of a voice's tasks that the capable nodes will speak, by their part of its capacity."""
    total = sum(_capacity(nodes[node]) for node in with_voice)
    return sum(_capacity(nodes[node]) for node in with_voice & capable) / total if total else 0.0


def _capacity(node: OnlineNode) -> float:
    return node.chars_per_s * node.slots
