"""How a unit moves: a call is open, then kept or refunded, exactly once.

    admit ──► open ──► keep    the answer leaves behind the COMMIT
                └────► refund  whatever ended the work otherwise: an error, a deadline, a dead process

Nothing goes upstream before the charge is committed. The work runs under a deadline that ends before the
call's own, so that a call found open past its deadline has nobody working on it any more.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Generic, TypeVar

from msgspec import Struct

from myna import keys, metrics
from myna.errors import (
    AnswerUnknown,
    CallLost,
    DatabaseAway,
    InsufficientUnits,
    InvalidRequest,
    MynaError,
    SpeechNotInScope,
    Unauthorized,
)
from myna.ids import new_id
from myna.keys import Scope
from myna.site import Site
from myna.store import ledger as store
from myna.store.batch import (
    Audio,
    CallState,
    Charge,
    Charged,
    End,
    EndOutcome,
    NewTask,
    Refusal,
    Refused,
    Replayed,
    Reservation,
    TaskStatus,
)
from myna.store.database import Database, in_time
from myna.store.group_commit import GroupCommit

log = logging.getLogger(__name__)
P = TypeVar("P")
T = TypeVar("T")

DEADLINE_MARGIN_S = 10.0
"""Between the end of the work and the deadline in the database: time for the keep to commit."""
COPY_POLL_S = 0.02
COPY_POLL_MAX_S = 0.25
SWEEP_MAX = 500


class Caller(Struct, frozen=True):
    """Who asks: the key's hash, the scope the endpoint wants, the Idempotency-Key if there is one."""

    key_hash: bytes
    scope: Scope
    reservation: Reservation | None = None


class Order(Struct, Generic[P], frozen=True):
    """What was decided about a request: the rate it pays, the units, the task if one is ordered, and how
    to go on. `seconds` is how long the work may take. `draft` is the answer where a node does the work: see
    `batch.Charge`."""

    pays: Scope
    units: int
    seconds: float
    plan: P
    task: NewTask | None = None
    draft: str | None = None

    @property
    def for_a_node(self) -> bool:
        """The work is a compute node's: the call is left to the task, and has its deadline."""
        return self.task is not None and self.task.status == TaskStatus.QUEUED


class Call:
    """An open call. As a context manager it refunds itself unless it was kept."""

    def __init__(self, ledger: "Ledger", call_id: bytes, charged: Charged, order: Order[P]) -> None:
        self._ledger = ledger
        self.id, self.account_id, self.task_id, self.units = (
            call_id, charged.account_id, charged.task_id, order.units,
        )  # fmt: skip
        self._work_until = time.monotonic() + order.seconds
        self._ended = False

    @property
    def seconds_left(self) -> float:
        """What is left for the work; at most 0 when it is over."""
        return self._work_until - time.monotonic()

    async def keep(self, answer: str, *, stored: bool, audio: Audio | None = None) -> None:
        """Commits the success, the answer with it where a copy of the request may ask for it again.

        Raises CallLost where the units went back meanwhile, AnswerUnknown where nothing can be said.
        """
        end = End(self.id, CallState.KEPT, answer if stored else None, audio)
        try:
            await self._ledger.keep(end, self.seconds_left + DEADLINE_MARGIN_S)
        except (CallLost, AnswerUnknown):
            self._ended = True
            raise
        except asyncio.CancelledError:  # told to stop while the COMMIT is on its way
            self._ended = True
            raise AnswerUnknown from None
        self._ended = True

    def leave(self) -> None:
        """From now on the call ends with its task, whoever does that."""
        self._ended = True

    async def __aenter__(self) -> "Call":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._ended:
                await self._ledger.refund(self.id, kind.__name__ if kind else "not kept")
        finally:
            self._ledger.forget(self.id)


