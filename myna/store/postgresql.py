"""PostgreSQL: one connection for the batches, a small pool for everything else.

The writer's connection plans its statements without looking at what a batch brings, since planning a batch
costs as much as a small batch does, and without sequential scans and JIT. Such a plan is as good as what was
known of the tables when it was made, and one that was made on empty tables reads all of them for every batch
from then on: so plans are made anew once a second.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import asyncpg
import msgspec

from myna.store.batch import (
    Charge,
    Charged,
    ChargeOutcome,
    End,
    EndOutcome,
    Refusal,
    Refused,
    Replayed,
)
from myna.store.limits import RESERVATION_LIFE_MS

T = TypeVar("T")

log = logging.getLogger(__name__)

POOL_MAX = 8
TRANSACTIONS_MAX = 5
"""Of the pool's connections. A transaction may wait for what somebody holds for long; a read never does, and
finds a connection meanwhile."""
IDLE_TIMEOUT_MS = 10_000
"""How long a transaction may stand still. What a process holds that was stopped, or whose machine is gone
without a word, is free again after that."""
CONNECT_TIMEOUT_S = 5.0
COMMAND_TIMEOUT_S = 30.0
LISTEN_RETRY_S = 0.5
LISTEN_CHECK_S = 30.0
"""How often a listener asks whether anybody is still there: a line that is dead on one side doesn't tell."""
LISTEN_SILENT_S = 30.0
"""After a listener has said that it fails."""
LONG_TIMEOUT_S = 6 * 3600.0
"""For what reads or changes everything: a snapshot, a migration."""
PLANS_LIFE_S = 1.0
"""To make them takes about as long as a small batch."""
LOCK_TIMEOUT_MS = 100
"""How long a batch waits for an account that somebody else holds before it goes on without it."""

_BATCH = "SELECT * FROM commit_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
_json = msgspec.json.Encoder()


class PostgresqlConnection:
    """One connection of the pool, as a `database.Connection`."""

    queue_lock = "SELECT pg_advisory_xact_lock(77121111)"
    skip_locked = " FOR UPDATE SKIP LOCKED"

    def __init__(self, raw: Any, timeout_s: float = COMMAND_TIMEOUT_S) -> None:
        self._raw, self._timeout_s = raw, timeout_s

    async def fetch(self, sql: str, *args: object) -> Sequence[Sequence[Any]]:
        return await self._raw.fetch(sql, *args, timeout=self._timeout_s)  # type: ignore[no-any-return]

    async def run_script(self, sql: str) -> None:
        await self._raw.execute(sql, timeout=LONG_TIMEOUT_S)

    async def end(self, ends: Sequence[End]) -> list[EndOutcome]:
        args = (*_end_arrays(ends), *_charge_arrays([]), RESERVATION_LIFE_MS)
        rows = await self._raw.fetch(_BATCH, *args, False, timeout=self._timeout_s)
        return _outcomes(rows, len(ends), 0)[0]


