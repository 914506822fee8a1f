"""What is queued for the compute nodes, and the measured speed of those that are online."""

from msgspec import Struct

from myna.store.columns import columns
from myna.store.database import Queries, Transaction
from myna.store.queries.farm import able
from myna.store.states import LEASED, QUEUED


class OnlineNode(Struct, frozen=True):
    """A node that takes jobs: how many at a time, and its speed in characters per second."""

    id: int
    slots: int
    chars_per_s: float


class Queued(Struct, frozen=True):
    """Unfinished tasks of an account in a voice, queued or leased."""

    account_id: int
    voice_id: str
    tasks: int
    chars: int


_QUEUED = columns(Queued, tasks="count(*)", chars="CAST(sum(chars) AS BIGINT)")


async def online(db: Queries) -> list[OnlineNode]:
    """The enabled nodes that are online."""
    rows = await db.fetch(
        f"SELECT {columns(OnlineNode, 'n', chars_per_s=able.speed('n'))} FROM nodes n"
        f" WHERE {able.online('n')} AND n.slots > 0"
    )
    return [OnlineNode(*row) for row in rows]


async def queued(db: Queries) -> list[Queued]:
    """Queued and leased tasks by account and voice."""
    rows = await db.fetch(
        f"SELECT {_QUEUED} FROM ("  # each half has an index
        f" SELECT account_id, voice_id, chars FROM tasks WHERE {QUEUED} UNION ALL"
        f" SELECT account_id, voice_id, chars FROM tasks WHERE {LEASED}"
        ") AS unspoken GROUP BY account_id, voice_id"
    )
    return [Queued(*row) for row in rows]


async def record_speed(db: Transaction, node_id: int, task_id: int) -> None:
    """Adds the speed of a finished task to its node's moving average, with a weight of one fifth. A text that
    is too short to measure is skipped."""
    await db.fetch(
        "UPDATE nodes SET chars_per_s = CASE WHEN chars_per_s = 0 THEN s.speed"
        " ELSE chars_per_s * 0.8 + s.speed * 0.2 END"
        " FROM (SELECT chars * 1000.0 / (now_ms() - leased_at) AS speed FROM tasks"
        "       WHERE id = $2 AND now_ms() - leased_at > 0 AND chars >= 4) AS s WHERE nodes.id = $1",
        node_id, task_id,
    )  # fmt: skip
