"""The batch of charges and ends on PostgreSQL: one call of `commit_batch`, on a separate connection.

That connection uses generic plans, since planning costs as much as a small batch, and neither sequential
scans nor JIT. A generic plan depends on the statistics at the time of planning: a plan made for empty tables
would scan the filled tables in every batch. So the plans are discarded once a second.
"""

import asyncio
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import asyncpg
import msgspec
from msgspec import structs

from myna.store.batch import (
    IDEMPOTENCY_KEY_LIFE_MS,
    Charge,
    Charged,
    ChargeOutcome,
    ChargeRefused,
    End,
    EndOutcome,
    LimitReached,
    Rate,
    RefusalReason,
    Replayed,
)
from myna.store.postgresql_session import COMMAND_TIMEOUT_S, DIRECT, PROCESS_LOCK, Access, configure
from myna.store.schema import SchemaWatch

PLANS_LIFE_S = 1.0
"""Planning takes about as long as a small batch."""
LOCK_TIMEOUT_MS = 100
"""How long a batch waits for a lock before it fails."""

SESSION = {
    "enable_seqscan": "off",
    "jit": "off",
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    "plan_cache_mode": "force_generic_plan",
}
_ARGUMENTS = ", ".join(f"${n}" for n in range(1, 18))
_BATCH = f"SELECT * FROM commit_batch({_ARGUMENTS}, $18)"
_SETTINGS = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in SESSION.items())
_POOLED_BATCH = f"""SELECT b.*
FROM (SELECT set_config('myna.lock_policy', $18, true) AS policy, {_SETTINGS}) s,
LATERAL commit_batch({_ARGUMENTS}, s.policy) b"""
"""The same with the settings for this transaction only, made before the call, which needs one of them."""
_json = msgspec.json.Encoder()


class LockPolicy(StrEnum):
    """What to do about rows that another session has locked: see `commit_batch`."""

    NONE = "none"
    ACCOUNT = "account"
    ALL = "all"


class BatchWriter:
    """A connection for batches, opened on demand and again after an error. It shares the lock of the serving
    processes, so no migration runs while it is open."""

    def __init__(
        self,
        url: str,
        name: str,
        lock_policy: LockPolicy,
        schema: SchemaWatch,
        access: Access = DIRECT,
    ) -> None:
        self._url = url
        self._access = access
        self._schema = schema
        self._name = name
        self._lock_policy = lock_policy
        self._raw: Any = None
        self._planned_at = 0.0

    async def commit(
        self, ends: Sequence[End], charges: Sequence[Charge]
    ) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
        """Runs one transaction. After any error but LockNotAvailableError the connection may be broken."""
        raw = await self.connection()
        if self._access.pooled_transactions:
            return await commit(raw, ends, charges, self._lock_policy, sql=_POOLED_BATCH)
        if (now := time.monotonic()) >= self._planned_at + PLANS_LIFE_S:
            await raw.execute("DISCARD PLANS")
            self._planned_at = now
        return await commit(raw, ends, charges, self._lock_policy)

    async def connection(self) -> Any:
        """The connection; opens it if necessary."""
        if self._raw is None or self._raw.is_closed():
            options = self._access.options(self._name)
            raw = await asyncpg.connect(self._url, command_timeout=COMMAND_TIMEOUT_S, **options)
            try:
                if not self._access.pooled_transactions:
                    await configure(SESSION, raw)
                    if not await raw.fetchval(f"SELECT pg_try_advisory_lock_shared({PROCESS_LOCK})"):
                        raise ConnectionError("a migration of the database is running")
                await self._schema.check(raw)
            except BaseException:
                raw.terminate()
                raise
            self._raw = raw
        return self._raw

    async def drop(self) -> None:
        """Closes the connection. Its transaction may still be running; its locks make the next one wait."""
        if self._raw is not None:
            self._raw.terminate()
            self._raw = None
            await asyncio.sleep(0)


async def commit(
    raw: Any,
    ends: Sequence[End],
    charges: Sequence[Charge],
    lock_policy: LockPolicy,
    timeout_s: float | None = None,
    sql: str = _BATCH,
) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
    """Calls `commit_batch` on this connection. Returns the outcomes in the order given."""
    args = (*_end_arrays(ends), *_charge_arrays(charges), IDEMPOTENCY_KEY_LIFE_MS, lock_policy.value)
    rows = await raw.fetch(sql, *args, timeout=timeout_s)
    return _outcomes(rows, len(ends), len(charges))


def _end_arrays(ends: Sequence[End]) -> tuple[object, ...]:
    more = [
        {
            "n": n,
            "answer": end.answer,
            "audio": end.audio.name if end.audio else None,
            "bytes": end.audio.size_bytes if end.audio else 0,
            "sha256": end.audio.sha256.hex() if end.audio else "",
        }
        for n, end in enumerate(ends, 1)
        if end.answer is not None or end.audio
    ]
    return (
        [end.call_id for end in ends],
        [int(end.state) for end in ends],
        [end.channel for end in ends],
        [end.reason for end in ends],
        [end.usage for end in ends],
        _json.encode(more).decode(),
    )


def _charge_arrays(charges: Sequence[Charge]) -> tuple[object, ...]:
    more = [
        _more(n, charge)
        for n, charge in enumerate(charges, 1)
        if charge.idempotency_key or charge.task or charge.default_limits
    ]
    return (
        [charge.call_id for charge in charges],
        [charge.key_hash for charge in charges],
        [charge.scope for charge in charges],
        [charge.pays for charge in charges],
        [charge.units for charge in charges],
        [charge.deadline_ms for charge in charges],
        [charge.config_version for charge in charges],
        [charge.request_id for charge in charges],
        [charge.route for charge in charges],
        _json.encode(more).decode(),
    )


def _more(n: int, charge: Charge) -> dict[str, object]:
    row: dict[str, object] = {"n": n}
    if charge.idempotency_key:
        row |= {"key": charge.idempotency_key.key, "fingerprint": charge.idempotency_key.fingerprint.hex()}
        row["draft"] = charge.draft
    if charge.task:
        task = charge.task
        row |= structs.asdict(task)
    if charge.default_limits:
        of_key, of_account = charge.default_limits.key, charge.default_limits.account
        row["defaults"] = [*structs.astuple(of_key), *structs.astuple(of_account)]
    return row


def _outcomes(rows: Sequence[Any], ends: int, charges: int) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
    ended = [EndOutcome.LOST] * ends
    charged: list[ChargeOutcome] = [ChargeRefused(RefusalReason.KEY)] * charges
    for part, n, outcome, account, key, balance, task, stored, rate in rows:
        if part == "end":
            ended[n - 1] = EndOutcome(outcome)
        elif outcome == "charged":
            charged[n - 1] = Charged(account, key, balance, task, Rate(*rate) if rate else None)
        elif outcome == "replayed":
            charged[n - 1] = Replayed(stored)
        else:
            left = balance if outcome == "units" else 0
            limit = LimitReached(bool(rate[0]), *rate[1:]) if rate else None
            charged[n - 1] = ChargeRefused(RefusalReason(outcome), left, limit)
    return ended, charged
