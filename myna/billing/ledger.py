"""Charges calls: a call is open, then kept or refunded, exactly once.

    charge ──► open ──► keep    the work succeeded; the answer is sent after the COMMIT
                 └────► refund  the work failed: an error, a deadline, a dead process

No request goes upstream before the charge is committed. The deadline of the work ends before the deadline of
the call in the database, so no process works on a call that is open past its deadline.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, TypeVar

from msgspec import Struct

from myna.accounts import caps, keys, limits
from myna.accounts.keys import Scope, UnverifiedCaller
from myna.billing import refused_charges
from myna.config import ConfigCache
from myna.errors import CallRefunded, CommitInDoubt, DatabaseUnavailable, InvalidRequest, MynaError
from myna.lib.ids import new_id
from myna.lib.telemetry import logs, metrics
from myna.lib.telemetry.requests import MODEL_MAX_CHARS, RequestDetails
from myna.store.batch import (
    NOT_STORED,
    STORED_ANSWER_MAX_BYTES,
    Audio,
    CallState,
    Charge,
    Charged,
    ChargeRefused,
    DefaultLimits,
    End,
    EndOutcome,
    IdempotencyKey,
    NewTask,
    RefusalReason,
    Replayed,
    TaskStatus,
    to_store,
)
from myna.store.database import Database, in_time
from myna.store.group_commit import GroupCommit
from myna.store.queries import keys as keys_store
from myna.store.queries import ledger as store
from myna.store.queries.config import Config

log = logging.getLogger(__name__)
T = TypeVar("T")

DEADLINE_MARGIN_S = 10.0
"""Between the end of the work and the deadline in the database, for the COMMIT of the keep."""
PENDING_POLL_S = 0.02
"""Before the second look at a call that is open; doubled for each further one, up to the maximum."""
PENDING_POLL_MAX_S = 0.25
SWEEP_MAX = 500
TOO_LARGE_TO_REPEAT = (
    "the first call with this one succeeded and was charged, and its answer is too large to be repeated (over"
    f" {STORED_ANSWER_MAX_BYTES} bytes). Nothing was charged now; use a new key for a new call."
)


class ChargeOrder(Struct, frozen=True):
    """What to charge for a request; the work may take `seconds`. `model` is what the caller asked for, if it
    is not the name of the route. The other fields are those of `Charge`."""

    pays: Scope
    units: int
    seconds: float
    task: NewTask | None = None
    draft: str | None = None
    route: str = ""
    model: str = ""


class Call:
    """An open call. As a context manager it is refunded at the exit unless it was kept or handed over.
    The channel and the tokens of its `details` are stored with it."""

    def __init__(
        self, ledger: "Ledger", charge: Charge, charged: Charged, seconds: float, details: RequestDetails
    ) -> None:
        self._ledger = ledger
        self.details = details
        self.id = charge.call_id
        self.account_id = charged.account_id
        self.task_id = charged.task_id
        self.units = charge.units
        self.repeatable = charge.idempotency_key is not None
        self._work_until = time.monotonic() + seconds
        self._ended = False

    @property
    def seconds_left(self) -> float:
        """Time left for the work; 0 or negative past its deadline."""
        return self._work_until - time.monotonic()

    async def keep(self, answer: str, *, audio: Audio | None = None, reason: str = "") -> None:
        """Commits the success, and stores the answer if the call is repeatable. `reason` is why the answer is
        incomplete.

        Raises CallRefunded if the call was refunded before, CommitInDoubt if the outcome is unknown.
        """
        end = End(
            call_id=self.id,
            state=CallState.KEPT,
            answer=to_store(answer) if self.repeatable else None,
            audio=audio,
            reason=reason,
            channel=self.details.channel,
            usage=self.details.usage,
        )
        try:
            await self._ledger.keep(end, self.seconds_left + DEADLINE_MARGIN_S)
        except (CallRefunded, CommitInDoubt):
            self._ended = True
            raise
        except asyncio.CancelledError:  # cancelled during the COMMIT
            self._ended = True
            raise CommitInDoubt from None
        self._ended = True

    def hand_over(self) -> None:
        """Leaves the call to its task: the end of the task ends it."""
        self._ended = True

    async def __aenter__(self) -> "Call":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises CommitInDoubt instead of an error that implies a refund, unless the refund is committed."""
        try:
            if not self._ended:
                await self._refund(kind.__name__ if kind else "not kept", error)
            elif error is not None and not isinstance(error, CallRefunded | CommitInDoubt):
                raise CommitInDoubt from error
        finally:
            self._ledger.ended(self.id)

    async def _refund(self, reason: str, error: BaseException | None) -> None:
        try:
            usage = self.details.usage
            end = End(self.id, CallState.REFUNDED, reason=reason, channel=self.details.channel, usage=usage)
            refunded = await self._ledger.refund(end)
        except asyncio.CancelledError:  # cancelled during the refund
            refunded = False
        if not refunded:
            raise CommitInDoubt from error
        self.details.units = 0


