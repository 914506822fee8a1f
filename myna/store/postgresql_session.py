"""The sessions of a process on PostgreSQL: how many, and their settings."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

CONNECT_TIMEOUT_S = 5.0
WRITERS, LISTENERS, REPORTS_MAX = 2, 2, 3
PROCESS_LOCK = 77121112
"""The advisory lock that the writers of each process share, and that a migration takes for itself."""


class Shares(Struct, frozen=True):
    """How the connections of a process are shared, besides those of its writers and listeners. Transactions
    use some of the pool's: they may wait for a lock for long, and the others remain for reads, which never
    do. Reports take none of the pool's."""

    pool: int
    transactions: int
    reports: int


def shares(connections: int) -> Shares:
    """The shares of this number of connections, which is at least 8."""
    rest = connections - WRITERS - LISTENERS
    reports = min(REPORTS_MAX, rest // 3)
    pool = rest - reports
    return Shares(pool=pool, transactions=pool * 5 // 8, reports=reports)


async def configure(settings: Mapping[str, str], raw: Any) -> None:
    """Sets them for the rest of the session. Connection poolers refuse most settings in a connection
    request."""
    pairs = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
    await raw.execute(f"SELECT {pairs}", timeout=CONNECT_TIMEOUT_S)