class Postgresql:
    """See `database.Database`."""

    dialect = "postgresql"
    schema_lock = "SELECT pg_advisory_xact_lock(77121110)"
    single_process = False
    computes_here = False
    away: tuple[type[Exception], ...] = (
        OSError,
        TimeoutError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
        asyncpg.PostgresConnectionError,
        asyncpg.InvalidTransactionStateError,  # read-only, as a server is in a failover
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
        asyncpg.TransactionRollbackError,
        asyncpg.InsufficientResourcesError,
        asyncpg.LockNotAvailableError,  # a table is locked, by maintenance for instance
        asyncpg.OperatorInterventionError,
        asyncpg.PostgresSystemError,
    )

    def __init__(self, url: str, pool: Any) -> None:
        self._url, self._pool = url, pool
        self._writer: Any = None
        self._planned_at = 0.0
        self._skipping = False
        self._transactions = asyncio.Semaphore(TRANSACTIONS_MAX)

    @classmethod
    async def open(cls, url: str) -> "Postgresql":
        pool = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=POOL_MAX,
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=COMMAND_TIMEOUT_S,
            server_settings={"application_name": "myna"},
            init=partial(_set, {"jit": "off", "idle_in_transaction_session_timeout": str(IDLE_TIMEOUT_MS)}),
            reset=_leave,
        )
        return cls(url, pool)

    async def fetch(self, sql: str, *args: object) -> Sequence[Sequence[Any]]:
        return await self._pool.fetch(sql, *args)  # type: ignore[no-any-return]

    async def has_schema(self) -> bool:
        return bool(await self.fetch("SELECT 1 WHERE to_regclass('schema_version') IS NOT NULL"))

    async def transaction(self, work: Callable[[PostgresqlConnection], Awaitable[T]]) -> T:
        async with self._transactions, self._pool.acquire() as raw, raw.transaction():
            return await work(PostgresqlConnection(raw))

    async def snapshot(self, work: Callable[[PostgresqlConnection], Awaitable[T]]) -> T:
        async with (
            self._pool.acquire() as raw,
            raw.transaction(isolation="repeatable_read", readonly=True),
        ):
            return await work(PostgresqlConnection(raw, LONG_TIMEOUT_S))

    async def commit_batch(
        self, ends: Sequence[End], charges: Sequence[Charge]
    ) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
        args = (*_end_arrays(ends), *_charge_arrays(charges), RESERVATION_LIFE_MS)
        writer = await self._open_writer()
        try:
            await self._plan_anew(writer)
            try:
                rows = await writer.fetch(_BATCH, *args, self._skipping)
            except asyncpg.LockNotAvailableError:
                self._skipping = True
                rows = await writer.fetch(_BATCH, *args, True)
        except self.away:
            await self._drop_writer()
            raise
        ended, charged = _outcomes(rows, len(ends), len(charges))
        self._skipping = self._skipping and _some_busy(ended, charged)
        return ended, charged

    async def listen(self, channel: str, heard: Callable[[], None]) -> Callable[[], Awaitable[None]]:
        listening = asyncio.create_task(self._listen(channel, heard), name=f"listen-{channel}")

        async def stop() -> None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

        return stop

    async def _listen(self, channel: str, heard: Callable[[], None]) -> None:
        """On a connection of its own, opened again whenever it is lost."""
        silent_until = 0.0
        while True:
            try:
                await self._listen_once(channel, heard)
            except self.away:
                pass  # whoever wants something of the database says so
            except Exception:
                if time.monotonic() >= silent_until:
                    log.exception("listening to %r fails; it is tried again and again", channel)
                    silent_until = time.monotonic() + LISTEN_SILENT_S
            await asyncio.sleep(LISTEN_RETRY_S)

    async def _listen_once(self, channel: str, heard: Callable[[], None]) -> None:
        """Until the connection is lost. Raises what `away` names where nobody is there or says anything."""
        connection = await asyncpg.connect(
            self._url,
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=CONNECT_TIMEOUT_S,
            server_settings={"application_name": "myna-listener"},
        )
        lost = asyncio.Event()
        connection.add_termination_listener(lambda *_: lost.set())
        try:
            await connection.add_listener(channel, lambda *_: heard())
            heard()  # something may have been told before
            while not lost.is_set():
                try:
                    async with asyncio.timeout(LISTEN_CHECK_S):
                        await lost.wait()
                except TimeoutError:
                    await connection.execute("SELECT 1")
        finally:
            connection.terminate()

    async def close(self) -> None:
        await self._drop_writer()
        await self._pool.close()

    async def _open_writer(self) -> Any:
        if self._writer is None or self._writer.is_closed():
            writer = await asyncpg.connect(
                self._url,
                timeout=CONNECT_TIMEOUT_S,
                command_timeout=COMMAND_TIMEOUT_S,
                server_settings={"application_name": "myna-writer"},
            )
            try:
                await _set(
                    {
                        "enable_seqscan": "off",
                        "jit": "off",
                        "lock_timeout": str(LOCK_TIMEOUT_MS),
                        "plan_cache_mode": "force_generic_plan",
                    },
                    writer,
                )
            except BaseException:
                writer.terminate()
                raise
            self._writer = writer
        return self._writer

    async def _plan_anew(self, writer: Any) -> None:
        if (now := time.monotonic()) >= self._planned_at + PLANS_LIFE_S:
            await writer.execute("DISCARD PLANS")
            self._planned_at = now

    async def _drop_writer(self) -> None:
        """The old connection's transaction may still be on its way; its account locks make the next wait."""
        if self._writer is not None:
            self._writer.terminate()
            self._writer = None
            await asyncio.sleep(0)


async def _set(settings: Mapping[str, str], raw: Any) -> None:
    """For the rest of the session. Most settings that come with a connection are refused by poolers."""
    pairs = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
    await raw.execute(f"SELECT {pairs}", timeout=CONNECT_TIMEOUT_S)


async def _leave(_raw: Any) -> None:
    """A connection goes back to the pool as it is: nothing here changes its session."""


def _some_busy(ended: Sequence[EndOutcome], charged: Sequence[ChargeOutcome]) -> bool:
    return EndOutcome.BUSY in ended or any(
        isinstance(outcome, Refused) and outcome.why is Refusal.BUSY for outcome in charged
    )


def _end_arrays(ends: Sequence[End]) -> tuple[object, ...]:
    more = [
        {
            "n": n,
            "answer": end.answer,
            "audio": end.audio.name if end.audio else None,
            "bytes": end.audio.size_bytes if end.audio else 0,
            "sha256": end.audio.sha256.hex() if end.audio else "",
            "reason": end.reason,
        }
        for n, end in enumerate(ends, 1)
        if end.answer is not None or end.audio or end.reason
    ]
    return [end.call_id for end in ends], [int(end.state) for end in ends], _json.encode(more).decode()


def _charge_arrays(charges: Sequence[Charge]) -> tuple[object, ...]:
    more = [_more(n, charge) for n, charge in enumerate(charges, 1) if charge.reservation or charge.task]
    return (
        [charge.call_id for charge in charges],
        [charge.key_hash for charge in charges],
        [charge.scope for charge in charges],
        [charge.pays for charge in charges],
        [charge.units for charge in charges],
        [charge.deadline_ms for charge in charges],
        [charge.config_version for charge in charges],
        _json.encode(more).decode(),
    )


def _more(n: int, charge: Charge) -> dict[str, object]:
    row: dict[str, object] = {"n": n}
    if charge.reservation:
        row |= {"key": charge.reservation.key, "fingerprint": charge.reservation.fingerprint.hex()}
        row["draft"] = charge.draft
    if charge.task:
        task = charge.task
        row |= {"voice_id": task.voice_id, "speed": task.speed, "text": task.text, "status": int(task.status)}
    return row


def _outcomes(rows: Sequence[Any], ends: int, charges: int) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
    ended = [EndOutcome.LOST] * ends
    charged: list[ChargeOutcome] = [Refused(Refusal.KEY)] * charges
    for part, n, outcome, account, number, stored in rows:
        if part == "end":
            ended[n - 1] = EndOutcome(outcome)
        elif outcome == "charged":
            charged[n - 1] = Charged(account, number)
        elif outcome == "replayed":
            charged[n - 1] = Replayed(stored)
        else:
            charged[n - 1] = Refused(Refusal(outcome), number)
    return ended, charged