class Planned(Protocol):
    """A request that is planned: what to charge for it."""

    @property
    def order(self) -> ChargeOrder: ...


P = TypeVar("P", bound=Planned)


class Ledger:
    """Charges, keeps and refunds the calls of one process."""

    def __init__(
        self, db: Database, commits: GroupCommit, config: ConfigCache, *, charge_wait_s: float
    ) -> None:
        self._db = db
        self._commits = commits
        self.config = config
        self._charge_wait_s = charge_wait_s
        self._running: set[bytes] = set()
        self._refunds: dict[bytes, asyncio.Task[bool]] = {}
        """In progress, so that the sweep sends no second refund of these calls."""

    async def charge_plan(
        self, caller: UnverifiedCaller, plan: Callable[[], Awaitable[P]]
    ) -> tuple[Call, P] | Replayed:
        """Charges what `plan` returns; plans again if the configuration was stale. Returns the open call and
        its plan, or the stored response to a retry. An error of the key precedes those of planning."""
        while True:
            config = self.config.current
            try:
                planned = await plan()
            except MynaError as error:
                if (stored := await self.check_refusal(caller)) is not None:
                    return stored
                if self.config.current.version == config.version:
                    shown = refused_charges.for_key(self._db, caller.details.key_id, error)
                    raise await self._query(shown) from None
            else:
                match await self.charge(caller, planned.order, config):
                    case Call() as call:
                        return call, planned
                    case Replayed() as stored:
                        return stored

    async def charge(
        self, caller: UnverifiedCaller, order: ChargeOrder, config: Config
    ) -> Call | Replayed | None:
        """Charges an order that was planned under `config`, or returns the stored response to a retry. If
        `config` is stale, refreshes this process's copy and returns None."""
        if self.config.current is not config:
            return None  # the plan may follow two versions
        charge = _charge(caller, order, config, limits.defaults_of(self.config.settings))
        outcome = await self._send(charge)
        match outcome:
            case Charged():
                metrics.added[metrics.units_of(order.route)] += order.units
                details = caller.details
                details.account_id, details.key_id = outcome.account_id, outcome.key_id
                details.units, details.route, details.balance = order.units, order.route, outcome.balance
                details.call_id = charge.call_id
                details.model = logs.masked((order.model or order.route)[:MODEL_MAX_CHARS])
                details.rate_headers = limits.rate_headers(outcome.rate) if outcome.rate else {}
                self._running.add(charge.call_id)
                metrics.levels[metrics.CALLS_OPEN] = len(self._running)
                caller.found()
                return Call(self, charge, outcome, order.seconds, details)
            case Replayed():
                with contextlib.suppress(DatabaseUnavailable):  # only for its details
                    await self.check_refusal(caller)
                return _repeatable(outcome)
            case ChargeRefused(RefusalReason.STALE):
                await self._query(self.config.refresh())
                return None
            case ChargeRefused(RefusalReason.PERIOD):
                await self._query(caps.renew(self._db, caller.key_hash, self.config.settings.time_zone))
                return None
            case ChargeRefused():
                raise await self._error_of(caller, order, outcome)

    async def check_refusal(self, caller: UnverifiedCaller) -> Replayed | None:
        """Before an error without a charge: checks the key, and returns the stored response to a retry. If
        there is none that this key may read, refreshes a stale configuration and returns None."""
        verified = await self._verify(caller)
        found = await self._stored_response(verified.key, caller.idempotency_key)
        if found is None or found.answer is None:
            await self._query(self.config.at(verified.config_version))
            return None
        caller.details.replay_of = found.call_id.hex()
        return _repeatable(Replayed(found.answer))

    async def keep(self, end: End, wait_s: float) -> None:
        try:
            outcome = await self._commits.end(end, max(wait_s, 0.0))
        except TimeoutError:
            metrics.added[metrics.calls("unknown")] += 1
            raise CommitInDoubt from None
        if outcome is EndOutcome.LOST:
            metrics.added[metrics.calls("lost")] += 1
            raise CallRefunded
        metrics.added[metrics.calls("kept")] += 1

    async def refund(self, end: End) -> bool:
        """True if the refund is committed. False if the call was kept, or if the outcome is unknown after
        `charge_wait_s`; then the sweep refunds the call at the latest."""
        refund = self._refunds.get(end.call_id)
        if refund is None:
            refund = asyncio.create_task(self._commit_refund(end))
            self._refunds[end.call_id] = refund
            refund.add_done_callback(lambda _: self._refunds.pop(end.call_id, None))
        await asyncio.wait({refund}, timeout=self._charge_wait_s)
        if not refund.done():
            log.error("the refund of call %s is not committed yet", end.call_id.hex())
            return False
        return refund.result()

    async def _commit_refund(self, end: End) -> bool:
        outcome = await self._commits.end(end, None)
        if outcome is EndOutcome.DONE:
            metrics.added[metrics.calls("refunded")] += 1
        return outcome is EndOutcome.DONE

    def ended(self, call_id: bytes) -> None:
        """This process no longer works on the call."""
        self._running.discard(call_id)
        metrics.levels[metrics.CALLS_OPEN] = len(self._running)

    async def sweep(self) -> int:
        """Refunds the calls open past their deadline, whose process or node did not end them: how many."""
        return await self.refund_all(await store.overdue(self._db, SWEEP_MAX, "not done in time"))

    async def recover(self) -> int:
        """Refunds every open call, left by the previous process. Only safe with one serving process."""
        return await self.refund_all(dict.fromkeys(await store.open_calls(self._db, SWEEP_MAX), "left open"))

    async def finish(self, wait_s: float) -> None:
        """Waits up to `wait_s` until every call of this process has ended."""
        until = time.monotonic() + wait_s
        while self._running and time.monotonic() < until:  # noqa: ASYNC110  each call would set an event
            await asyncio.sleep(PENDING_POLL_S)

    async def refund_all(self, reasons: dict[bytes, str]) -> int:
        """Refunds these calls, but those that this process works on, for these reasons. Returns how many."""
        dead = [(call_id, why) for call_id, why in reasons.items() if call_id not in self._running]
        ends = (End(call_id, CallState.REFUNDED, reason=why) for call_id, why in dead)
        return sum(await asyncio.gather(*map(self.refund, ends)))

    async def _send(self, charge: Charge) -> Charged | ChargeRefused | Replayed:
        """Sends the charge. A retry whose first call is still open waits until that call ends."""
        poll_s = PENDING_POLL_S
        while True:
            try:
                outcome = await self._commits.charge(charge, self._charge_wait_s)
            except TimeoutError:
                raise DatabaseUnavailable from None
            except CommitInDoubt:
                metrics.added[metrics.calls("unknown")] += 1
                raise
            if not (isinstance(outcome, ChargeRefused) and outcome.why is RefusalReason.PENDING):
                return outcome
            await asyncio.sleep(poll_s)
            poll_s = min(poll_s * 2, PENDING_POLL_MAX_S)

    async def _stored_response(
        self, key: keys_store.KeyRow, idempotency_key: IdempotencyKey | None
    ) -> store.StoredResponse | None:
        """The stored response, once its call has ended."""
        if idempotency_key is None:
            return None
        poll_s = PENDING_POLL_S
        while True:
            query = store.stored_response(self._db, key, idempotency_key.key, idempotency_key.fingerprint)
            found = await self._query(query)
            if found is None or found.answer is not None:
                return found
            await asyncio.sleep(poll_s)
            poll_s = min(poll_s * 2, PENDING_POLL_MAX_S)

    async def account_of(self, caller: UnverifiedCaller) -> int:
        """The account of the caller's key. Raises Unauthorized."""
        return (await self._verify(caller)).key.account_id

    async def _verify(self, caller: UnverifiedCaller) -> keys_store.KeySnapshot:
        return await self._query(keys.verify(self._db, caller))

    async def _error_of(
        self, caller: UnverifiedCaller, order: ChargeOrder, refused: ChargeRefused
    ) -> MynaError:
        """Checks the key first, which notes its account in the caller's details."""
        key_id, zone = (await self._verify(caller)).key.id, self.config.settings.time_zone
        route = order.model or order.route
        error = refused_charges.error_of(self._db, refused, order.units, route, key_id=key_id, zone=zone)
        return await self._query(error)

    async def _query(self, query: Awaitable[T]) -> T:
        return await in_time(self._db, query, self._charge_wait_s)


def _repeatable(replayed: Replayed) -> Replayed:
    """Raises InvalidRequest if the answer was too large to be stored."""
    if replayed.answer == NOT_STORED:
        raise InvalidRequest(TOO_LARGE_TO_REPEAT, field="Idempotency-Key")
    return replayed


def _charge(
    caller: UnverifiedCaller, order: ChargeOrder, config: Config, default_limits: DefaultLimits | None
) -> Charge:
    for_a_node = order.task is not None and order.task.status == TaskStatus.QUEUED
    margin_s = 0.0 if for_a_node else DEADLINE_MARGIN_S  # the task's deadline is the call's
    return Charge(
        call_id=new_id(config.closed_before),
        key_hash=caller.key_hash,
        scope=int(caller.scope),
        pays=int(order.pays),
        units=order.units,
        deadline_ms=int((order.seconds + margin_s) * 1000),
        config_version=config.version,
        task=order.task,
        idempotency_key=caller.idempotency_key,
        draft=order.draft,
        request_id=logs.request_id.get(),
        default_limits=default_limits,
        route=order.route,
    )
