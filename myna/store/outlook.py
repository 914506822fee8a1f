"""What is queued for the compute nodes, and how fast those that are online have shown to be."""

from msgspec import Struct

from myna.store.database import Connection, Reader

ONLINE_MS = 40_000
"""A node is online for so long after it was heard; its long polls are shorter."""


class OnlineNode(Struct, frozen=True):
    """A node that takes jobs now: how many at a time, and the speed of one; 0 where none was shown yet."""

    id: int
    slots: int
    chars_per_s: float


class Queued(Struct, frozen=True):
    """Tasks of an account in a voice that no node has spoken yet, waiting or held."""

    account_id: int
    voice_id: str
    tasks: int
    chars: int


async def online(db: Reader) -> list[OnlineNode]:
    """Nodes that were heard lately and may work."""
    rows = await db.fetch(
        "SELECT id, slots, chars_per_s FROM nodes"
        " WHERE disabled_at = 0 AND draining = 0 AND slots > 0 AND heard_at > now_ms() - $1",
        ONLINE_MS,
    )
    return [OnlineNode(*row) for row in rows]


async def queued(db: Reader) -> list[Queued]:
    """All that is queued, by account and voice; what is held counts as well, since it isn't spoken yet."""
    rows = await db.fetch(
        "SELECT account_id, voice_id, count(*), CAST(sum(chars) AS BIGINT) FROM ("  # each half has its index
        " SELECT account_id, voice_id, chars FROM tasks WHERE status = 0 UNION ALL"
        " SELECT account_id, voice_id, chars FROM tasks WHERE status = 1 AND lease_until > 0"
        ") AS unspoken GROUP BY account_id, voice_id"
    )
    return [Queued(*row) for row in rows]


async def spoke(db: Connection, node_id: int, task_id: int) -> None:
    """Takes the speed of a finished task into what its node has shown: each job counts for a fifth. What was
    too short to tell is left out."""
    await db.fetch(
        "UPDATE nodes SET chars_per_s = CASE WHEN chars_per_s = 0 THEN s.speed"
        " ELSE chars_per_s * 0.8 + s.speed * 0.2 END"
        " FROM (SELECT chars * 1000.0 / (now_ms() - leased_at) AS speed FROM tasks"
        "       WHERE id = $2 AND now_ms() - leased_at > 0 AND chars >= 4) AS s WHERE nodes.id = $1",
        node_id, task_id,
    )  # fmt: skip
