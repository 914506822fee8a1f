"""A ledger as one serving process has it, and use cases that decide as a test says."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from myna.errors import MynaError
from myna.keys import Scope
from myna.ledger import Call, Caller, Ledger, Order
from myna.site import Site
from myna.store.batch import NewTask, Replayed, Reservation
from myna.store.database import Database
from myna.store.group_commit import GroupCommit
from tests.store.books import Holder

CLOSE_WAIT_S = 10.0
Decide = Callable[[], Awaitable[Order[str]]]


class Desk:
    """The parts of one process that move units."""

    def __init__(self, db: Database, site: Site, *, charge_wait_s: float, queue_max: int) -> None:
        self.db, self.site = db, site
        self.commits = GroupCommit(db, queue_max)
        self.ledger = Ledger(db, self.commits, site, charge_wait_s=charge_wait_s)

    def order(
        self,
        *,
        units: int | None = None,
        seconds: float = 30.0,
        pays: Scope = Scope.CHAT,
        task: NewTask | None = None,
    ) -> Decide:
        """A decision for so many units; without them, for what a chat costs by the site's settings."""

        async def decide() -> Order[str]:
            price = self.site.settings.chat_units if units is None else units
            return Order(pays, price, seconds, f"a plan at {price}", task)

        return decide

    async def admit(
        self,
        holder: Holder,
        decide: Decide | None = None,
        reservation: Reservation | None = None,
    ) -> Call:
        """A call that was charged."""
        admitted = await self.ledger.admit(asks(holder, reservation), decide or self.order())
        assert not isinstance(admitted, Replayed)
        return admitted[0]


def asks(holder: Holder, reservation: Reservation | None = None, scope: Scope = Scope.CHAT) -> Caller:
    return Caller(holder.key_hash, scope, reservation)


def refuses(error: MynaError) -> Decide:
    """A decision that is none."""

    async def decide() -> Order[str]:
        raise error

    return decide


@contextlib.asynccontextmanager
async def desk_on(db: Database, *, charge_wait_s: float = 5.0, queue_max: int = 1000) -> AsyncIterator[Desk]:
    desk = Desk(db, await Site.read(db), charge_wait_s=charge_wait_s, queue_max=queue_max)
    desk.commits.start()
    yield desk
    await desk.commits.close(CLOSE_WAIT_S)
