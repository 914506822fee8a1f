"""Periodic jobs: the sweep of open calls, removal of old audio and responses, voices of channels, the audit.

Each job is an asyncio task, so one that fails or hangs stops no other. Most wait longer in a process without
calls: what the process itself does not cause, others see to, or may wait.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from myna.accounts.refusals import Refusals
from myna.billing import audit, rollup
from myna.billing.ledger import Ledger
from myna.billing.quota import Quota
from myna.channels.channels import Channels, record_circuits, record_voices
from myna.config import DAY_MS, ConfigCache, unreadable
from myna.engines.interface import EngineFailed
from myna.errors import DatabaseUnavailable
from myna.farm.tasks import TRIES_EXHAUSTED, Tasks
from myna.gateway.trial import Prober
from myna.lib.aio import cancel_and_wait
from myna.lib.telemetry import metrics
from myna.settings import Settings
from myna.store.database import Database, Transaction
from myna.store.files.named_files import AudioStore, SampleStore, Spool
from myna.store.files.storage import FreeSpace
from myna.store.group_commit import GroupCommit
from myna.store.queries import audit_state, stored_responses
from myna.store.queries import ledger as ledger_store
from myna.store.queries import sessions as session_store
from myna.store.queries import sign_in as sign_in_store
from myna.store.queries import tasks as tasks_store
from myna.store.queries.site import due
from myna.voices import clones

log = logging.getLogger(__name__)

IDLE_S = 30.0
CLEAN_S = 60.0, 300.0
"""Here, as in the table of jobs: the interval of a job, and that of a process that charges no calls."""
LEFTOVER_AGE_S = 3600.0
AUDIT_CHECK_S = 60.0
"""How often a process checks whether an audit is due, and reads the result of the last one."""
PAGE = 200
Job = Callable[[], Awaitable[object]]
_counted = msgspec.json.Decoder(dict[str, int])


async def delete_expired_sign_ins(db: Transaction) -> None:
    """Deletes expired sessions, links and attempts at the provider, forgotten failures, the stored results of
    forms of the back office, and old forms."""
    await session_store.delete_expired(db)
    await sign_in_store.delete_expired(db)


@dataclass(eq=False, kw_only=True)
class Maintenance:
    """The periodic jobs of one process. Every process runs them: each job is idempotent."""

    settings: Settings
    db: Database
    commits: GroupCommit
    ledger: Ledger
    tasks: Tasks
    config: ConfigCache
    channels: Channels
    audio: AudioStore
    samples: SampleStore
    spool: Spool
    space: FreeSpace
    quota: Quota
    refusals: Refusals
    prober: Prober
    _running: list[asyncio.Task[None]] = field(default_factory=list, init=False)
    _checked_until: float = field(default=float("-inf"), init=False)
    _leased: bool = field(default=False, init=False)

    def start(self) -> None:
        sweep_s, audit_s = self.settings.sweep_every_s, min(self.settings.audit_every_s, AUDIT_CHECK_S)
        jobs: dict[str, tuple[Job, float, float]] = {
            # Half an interval bounds the delay until a lease expires.
            "do_what_is_due": (self.do_what_is_due, sweep_s / 2, sweep_s),
            "check_quota": (self.quota.refresh, sweep_s, IDLE_S),
            "remove_expired_keys": (self.remove_expired_keys, *CLEAN_S),
            "remove_expired_sign_ins": (partial(self.db.transaction, delete_expired_sign_ins), *CLEAN_S),
            "remove_old_audio": (self.remove_old_audio, *CLEAN_S),
            "remove_old_responses": (self.remove_old_responses, *CLEAN_S),
            "remove_leftovers": (self.remove_leftovers, 3600, 3600),
            "refresh_voices": (self.refresh_voices, 300, 300),
            "probe_channels": (self.probe_channels, 1, 1),
            "record_circuits": (partial(record_circuits, self.db, self.channels), 1, 1),
            "store_refusals": (self.refusals.store, 1, 1),
            "check_free_space": (self.space.refresh, 1, 1),
            "roll": (self.roll, 1, IDLE_S),
            "audit": (self.audit, audit_s, audit_s),
        }
        self._running = [
            asyncio.create_task(self._repeat(name, *job), name=name) for name, job in jobs.items()
        ]

    async def close(self) -> None:
        await cancel_and_wait(*self._running)

    async def do_what_is_due(self) -> None:
        """Runs the jobs that have something to do. The log has a schema of another build, and `app.py` ends
        the process."""
        metrics.COMMITS_WAITING.set(self.commits.waiting)
        found = await due(self.db)
        self._leased = found.leased
        metrics.NODES_ONLINE.set(found.nodes_online)
        metrics.fold()
        with contextlib.suppress(DatabaseUnavailable):
            await self.db.schema.check_version(found.schema, self.db)
        if found.calls_overdue:
            await self.sweep()
        if found.jobs:
            await self.requeue_expired()
            await self.refund_exhausted()
        await self.refresh_config(found.config)

    async def sweep(self) -> None:
        """Refunds calls that are open past their deadline. Expired leases first, since a lease that ends with
        its task's deadline is a failure of its node."""
        await self.requeue_expired()
        refunded = await self.ledger.sweep()
        if refunded:
            log.warning("%d calls were left open past their deadline and are refunded", refunded)

    async def refresh_config(self, version: int = 0) -> None:
        """Reads the configuration unless it has this version, also in a process that receives no calls. The
        files of keys may have changed in any case."""
        if version == self.config.current.version:
            await self.channels.load_keys(self.config.current)
        else:
            await self.config.refresh()
        self.channels.warn_of_missing_keys(self.config.current)

    async def requeue_expired(self) -> None:
        """Requeues jobs whose lease expired."""
        if requeued := await self.tasks.requeue_expired():
            log.warning("%d jobs with expired leases are requeued", requeued)

    async def refund_exhausted(self) -> None:
        """Refunds the tasks whose tries are exhausted."""
        if refunded := await self.ledger.refund_all(
            dict.fromkeys(await self.tasks.exhausted(), TRIES_EXHAUSTED)
        ):
            log.warning("%d tasks with exhausted tries failed and are refunded", refunded)

    async def remove_expired_keys(self) -> None:
        """Deletes expired idempotency keys with their stored responses, a page at a time."""
        while await self.db.transaction(lambda db: ledger_store.delete_expired_keys(db, PAGE)) == PAGE:
            pass

    async def remove_old_audio(self) -> None:
        """Removes audio older than `audio_keep_days`, a page at a time."""
        while await self._remove_page_of_audio() == PAGE:
            pass

    async def remove_old_responses(self) -> None:
        """Removes stored responses older than `responses_keep_days`, a page of ends of conversations at a
        time; all where none are stored any more."""
        days = self._days("responses_keep_days")
        if days is None:
            return
        while await self.db.transaction(lambda db: stored_responses.delete_old(db, days * DAY_MS, PAGE)):
            pass

    async def remove_leftovers(self) -> None:
        """Removes files that interrupted jobs left: unreferenced ones that are old enough. It walks the whole
        store."""
        before = time.time() - LEFTOVER_AGE_S
        removed = 0
        for made in (self.audio, self.samples):
            removed += await asyncio.to_thread(made.remove_unfinished, before)
        removed += await asyncio.to_thread(self.spool.remove_old, before)
        removed += await clones.remove_orphans(self.db, self.samples, before)
        files = await asyncio.to_thread(
            lambda: list(self.audio.modified_between(self._checked_until, before))
        )
        for start in range(0, len(files), PAGE):
            page = files[start : start + PAGE]
            orphans = set(page) - await tasks_store.files_in_use(self.db, page)
            await asyncio.to_thread(self.audio.each, self.audio.delete, orphans)
            removed += len(orphans)
            await asyncio.sleep(0)  # lets calls run in between
        self._checked_until = before  # each file is checked once
        if removed:
            log.info("%d files of interrupted jobs are removed", removed)

    async def refresh_voices(self) -> None:
        """Records the voices that the speech channels have now."""
        for channel in self.channels.all(self.config.current):
            if channel.kind == "speech" and channel.enabled:
                try:
                    await record_voices(self.db, self.channels, channel)
                except EngineFailed as failure:
                    log.warning("speech channel %r doesn't list its voices: %s", channel.name, failure)
                except Exception:  # continues with the next channel
                    log.exception("the voices of speech channel %r can't be recorded", channel.name)
        await self.config.refresh()

    async def probe_channels(self) -> None:
        """Probes the channels whose calls fail for a few accounts only."""
        suspected = self.channels.circuits.to_probe()
        config = self.config.current
        await asyncio.gather(*(self.prober.probe(config, *each) for each in suspected.items()))

    async def roll(self) -> None:
        """Folds what the batches wrote into the tables of the reports."""
        await rollup.roll(self.db, self.config.settings.time_zone)

    async def audit(self) -> None:
        """Audits the books if an audit is due and no other process runs one. Sets the metrics to the result
        of the last audit of any process."""
        every_ms = int(self.settings.audit_every_s * 1000)
        if await self.db.transaction(lambda connection: audit_state.claim(connection, every_ms)):
            for breach in (await audit.run(self.db, self.audio)).breaches:
                log.error("audit: %s: %d rows, such as %s", breach.rule, breach.count, breach.examples[0])
        state = await audit_state.state(self.db)
        if state.audited_at:
            metrics.AUDIT_BREACHES.set(state.breaches)
            metrics.AUDIT_TIME.set(state.audited_at / 1000)
            for kind, number in _counted.decode(state.counted).items():
                metrics.AUDIT_CHECKED.labels(kind).set(number)

    async def _remove_page_of_audio(self) -> int:
        days = self._days("audio_keep_days")
        if not days:
            return 0
        old = await tasks_store.old_audio(self.db, days * DAY_MS, PAGE)
        # The files first: if the process dies in between, the next run repeats both.
        await asyncio.to_thread(self.audio.each, self.audio.delete, old.values())

        async def record(connection: Transaction) -> None:
            for task_id in old:
                await tasks_store.mark_audio_removed(connection, task_id)

        await self.db.transaction(record)
        return len(old)

    def _days(self, setting: str) -> int | None:
        """This site setting; None if it can't be read: what its default would remove can't be restored."""
        if setting in {one.name for one in unreadable(self.config.current)}:
            return None
        return int(getattr(self.config.settings, setting))

    async def _repeat(self, name: str, job: Job, seconds: float, idle_s: float) -> None:
        """Runs the job every `seconds`, or `idle_s` without a charge or a lease since the last run."""
        charges, until = -1, 0.0
        while True:
            if self.commits.charges != charges or self._leased or time.monotonic() >= until:
                charges, until = self.commits.charges, time.monotonic() + idle_s
                try:
                    await job()
                except Exception as error:  # the next run tries again
                    log.error("%s failed", name, exc_info=error)
            await asyncio.sleep(seconds)
