"""Queries for all nodes that wait for a job."""

from myna.store.database import Queries
from myna.store.queries.farm.able import not_refused
from myna.store.states import QUEUED, READY

# `queued` is a loose index scan over the queued voices, as in `queue.next_jobs`. Usually there are none, and
# the other parts read nothing. Tasks that a node refused are few, and read one by one.
_ABLE = f"""
WITH RECURSIVE queued (voice_id) AS (
    SELECT (SELECT voice_id FROM tasks WHERE {QUEUED} AND deadline > (SELECT now_ms())
            AND refused_by = '' ORDER BY voice_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.voice_id FROM tasks t WHERE t.{QUEUED} AND t.deadline > (SELECT now_ms())
            AND t.refused_by = '' AND t.voice_id > q.voice_id ORDER BY t.voice_id LIMIT 1)
    FROM queued q WHERE q.voice_id IS NOT NULL
), refused (voice_id, refused_by) AS (
    SELECT voice_id, refused_by FROM tasks
    WHERE {QUEUED} AND deadline > (SELECT now_ms()) AND refused_by <> ''
), able (node_id) AS (
    SELECT v.node_id FROM queued q JOIN node_voices v ON v.voice_id = q.voice_id
    UNION
    SELECT l.node_id FROM queued q JOIN clones c ON c.voice_id = q.voice_id AND c.{READY}
    JOIN node_clones l ON l.language = c.language
    UNION
    SELECT v.node_id FROM refused r JOIN node_voices v ON v.voice_id = r.voice_id
    WHERE {not_refused("r", "v.node_id")}
    UNION
    SELECT l.node_id FROM refused r JOIN clones c ON c.voice_id = r.voice_id AND c.{READY}
    JOIN node_clones l ON l.language = c.language WHERE {not_refused("r", "l.node_id")}
    UNION
    SELECT l.node_id FROM clones c JOIN node_clones l ON l.language = c.language
    WHERE c.{QUEUED} AND {not_refused("c", "l.node_id")}
)
SELECT n.id FROM able a JOIN nodes n ON n.id = a.node_id
WHERE n.disabled_at = 0 AND n.draining = 0 AND n.rests_until <= (SELECT now_ms())
"""


async def able(db: Queries) -> set[int]:
    """The enabled nodes that have the voice or the language of a queued job."""
    return {int(node_id) for (node_id,) in await db.fetch(_ABLE)}


async def join_times(db: Queries) -> dict[int, int]:
    """When each node joined, by its id: of the nodes that are enabled, not draining and have not left."""
    rows = await db.fetch(
        "SELECT id, joined_at FROM nodes WHERE disabled_at = 0 AND draining = 0 AND heard_at > 0"
    )
    return {int(node_id): int(joined_at) for node_id, joined_at in rows}
