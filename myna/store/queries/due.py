"""What the periodic jobs of a process find to do, in one query: an idle process makes few of them."""

from msgspec import Struct

from myna.store.database import Queries
from myna.store.queries.farm import able
from myna.store.states import LEASED, OPEN, QUEUED


class Due(Struct, frozen=True):
    """The versions of the schema and of the configuration; whether calls are open past their deadline, jobs
    have an expired lease, or any lease; whether clones were refused and may have no other node; how many
    nodes are online."""

    schema: int
    config: int
    calls_overdue: bool
    leases_expired: bool
    leased: bool
    clones_refused: bool
    nodes_online: int

    @property
    def jobs(self) -> bool:
        """Whether jobs of compute nodes are to be requeued or to fail."""
        return self.leases_expired or self.clones_refused


def _exists(table: str, condition: str) -> str:
    return f"EXISTS (SELECT 1 FROM {table} WHERE {condition})"


def _jobs(condition: str) -> str:
    return " OR ".join(_exists(table, condition) for table in ("tasks", "clones"))


_DUE = f"""SELECT (SELECT coalesce(max(version), 0) FROM schema_version), (SELECT version FROM site),
    {_exists("calls", f"{OPEN} AND deadline < now_ms()")},
    {_jobs(f"{LEASED} AND lease_until <= now_ms()")},
    {_jobs(LEASED)},
    {_exists("clones", f"{QUEUED} AND refused_by <> ''")},
    (SELECT count(*) FROM nodes n WHERE {able.online("n")})"""


async def due(db: Queries) -> Due:
    """What is due now."""
    ((schema, config, overdue, expired, leased, refused, nodes),) = await db.fetch(_DUE)
    return Due(
        schema=int(schema),
        config=int(config),
        calls_overdue=bool(overdue),
        leases_expired=bool(expired),
        leased=bool(leased),
        clones_refused=bool(refused),
        nodes_online=int(nodes),
    )
