"""The sessions of a process on PostgreSQL: how many, and their settings.

Behind a pooler that gives a client another session for each transaction, nothing may depend on the session:
settings are those of a transaction, statements have no name, and the lock of the serving processes isn't
taken, so a migration does not notice them.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import asyncpg
from msgspec import Struct

from myna.settings import POSTGRESQL_CONNECTIONS

CONNECT_TIMEOUT_S = 5.0
COMMAND_TIMEOUT_S = 5.0
"""After that the connection counts as dead, and the batch is sent again on a new one. If the server was only
slow and commits both, the second one changes nothing."""
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


class Access(Struct, frozen=True):
    """How a process reaches the server: its share of connections, whether each transaction may have another
    session, and the URL for notifications: without one then there are none."""

    connections: int = POSTGRESQL_CONNECTIONS
    pooled_transactions: bool = False
    listen_url: str = ""

    def listens_at(self, url: str) -> str:
        """The URL of the sessions that listen; empty if none can."""
        return self.listen_url or ("" if self.pooled_transactions else url)

    def options(self, name: str) -> dict[str, Any]:
        """Of a connection with this name."""
        options: dict[str, Any] = {
            "server_settings": {"application_name": name},
            "timeout": CONNECT_TIMEOUT_S,
        }
        return options | ({"statement_cache_size": 0} if self.pooled_transactions else {})

    async def open_pool(self, url: str, name: str, session: Mapping[str, str], least: int, most: int) -> Any:
        init = None if self.pooled_transactions else partial(configure, session)
        options = self.options(name) | {"command_timeout": COMMAND_TIMEOUT_S, "init": init}
        return await asyncpg.create_pool(url, min_size=least, max_size=most, reset=_no_reset, **options)

    def begin(self, session: Mapping[str, str], mode: str = "") -> str:
        """The statements that begin a transaction."""
        local = session.items() if self.pooled_transactions else ()
        return f"BEGIN {mode};" + "".join(f"SET LOCAL {name} = {value};" for name, value in local)


DIRECT = Access()


async def _no_reset(_raw: Any) -> None:
    """No code here changes a session's settings, so a released connection needs no RESET ALL."""


async def configure(settings: Mapping[str, str], raw: Any) -> None:
    """Sets them for the rest of the session. Connection poolers refuse most settings in a connection
    request."""
    pairs = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
    await raw.execute(f"SELECT {pairs}", timeout=CONNECT_TIMEOUT_S)
