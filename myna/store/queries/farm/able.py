"""Which node can do a job, and when: conditions in SQL, which leasing, polls, refusals and estimates share.

Arguments are the alias of a job's table, the alias of `nodes`, or an expression for a node's id.
"""

from typing import Final

from myna.store.states import PROCESSING, READY, leased

ONLINE_MS: Final = 40_000
"""A node is online this long after its last request; its long polls are shorter."""
DEFAULT_CHARS_PER_S: Final = 15.0
"""The speed of a node without a measured one: that of reading aloud."""


def speed(node: str) -> str:
    """The node's characters per second."""
    return f"CASE WHEN {node}.chars_per_s > 0 THEN {node}.chars_per_s ELSE {DEFAULT_CHARS_PER_S} END"


def not_refused(job: str, node_id: str) -> str:
    """The node has not refused the job: see `refusals.py`."""
    return f"{job}.refused_by NOT LIKE '%,' || {node_id} || ',%'"


def in_time(task: str, chars_per_s: str) -> str:
    """A node of this speed finishes the text before its deadline."""
    return f"{task}.chars * 1000.0 <= ({task}.deadline - (SELECT now_ms())) * ({chars_per_s})"


def speaks(task: str, node_id: str) -> str:
    """The node has the voice of the task."""
    return (
        f"(EXISTS (SELECT 1 FROM node_voices v WHERE v.node_id = {node_id} AND v.voice_id = {task}.voice_id)"
        " OR EXISTS (SELECT 1 FROM clones r JOIN node_clones l ON l.language = r.language"
        f" WHERE r.voice_id = {task}.voice_id AND r.{READY} AND l.node_id = {node_id}))"
    )


def clones(clone: str, node_id: str) -> str:
    """The node clones in the language of the new voice."""
    return (
        f"EXISTS (SELECT 1 FROM node_clones l WHERE l.node_id = {node_id} AND l.language = {clone}.language)"
    )


def has_free_slot(node: str) -> str:
    """The node has fewer leases than slots. A lease that has expired counts until it is requeued."""
    return (
        f"{node}.slots > (SELECT count(*) FROM tasks h WHERE {leased('h')} AND h.node_id = {node}.id)"
        f" + (SELECT count(*) FROM clones h WHERE h.{PROCESSING} AND h.node_id = {node}.id)"
    )


def online(node: str) -> str:
    """The node is online and gets jobs."""
    return (
        f"{node}.disabled_at = 0 AND {node}.draining = 0"
        f" AND {node}.heard_at > (SELECT now_ms()) - {ONLINE_MS}"
    )


def another_first(job: str, node_id: str, able: str) -> str:
    """This node is not the one that failed the job last, or no other node can do it. `able` is the condition
    that the node `n` has the voice or the language, and the time."""
    return (
        f"({job}.node_id <> {node_id} OR NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id <> {node_id}"
        f" AND {online('n')} AND {not_refused(job, 'n.id')} AND {able}))"
    )