class Ledger:
    """Charges, keeps and refunds for one process."""

    def __init__(self, db: Database, commits: GroupCommit, site: Site, *, charge_wait_s: float) -> None:
        self._db, self._commits, self._site = db, commits, site
        self._charge_wait_s = charge_wait_s
        self._running: set[bytes] = set()
        self._refunds: dict[bytes, asyncio.Task[bool]] = {}
        """On their way to the database: a sweep that finds their calls still open sends no second one."""
        self._one_less = asyncio.Event()

    async def admit(
        self, caller: Caller, decide: Callable[[], Awaitable[Order[P]]]
    ) -> tuple[Call, P] | Replayed:
        """Charges for what `decide` makes of the request under the site's present configuration.

        `decide` reads this process's copy of the configuration. The charge proves the copy fresh, or a look
        at the key does where `decide` refuses; if it was stale, it is read again and decided anew. A key
        that doesn't open the endpoint goes before every other refusal.
        """
        while True:
            version = self._site.config.version
            try:
                order = await decide()
            except MynaError:
                replayed = await self._refuse(caller, version)
                if replayed:
                    return replayed
                if self._site.config.version != version:
                    continue
                raise
            charge = _charge(caller, order, version)
            outcome = await self._send(charge)
            match outcome:
                case Charged():
                    metrics.UNITS_CHARGED.inc(order.units)
                    self._running.add(charge.call_id)
                    return Call(self, charge.call_id, outcome, order), order.plan
                case Replayed():
                    return outcome
                case Refused(Refusal.STALE):
                    await self._ask(self._site.refresh)
                case Refused():
                    await self._raise(caller, outcome, order.units)

    async def keep(self, end: End, wait_s: float) -> None:
        try:
            outcome = await self._commits.end(end, max(wait_s, 0.0))
        except TimeoutError:
            metrics.calls("unknown").inc()
            raise AnswerUnknown from None
        if outcome is EndOutcome.LOST:
            metrics.calls("lost").inc()
            raise CallLost
        metrics.calls("kept").inc()

    async def refund(self, call_id: bytes, reason: str) -> bool:
        """Gives the units back; True if they are back. Where the database is away, the sweep does it."""
        refund = self._refunds.get(call_id)
        if refund is None:
            refund = self._refunds[call_id] = asyncio.create_task(self._give_back(call_id, reason))
            refund.add_done_callback(lambda _: self._refunds.pop(call_id, None))
        await asyncio.wait({refund}, timeout=self._charge_wait_s)
        if not refund.done():
            log.error("the refund of call %s is still on its way to the database", call_id.hex())
            return False
        return refund.result()

    async def _give_back(self, call_id: bytes, reason: str) -> bool:
        outcome = await self._commits.end(End(call_id, CallState.REFUNDED, reason=reason), None)
        if outcome is EndOutcome.DONE:
            metrics.calls("refunded").inc()
        return outcome is EndOutcome.DONE

    def forget(self, call_id: bytes) -> None:
        """The call's work is over in this process."""
        self._running.discard(call_id)
        self._one_less.set()

    async def sweep(self) -> int:
        """Refunds calls that are open past their deadline: a dead process left them, or no node did their
        task in time. How many."""
        return await self.refund_all(await store.overdue(self._db, SWEEP_MAX), "not done in time")

    async def recover(self) -> int:
        """Refunds every open call: what the process before this one left. Only where one process serves."""
        return await self.refund_all(await store.still_open(self._db, SWEEP_MAX), "left open")

    async def finish(self, wait_s: float) -> None:
        """Waits until no call runs in this process any more, each kept or refunded."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self._running:
                    self._one_less.clear()
                    await self._one_less.wait()

    async def refund_all(self, call_ids: list[bytes], reason: str) -> int:
        """Refunds those of these calls that this process isn't working on; how many."""
        dead = [call_id for call_id in call_ids if call_id not in self._running]
        done = await asyncio.gather(*(self.refund(call_id, reason) for call_id in dead))
        return sum(done)

    async def _send(self, charge: Charge) -> Charged | Refused | Replayed:
        """The charge's outcome. A copy of a call that is still open waits for that one's end."""
        for poll_s in _polls():
            try:
                outcome = await self._commits.charge(charge, self._charge_wait_s)
            except TimeoutError:
                raise DatabaseAway from None
            if not (isinstance(outcome, Refused) and outcome.why is Refusal.PENDING):
                break
            await asyncio.sleep(poll_s)
        return outcome

    async def _refuse(self, caller: Caller, version: int) -> Replayed | None:
        """Before a refusal: the key must be good, the configuration fresh, and no answer stored."""
        presented = await self._ask(lambda: keys.verify(self._db, caller.key_hash, caller.scope))
        if caller.reservation:
            answer = await self._answer_to(presented.key.account_id, caller.reservation)
            if answer is not None:
                return Replayed(answer)
        if presented.config_version != version:
            await self._ask(self._site.refresh)
        return None

    async def _answer_to(self, account_id: int, reservation: Reservation) -> str | None:
        """What the first request of this reservation was answered, once it is; None where there is none."""
        key, fingerprint = reservation.key, reservation.fingerprint
        for poll_s in _polls():
            found = await self._ask(lambda: store.reserved(self._db, account_id, key, fingerprint))
            if not found or found.answer is not None:
                break
            await asyncio.sleep(poll_s)
        return found.answer if found else None

    async def account_of(self, caller: Caller) -> int:
        """Whose key it is, for a decision that needs to know. Raises Unauthorized."""
        return (await self._ask(lambda: keys.verify(self._db, caller.key_hash, caller.scope))).key.account_id

    async def _ask(self, query: Callable[[], Awaitable[T]]) -> T:
        return await in_time(self._db, query(), self._charge_wait_s)

    async def _raise(self, caller: Caller, refused: Refused, units: int) -> None:
        """Says why nothing was charged; returns where that holds no more and a new try is due."""
        match refused.why:
            case Refusal.KEY:
                await self._ask(lambda: keys.verify(self._db, caller.key_hash, caller.scope))
                raise Unauthorized("This API key was changed in this moment; try again.")
            case Refusal.REUSED:
                raise InvalidRequest(
                    "Idempotency-Key: this one came with another path or body before; use a new one."
                )
            case Refusal.RATE:
                raise SpeechNotInScope
            case _:
                raise InsufficientUnits(refused.balance, units)


def _charge(caller: Caller, order: Order[P], version: int) -> Charge:
    margin_s = 0.0 if order.for_a_node else DEADLINE_MARGIN_S
    life_ms = int((order.seconds + margin_s) * 1000)
    return Charge(
        new_id(),
        caller.key_hash,
        int(caller.scope),
        int(order.pays),
        order.units,
        life_ms,
        version,
        order.task,
        caller.reservation,
        order.draft,
    )


def _polls() -> Iterator[float]:
    """How long to wait between two looks, ever longer up to a bound; without end."""
    poll_s = COPY_POLL_S
    while True:
        yield poll_s
        poll_s = min(poll_s * 2, COPY_POLL_MAX_S)
