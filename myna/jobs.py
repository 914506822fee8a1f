"""What the clock starts: the sweep of open calls, old audio and answers, voices of channels, the audit."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from myna import audit, clones, metrics
from myna.channels import Channels, record_voices
from myna.engines.spoken import EngineFailed
from myna.ledger import Ledger
from myna.settings import Settings
from myna.site import DAY_MS, Site
from myna.store import ledger as ledger_store
from myna.store import tasks as tasks_store
from myna.store.audio import AudioStore
from myna.store.database import Connection, Database
from myna.store.group_commit import GroupCommit
from myna.store.samples import SampleStore
from myna.tasks import NO_TRY_LEFT, Tasks

log = logging.getLogger(__name__)

CLEAN_EVERY_S = 60.0
VOICES_EVERY_S = 300.0
LEFTOVERS_EVERY_S = 3600.0
LEFTOVER_AGE_S = 3600.0
PAGE = 200


class Jobs:
    """The clock's work in one process. Every process may do it: each piece is safe to do twice."""

    def __init__(
        self,
        settings: Settings,
        db: Database,
        commits: GroupCommit,
        ledger: Ledger,
        tasks: Tasks,
        site: Site,
        channels: Channels,
        audio: AudioStore,
        samples: SampleStore,
    ) -> None:
        self._settings, self._db, self._commits, self._ledger = settings, db, commits, ledger
        self._tasks, self._site, self._channels = tasks, site, channels
        self._audio, self._samples = audio, samples
        self._running: list[asyncio.Task[None]] = []
        self._leftovers_due = 0.0
        self._looked_until = float("-inf")

    def start(self) -> None:
        every = {
            self.sweep: self._settings.sweep_every_s,
            self.look_after_leases: self._settings.sweep_every_s / 2,  # none lapses unseen for longer
            self.clean: CLEAN_EVERY_S,
            self.ask_for_voices: VOICES_EVERY_S,
            self.audit: self._settings.audit_every_s,
        }
        self._running = [
            asyncio.create_task(self._repeat(job, seconds), name=job.__name__)
            for job, seconds in every.items()
        ]

    async def close(self) -> None:
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def sweep(self) -> None:
        """Refunds calls left open past their deadline."""
        metrics.COMMITS_WAITING.set(self._commits.waiting)
        await self._site.refresh()
        refunded = await self._ledger.sweep()
        if refunded:
            log.warning("%d calls were left open past their deadline and are refunded", refunded)

    async def look_after_leases(self) -> None:
        """Queues jobs again whose node fell silent; refunds those that no node finished in all its tries."""
        put_back = await self._tasks.put_back_lapsed()
        refunded = await self._ledger.refund_all(await self._tasks.spent(), NO_TRY_LEFT)
        if put_back or refunded:
            log.warning(
                "%d jobs of silent nodes are queued again, %d tasks failed for good", put_back, refunded
            )

    async def clean(self) -> None:
        """Removes audio past its keeping time and answers past their life, a page at a time; once an hour,
        since it walks the whole store, what broken off jobs left."""
        if time.monotonic() >= self._leftovers_due:
            self._leftovers_due = time.monotonic() + LEFTOVERS_EVERY_S
            removed = await self._remove_leftovers(time.time() - LEFTOVER_AGE_S)
            if removed:
                log.info("%d files of jobs that were broken off are removed", removed)
        while True:
            forgotten = await self._db.transaction(_forget_page)
            removed = await self._remove_old_audio()
            if max(forgotten, removed) < PAGE:
                return

    async def ask_for_voices(self) -> None:
        """Records what the speech channels behind URLs can speak now."""
        for channel in self._channels.all(self._site.config):
            if channel.kind == "speech" and channel.enabled and channel.url.startswith("http"):
                try:
                    await record_voices(self._db, self._channels, channel)
                except EngineFailed as failure:
                    log.warning("speech channel %r doesn't tell its voices: %s", channel.name, failure)
        await self._site.refresh()

    async def audit(self) -> None:
        """The books, for the metrics and the log."""
        for breach in await audit.run(self._db, self._audio, hash_audio=False):
            log.error("audit: %s: %d rows, such as %s", breach.rule, breach.count, breach.examples[0])

    async def _remove_leftovers(self, before: float) -> int:
        """What was last written before this moment (Unix seconds) and nothing names; how many."""
        removed = 0
        for folder in ("audio", "samples"):
            removed += await asyncio.to_thread(remove_parts, self._settings.data_folder / folder, before)
        removed += await clones.remove_orphans(self._db, self._samples, before)
        files = await asyncio.to_thread(lambda: list(self._audio.between(self._looked_until, before)))
        for start in range(0, len(files), PAGE):
            page = files[start : start + PAGE]
            orphans = set(page) - await tasks_store.named(self._db, page)
            for name in orphans:
                await asyncio.to_thread(self._audio.delete, name)
            removed += len(orphans)
            await asyncio.sleep(0)  # the calls go first
        self._looked_until = before  # each file is looked at once
        return removed

    async def _remove_old_audio(self) -> int:
        days = self._site.settings.audio_keep_days
        if not days:
            return 0
        old = await tasks_store.old_audio(self._db, days * DAY_MS, PAGE)
        # First the files: a process that dies in between does it all once more.
        await asyncio.to_thread(self._delete, [name for _, name in old])

        async def mark(connection: Connection) -> None:
            for task_id, _ in old:
                await tasks_store.audio_removed(connection, task_id)

        await self._db.transaction(mark)
        return len(old)

    def _delete(self, names: list[str]) -> None:
        for name in names:
            self._audio.delete(name)

    async def _repeat(self, job: Callable[[], Awaitable[None]], seconds: float) -> None:
        while True:
            try:
                await job()
            except Exception as error:  # the next round tries again; until then the log and a metric tell
                log.error("%s failed", getattr(job, "__name__", "a job"), exc_info=error)
            await asyncio.sleep(seconds)


def remove_parts(folder: Path, before: float) -> int:
    """Removes the part files below `folder` that were last written before this moment (Unix seconds): a
    child that is killed together with the server leaves its own. How many."""
    removed = 0
    for part in folder.glob("*/.*.part"):
        try:
            if part.stat().st_mtime < before:
                part.unlink()
                removed += 1
        except FileNotFoundError:  # its job ended just now, or another process was here first
            continue
    return removed


async def _forget_page(connection: Connection) -> int:
    return await ledger_store.forget_old_answers(connection, PAGE)
