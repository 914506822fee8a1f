"""The jobs of compute nodes: speech tasks and the previews of cloned voices.

    0 queued ──lease──► 1 processing ──complete──► 2 completed    the call is kept
       ▲  │                 │  │
       │  └─── deadline ────┼──┴─ deadline, last try, refused by all ──► 3 failed   the call is refunded
       └─── lease expired, ─┘
            requeued

2 and 3 are final. The same transaction ends the task and its call. Each lease has an epoch and a token. A
request with another epoch or token, or after the expiry, raises StaleLease. A task that the service speaks
itself has status 1 without a lease, and is not changed here.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence

from myna.engines.text.notation import flat
from myna.engines.voices import sample_text
from myna.errors import DatabaseUnavailable, StaleLease
from myna.farm.nodes import LANGUAGE_SINCE, NOTATION_SINCE, has_feature, hash_of, node_channel
from myna.farm.polls import Notifications, Polls
from myna.lib.files import wait_shielded
from myna.lib.telemetry import metrics
from myna.store.batch import AUDIO_PLACEHOLDER, Audio, CallState, End, EndOutcome, TaskStatus, to_store
from myna.store.database import Database, Transaction
from myna.store.queries import accounts, tasks
from myna.store.queries import clones as clones_store
from myna.store.queries.farm import able, queue
from myna.store.queries.farm import nodes as nodes_store
from myna.store.queries.farm.able import CLONE, TASK
from myna.store.queries.farm.queue import LeasedRow, NextJob, Proof
from myna.store.queries.tasks import TaskRow
from myna.voices import lexicon
from myna.wire.farm import SLOTS_MAX, TRIES_MAX, Failure, Heartbeat, Job, JobReference, LeaseProof

log = logging.getLogger(__name__)

PAGE = 200
ACCOUNTS_MAX = SLOTS_MAX + 100
"""The accounts whose next jobs a lease considers: as many as a node may lease, and some that are locked."""
TRIES_EXHAUSTED = "no compute node finished it"
REFUSED_CLONE_WAIT_MS = 600_000
"""How long a refused clone waits for another node while none is online, from the start of its last lease. A
refused task waits until its deadline."""
IN_DOUBT = "The database doesn't answer; whether this was recorded is unknown, send it again."
REQUEUE_S = 2.0
"""How long to wait for the requeuing of jobs that were not delivered. If it fails, their leases expire."""
ENDED_GRACE_S = 20.0
"""How long after its deadline a task may end: one or two sweeps and their commits."""


class Tasks:
    """The queue in one process: nodes lease and end its jobs, calls wait for their tasks."""

    def __init__(self, db: Database, *, lease_s: float) -> None:
        self._db = db
        self._lease_ms = int(lease_s * 1000)
        self._work = Notifications(db, "myna_work")
        self._done = Notifications(db, "myna_done")
        self._lease_lock = asyncio.Lock()
        """Leases are serial, so that only one connection of a process waits for the lock of the queue."""
        self._polls = Polls(db=db, work=self._work, lease=self._lease, requeue=self.requeue)
        self._closing = False

    async def start(self) -> None:
        await self._work.start()
        await self._done.start()
        self._polls.start()

    async def close(self) -> None:
        """Ends all long polls."""
        self._closing = True
        await self._polls.close()
        await self._work.close()
        await self._done.close()

    def notify_nodes(self) -> None:
        """Notifies the waiting nodes of a new job."""
        self._work.notify()

    # ---- requests of nodes

    async def lease(self, node_id: int, jobs: int, wait_s: float) -> list[Job]:
        """Leases up to `jobs` jobs to the node, as soon as there is one. None after `wait_s` seconds, when
        the node polls again, is disabled, draining or removed, or when the process ends. Requeues them if
        cancelled."""
        if wait_s <= 0 or self._closing:
            return await self._lease(node_id, jobs)
        return await self._polls.wait(node_id, jobs, wait_s)

    async def _lease(self, node_id: int, jobs: int) -> list[Job]:
        """Leases what is queued now, without waiting."""
        if not await queue.next_jobs(
            self._db, node_id, 1
        ):  # without a transaction, as the queue is often empty
            return []
        found: list[Job] = []
        async with self._lease_lock:
            try:
                await self._db.transaction(lambda db: self._lease_jobs(db, node_id, jobs, found))
            except asyncio.CancelledError:  # the transaction may have been committed
                await self.requeue(node_id, found)
                raise
        return found

    async def requeue(self, node_id: int, jobs: list[Job]) -> None:
        """Requeues leased jobs that were not delivered to their node. This does not count as a try. Waits up
        to REQUEUE_S, also when cancelled. A failure is logged, and the leases expire."""
        await wait_shielded(asyncio.ensure_future(self._requeue(node_id, jobs)), REQUEUE_S)

    async def _requeue(self, node_id: int, jobs: list[Job]) -> None:
        async def work(db: Transaction) -> bool:
            for job in jobs:
                if await queue.lock_lease(db, _proof(node_id, job.lease)):
                    await queue.requeue(db, job.kind, job.id, tries_returned=1)
            return False

        try:
            await self._change(work)
        except Exception:
            log.exception("jobs that were not delivered stay leased until their leases expire")

    async def _lease_jobs(self, db: Transaction, node_id: int, jobs: int, found: list[Job]) -> None:
        """Adds one job of each account per round to `found`, until there are enough or no more can be leased.
        Skips a job that another transaction has locked; that delays its account only."""
        await db.fetch(db.queue_lock)
        while len(found) < jobs:
            count = len(found)
            for next_job in await queue.next_jobs(db, node_id, ACCOUNTS_MAX):
                job = await self._lease_one(db, next_job, node_id)
                if job:
                    found.append(job)
                if len(found) == jobs:
                    break
            if len(found) == count:
                break

    async def _lease_one(self, db: Transaction, next_job: NextJob, node_id: int) -> Job | None:
        token = secrets.token_hex(16)
        leased = await queue.lease(db, next_job, node_id, hash_of(token.encode()), self._lease_ms)
        if leased is None:
            return None
        if leased.kind == CLONE:
            return _job(leased, token, sample_text(leased.text))
        words = await lexicon.stored(db, next_job.account_id)
        text = lexicon.with_readings(leased.text, words)
        plain = flat(text)
        if text == plain and not leased.language:
            return _job(leased, token, text)
        node = await nodes_store.by_id(db, node_id)
        version = node.version if node else ""
        language = leased.language if has_feature(version, LANGUAGE_SINCE) else ""
        return _job(leased, token, text if has_feature(version, NOTATION_SINCE) else plain, language)

    async def beat(self, node_id: int, beats: Sequence[Heartbeat]) -> list[LeaseProof]:
        """Extends the leases of these jobs. Returns those that the node has lost. Writes nothing if no lease
        would change."""
        lost: list[LeaseProof] = []
        due: list[Heartbeat] = []
        for beat in beats:
            is_due = await queue.is_due(
                self._db, _proof(node_id, beat.lease), self._lease_ms, _percent(beat.progress)
            )
            if is_due is None:
                lost.append(beat.lease)
            elif is_due:
                due.append(beat)

        async def work(db: Transaction) -> list[LeaseProof]:
            return [
                beat.lease
                for beat in due
                if not await queue.extend(
                    db, _proof(node_id, beat.lease), self._lease_ms, _percent(beat.progress)
                )
            ]

        return lost + await self._db.transaction(work) if due else lost

    async def has_lease(self, node_id: int, lease: LeaseProof) -> bool:
        """Whether the node has the lease of the job, or had it when it completed the job."""
        return await queue.has_lease(self._db, _proof(node_id, lease))

    async def text(self, lease: LeaseProof) -> tuple[str, float]:
        """The text of the job, and its speed; an empty text if there is no such job."""
        job = await queue.by_id(self._db, lease.kind, lease.id)
        if job is None:
            return "", 1.0
        return (sample_text(job.text) if lease.kind == CLONE else job.text), job.speed

    async def complete(self, node_id: int, lease: LeaseProof, audio: Audio) -> bool:
        """1 → 2. True if the job has this audio now, False if this lease has completed it with the same audio
        before. Raises StaleLease, and DatabaseUnavailable if the result is unknown."""
        proof = _proof(node_id, lease)

        async def work(db: Transaction) -> bool:
            job = await self._lock(db, proof)
            if not await queue.lock_lease(db, proof):
                if await queue.completed_with(db, proof, audio.sha256):
                    return False
                raise StaleLease
            await able.record_success(db, proof.kind, proof.id, node_id)
            if proof.kind == CLONE:
                await clones_store.complete_clone(db, proof.id, audio.name, audio.size_bytes, audio.sha256)
                return True
            await able.record_speed(db, node_id, proof.id)
            draft = await tasks.draft(db, job.call_id)
            answer = to_store(draft.replace(AUDIO_PLACEHOLDER, audio.name)) if draft else None
            channel = await _channel(db, node_id)
            end = End(call_id=job.call_id, state=CallState.KEPT, answer=answer, audio=audio, channel=channel)
            await self._end(db, end)
            return True

        completed = await self._change(work)
        if completed and proof.kind == TASK:
            metrics.added[metrics.calls("kept")] += 1
        return completed

    async def fail(self, node_id: int, failure: Failure) -> None:
        """1 → 3 after the last try, and after a final failure if no other online node can do the job; else
        1 → 0. A node that reported a final failure does not get the job again. Raises StaleLease."""
        proof = _proof(node_id, failure.lease)

        async def work(db: Transaction) -> bool:
            job = await self._lock(db, proof)
            if not await queue.lock_lease(db, proof):
                raise StaleLease
            if not failure.final:  # after a final one the job may be at fault: see `record_success`
                await able.begin_cooldown(db, node_id, returned=failure.returned)
            last = job.tries >= TRIES_MAX
            if failure.returned or not (last or await self._refused_by_all(db, proof, failure)):
                await queue.requeue(db, proof.kind, proof.id, tries_returned=int(failure.returned))
                return False
            if proof.kind == CLONE:
                await clones_store.fail_clone(db, proof.id, failure.reason)
                return False
            channel = await _channel(db, node_id)
            end = End(job.call_id, CallState.REFUNDED, reason=failure.reason, channel=channel)
            await self._end(db, end)
            return True

        if await self._change(work):
            metrics.added[metrics.calls("refunded")] += 1

    async def _refused_by_all(self, db: Transaction, proof: Proof, failure: Failure) -> bool:
        """Whether the failure is final and no other online node can do the job."""
        if not failure.final:
            return False
        await able.refuse(db, proof.kind, proof.id, proof.node_id, failure.reason)
        return not await able.another_node_can(db, proof.kind, proof.id)

    async def reference(self, node_id: int, sha256: bytes) -> str | None:
        """The stored sample's name, if a job that this node has leased refers to it."""
        return await clones_store.leased_sample(self._db, node_id, sha256)

    async def unused_samples(self, sha256s: Sequence[str]) -> list[str]:
        """Those of these samples (SHA-256 in hex) that no cloned voice uses any more."""
        used = await clones_store.known_samples(self._db, [bytes.fromhex(name) for name in sha256s])
        return [name for name in sha256s if bytes.fromhex(name) not in used]

    async def _lock(self, db: Transaction, proof: Proof) -> queue.JobRow:
        """Locks the account's row, which every transaction locks before the job's. Raises StaleLease."""
        job = await queue.by_id(db, proof.kind, proof.id)
        if job is None:
            raise StaleLease
        await accounts.lock(db, job.account_id)
        return job

    async def _end(self, db: Transaction, end: End) -> None:
        (outcome,) = await db.end([end])
        if outcome is not EndOutcome.DONE:
            raise StaleLease

    async def _change(self, work: Callable[[Transaction], Awaitable[bool]]) -> bool:
        """Runs a transaction that changes jobs, then notifies the nodes and the calls that wait."""
        try:
            changed = await self._db.transaction(work)
        except self._db.unavailable:
            raise DatabaseUnavailable(IN_DOUBT) from None
        self._work.notify()
        self._done.notify()
        return changed

    # ---- maintenance

    async def requeue_expired(self) -> int:
        """1 → 0 for jobs with an expired lease and tries left; their nodes have failed. Fails clones without
        tries left, and refused ones that no other node can make. Returns the number of requeued jobs."""

        async def work(db: Transaction) -> int:
            await able.fail_refused_clones(db, REFUSED_CLONE_WAIT_MS, TRIES_EXHAUSTED)
            requeued = await queue.requeue_expired(db, TRIES_MAX, PAGE)
            await queue.fail_exhausted_clones(db, TRIES_MAX, TRIES_EXHAUSTED)
            return requeued

        count = await self._db.transaction(work)
        if count:
            self._work.notify()
        return count

    async def exhausted(self) -> list[bytes]:
        """The ids of the calls to refund, since the last lease of their task expired."""
        return await queue.exhausted(self._db, TRIES_MAX, PAGE)

    # ---- speech in this process

    async def queue_for_nodes(
        self, account_id: int, call_id: bytes, seconds: float, draft: str | None
    ) -> bool:
        """Queues a task that this process could not speak for the nodes, with a deadline in `seconds`. False
        if its call has ended."""

        async def work(db: Transaction) -> bool:
            await accounts.lock(db, account_id)
            return await tasks.queue_for_nodes(db, call_id, int(seconds * 1000), draft)

        return await self._change(work)

    async def wait_for_end(self, task_id: int, seconds: float) -> TaskRow | None:
        """Waits for the end of a task whose deadline is in `seconds`. None if it has not ended ENDED_GRACE_S
        after that."""
        until = time.monotonic() + seconds + ENDED_GRACE_S
        while True:
            event = self._done.next_event()
            task = await self._task(task_id)
            if task and task.status in (TaskStatus.COMPLETED, TaskStatus.FAILED):
                return task
            left = until - time.monotonic()
            if left <= 0 or self._closing:
                return None
            await self._done.wait(event, left)

    async def _task(self, task_id: int) -> TaskRow | None:
        try:
            return await tasks.by_id(self._db, task_id)
        except self._db.unavailable as error:  # the next query may succeed
            log.warning(
                "the database is unavailable (%s) while a call waits for its task", type(error).__name__
            )
            return None


async def _channel(db: Transaction, node_id: int) -> str:
    """Under what name the node's calls are reported; "" if it was removed."""
    node = await nodes_store.by_id(db, node_id)
    return node_channel(node.name) if node else ""


def _percent(progress: float) -> int:
    return min(99, int(progress * 100))


def _proof(node_id: int, lease: LeaseProof) -> Proof:
    return Proof(
        kind=lease.kind,
        id=lease.id,
        epoch=lease.epoch,
        token_hash=hash_of(lease.token.encode()),
        node_id=node_id,
    )


def _job(leased: LeasedRow, token: str, text: str, language: str = "") -> Job:
    reference = None
    if leased.reference:
        row = leased.reference
        reference = JobReference(
            sha256=row.sha256.hex(),
            size_bytes=row.size_bytes,
            transcript=row.transcript,
            language=row.language,
        )
    return Job(
        kind=leased.kind,
        id=leased.id,
        epoch=leased.epoch,
        token=token,
        lease_s=leased.lease_ms / 1000,
        text=text,
        voice_id=leased.voice_id,
        speed=leased.speed,
        language=language,
        reference=reference,
    )
