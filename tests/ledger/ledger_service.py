"""The ledger of one serving process, and use cases with the plan that a test gives."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.billing.ledger import Call, ChargeOrder, Ledger
from myna.config import ConfigCache
from myna.errors import MynaError
from myna.store.batch import IdempotencyKey, NewTask, Replayed
from myna.store.database import Database
from myna.store.group_commit import GroupCommit
from tests.rig.waiting import SOON_S
from tests.store.books import Customer

Plan = Callable[[], Awaitable[ChargeOrder]]


class LedgerService:
    """The parts of one process that move units."""

    def __init__(self, db: Database, config: ConfigCache, *, charge_wait_s: float, queue_max: int) -> None:
        self.db = db
        self.config = config
        self.commits = GroupCommit(db, queue_max)
        self.ledger = Ledger(db, self.commits, config, charge_wait_s=charge_wait_s)

    def order(
        self,
        *,
        units: int | None = None,
        seconds: float = 30.0,
        pays: Scope = Scope.CHAT,
        task: NewTask | None = None,
    ) -> Plan:
        """A plan that costs `units`; without them, the price of a chat by the configuration."""

        async def plan() -> ChargeOrder:
            price = self.config.settings.chat_units if units is None else units
            return ChargeOrder(pays=pays, units=price, seconds=seconds, task=task)

        return plan

    async def charge(self, caller: UnverifiedCaller, plan: Plan) -> Call | Replayed:
        """A call that was charged, or the stored response to a retry, as a use case gets it."""

        async def planned() -> SimpleNamespace:
            return SimpleNamespace(order=await plan())

        outcome = await self.ledger.charge_plan(caller, planned)
        return outcome if isinstance(outcome, Replayed) else outcome[0]

    async def admit(
        self, customer: Customer, plan: Plan | None = None, idempotency_key: IdempotencyKey | None = None
    ) -> Call:
        """A call that was charged."""
        call = await self.charge(caller_of(customer, idempotency_key), plan or self.order())
        assert isinstance(call, Call)
        return call


def caller_of(
    customer: Customer, idempotency_key: IdempotencyKey | None = None, scope: Scope = Scope.CHAT
) -> UnverifiedCaller:
    return UnverifiedCaller(customer.key_hash, scope, idempotency_key)


def refusing(error: MynaError) -> Plan:
    """A plan that raises a refusal."""

    async def plan() -> ChargeOrder:
        raise error

    return plan


@contextlib.asynccontextmanager
async def ledger_service_on(
    db: Database, *, charge_wait_s: float = 5.0, queue_max: int = 1000
) -> AsyncIterator[LedgerService]:
    service = LedgerService(db, await ConfigCache.read(db), charge_wait_s=charge_wait_s, queue_max=queue_max)
    service.commits.start()
    yield service
    await service.commits.close(SOON_S)
