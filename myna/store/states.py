"""The states of calls, speech tasks and cloned voices, as SQL.

    call    open ─► kept | refunded
    task    queued ⇄ leased ─► completed | failed       a compute node does it
            local ─► queued | completed | failed        the site does it
    clone   queued ⇄ leased ─► ready | failed

`tasks.status` is PROCESSING for a leased and for a local task, as the API shows it; `lease_until` tells them
apart. The last two states of each line are final.

Each name is a condition; one without AND is also an assignment for SET. With an alias: `t.{QUEUED}`.
The values are literals, not parameters: a partial index serves only a query that repeats its condition.
"""

from enum import IntEnum
from typing import Final

from myna.store.batch import CallState, TaskStatus


class CloneStatus(IntEnum):
    """`clones.status`. READY and FAILED are final. The first two have the values of `TaskStatus`."""

    QUEUED = 0
    CLONING = 1
    READY = 2
    FAILED = 3


# calls
OPEN: Final = f"state = {CallState.OPEN}"
ENDED: Final = f"state <> {CallState.OPEN}"
REFUNDED: Final = f"state = {CallState.REFUNDED}"
NOT_REFUNDED: Final = f"state <> {CallState.REFUNDED}"

# tasks and clones
QUEUED: Final = f"status = {TaskStatus.QUEUED}"
PROCESSING: Final = f"status = {TaskStatus.PROCESSING}"
COMPLETED: Final = f"status = {TaskStatus.COMPLETED}"
READY: Final = f"status = {CloneStatus.READY}"
FAILED: Final = f"status = {TaskStatus.FAILED}"
UNFINISHED: Final = f"status IN ({TaskStatus.QUEUED}, {TaskStatus.PROCESSING})"
LEASED: Final = f"{PROCESSING} AND lease_until > 0"
LOCAL: Final = f"{PROCESSING} AND lease_until = 0"


def leased(table: str) -> str:
    """`LEASED` with the table or its alias."""
    return f"{table}.{PROCESSING} AND {table}.lease_until > 0"


def local(table: str) -> str:
    """`LOCAL` with the table or its alias."""
    return f"{table}.{PROCESSING} AND {table}.lease_until = 0"
