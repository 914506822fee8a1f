"""What compute nodes do for the site: speech tasks and the previews of new voices.

    0 queued ──lease──► 1 processing ──complete──► 2 completed    the call is kept
       ▲  │                 │  │
       │  └─── deadline ────┼──┴─ deadline, last try, final failure ──► 3 failed    the units go back
       └─── lease ran out, ─┘
            handed back

2 and 3 are final. A move to either is one transaction with the end of the call that pays. Each lease has an
epoch and a token of its own; what a node says under another one, or too late, is Stale. A task that the site
speaks itself is at 1 without a lease, and nothing here touches it.
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence

from myna import metrics
from myna.clones import preview_text
from myna.errors import DatabaseAway, Stale
from myna.store import accounts, queue, tasks
from myna.store import outlook as outlook_store
from myna.store.batch import AUDIO_MARK, Audio, CallState, End, EndOutcome, TaskStatus
from myna.store.bell import Bell
from myna.store.database import Connection, Database
from myna.store.queue import CLONE, TASK, Head, Proof, Taken
from myna.store.tasks import TaskRow
from myna.wire.farm import SLOTS_MAX, TRIES_MAX, Beat, Failure, Held, Job, Reference

log = logging.getLogger(__name__)

PAGE = 200
HEADS_MAX = SLOTS_MAX + 100
"""How many accounts' next jobs a lease looks at: as many as a node may take, and some that are in hand."""
NO_TRY_LEFT = "no compute node finished it"
ENDED_GRACE_S = 20.0
"""How long behind its deadline a task's end may come: a sweep or two and their commits."""


class Tasks:
    """The queue as one process serves it to nodes and to those who wait for them."""

    def __init__(self, db: Database, *, lease_s: float) -> None:
        self._db, self._lease_ms = db, int(lease_s * 1000)
        self._work, self._done = Bell(db, "myna_work"), Bell(db, "myna_done")
        self._taking = asyncio.Lock()  # leases go one after the other: only one waits at the database
        self._closing = False

    async def start(self) -> None:
        await self._work.start()
        await self._done.start()

    async def close(self) -> None:
        """Ends all long polls."""
        self._closing = True
        await self._work.close()
        await self._done.close()

    def ordered(self) -> None:
        """There is a new job: wakes the nodes that wait at this process."""
        self._work.ring()

    # ---- what nodes ask

    async def lease(self, node_id: int, jobs: int, wait_s: float) -> list[Job]:
        """Up to `jobs` jobs for the node, as soon as there is one; none after `wait_s` seconds, or when the
        process ends."""
        until = time.monotonic() + wait_s
        while True:
            ring = self._work.next()
            if await queue.heads(self._db, node_id, 1):  # a look costs no transaction
                async with self._taking:
                    taken = await self._db.transaction(lambda db: self._take(db, node_id, jobs))
                if taken:
                    return taken
            left = until - time.monotonic()
            if left <= 0 or self._closing:
                return []
            await self._work.wait(ring, left)

    async def _take(self, db: Connection, node_id: int, jobs: int) -> list[Job]:
        """One job an account and round, until there are enough or none is to be had. A job that somebody has
        in hand is passed over, and holds up none but its own account."""
        await db.fetch(db.queue_lock)
        found: list[Job] = []
        while len(found) < jobs:
            before = len(found)
            for head in await queue.heads(db, node_id, HEADS_MAX):
                job = await self._take_one(db, head, node_id)
                if job:
                    found.append(job)
                if len(found) == jobs:
                    break
            if len(found) == before:
                break
        return found

    async def _take_one(self, db: Connection, head: Head, node_id: int) -> Job | None:
        token = secrets.token_hex(16)
        taken = await queue.take(db, head, node_id, _hash(token), self._lease_ms)
        return _job(taken, token) if taken else None

    async def beat(self, node_id: int, beats: Sequence[Beat]) -> list[Held]:
        """The leases of these jobs go on; those that the node doesn't hold any more come back."""

        async def work(db: Connection) -> list[Held]:
            lost = []
            for beat in beats:
                percent = min(99, int(beat.progress * 100))
                if not await queue.extend(db, _proof(node_id, beat.held), self._lease_ms, percent):
                    lost.append(beat.held)
            return lost

        return await self._db.transaction(work) if beats else []

    async def holds(self, node_id: int, held: Held) -> bool:
        """Whether it makes sense to take audio for the job: the node's now, or when it was completed."""
        return await queue.holds(self._db, _proof(node_id, held))

    async def complete(self, node_id: int, held: Held, audio: Audio) -> bool:
        """1 → 2 with this audio, which is then named; False where that was done before by the same holder
        with the same audio. Raises Stale, and DatabaseAway where it isn't known."""
        proof = _proof(node_id, held)

        async def work(db: Connection) -> bool:
            place = await self._lock(db, proof)
            if not await queue.hold(db, proof):
                if await queue.completed_with(db, proof, audio.sha256):
                    return False
                raise Stale
            await queue.well(db, node_id)
            if proof.kind == CLONE:
                await queue.clone_ready(db, proof.id, audio.name, audio.size_bytes, audio.sha256)
                return True
            await outlook_store.spoke(db, node_id, proof.id)
            draft = await tasks.draft(db, place.call_id)
            answer = draft.replace(AUDIO_MARK, audio.name) if draft else None
            await self._end(db, End(place.call_id, CallState.KEPT, answer, audio))
            return True

        done = await self._move(work)
        if done and proof.kind == TASK:
            metrics.calls("kept").inc()
        return done

    async def fail(self, node_id: int, failure: Failure) -> None:
        """1 → 3 where no node could do it or the last try is over, else 1 → 0. Raises Stale."""
        proof = _proof(node_id, failure.held)

        async def work(db: Connection) -> bool:
            place = await self._lock(db, proof)
            if not await queue.hold(db, proof):
                raise Stale
            if not failure.final:  # a job that no node could do says nothing of this one
                await queue.rest(db, node_id, handed_back=failure.handed_back)
            last = await queue.tries(db, proof.kind, proof.id) >= TRIES_MAX
            if failure.handed_back or not (failure.final or last):
                await queue.put_back(db, proof.kind, proof.id, tries_back=int(failure.handed_back))
                return False
            if proof.kind == CLONE:
                await queue.clone_failed(db, proof.id, failure.reason)
                return False
            await self._end(db, End(place.call_id, CallState.REFUNDED, reason=failure.reason))
            return True

        if await self._move(work):
            metrics.calls("refunded").inc()

    async def reference(self, node_id: int, sha256: bytes) -> str | None:
        """The stored sample's name, if a job that this node holds refers to it."""
        return await queue.held_sample(self._db, node_id, sha256)

    async def forgotten(self, sha256s: Sequence[str]) -> list[str]:
        """Those of these samples that no voice is made of any more."""
        known = await queue.samples_known(self._db, [bytes.fromhex(name) for name in sha256s])
        return [name for name in sha256s if bytes.fromhex(name) not in known]

    async def _lock(self, db: Connection, proof: Proof) -> queue.Place:
        """The account's row before the job's, as everywhere."""
        place = await queue.place(db, proof.kind, proof.id)
        if place is None:
            raise Stale
        await accounts.lock(db, place.account_id)
        return place

    async def _end(self, db: Connection, end: End) -> None:
        (outcome,) = await db.end([end])
        if outcome is not EndOutcome.DONE:
            raise Stale

    async def _move(self, work: Callable[[Connection], Awaitable[bool]]) -> bool:
        try:
            moved = await self._db.transaction(work)
        except self._db.away:
            raise DatabaseAway from None
        self._work.ring()
        self._done.ring()
        return moved

    # ---- what the clock asks

    async def put_back_lapsed(self) -> int:
        """1 → 0 for jobs whose node wasn't heard in time and that have a try left; clones without one fail.
        How many were put back."""

        async def work(db: Connection) -> int:
            await queue.fail_spent_clones(db, TRIES_MAX, NO_TRY_LEFT)
            return await queue.put_back_lapsed(db, TRIES_MAX, PAGE)

        count = await self._db.transaction(work)
        if count:
            self._work.ring()
        return count

    async def spent(self) -> list[bytes]:
        """Calls to refund: their task's last lease ran out."""
        return await queue.spent(self._db, TRIES_MAX, PAGE)

    # ---- what the site's own speech asks

    async def take_over(self, account_id: int, call_id: bytes, seconds: float, draft: str | None) -> bool:
        """Leaves the speech that the site couldn't speak to the nodes, for so long; False where its call
        ended meanwhile."""

        async def work(db: Connection) -> bool:
            await accounts.lock(db, account_id)
            return await tasks.leave_to_nodes(db, call_id, int(seconds * 1000), draft)

        return await self._move(work)

    async def ended(self, task_id: int, seconds: float) -> TaskRow | None:
        """The task once it ended, for one whose deadline is `seconds` away; None where nobody ended it even
        after that."""
        until = time.monotonic() + seconds + ENDED_GRACE_S
        while True:
            ring = self._done.next()
            task = await self._look(task_id)
            if task and task.status in (TaskStatus.COMPLETED, TaskStatus.FAILED):
                return task
            left = until - time.monotonic()
            if left <= 0 or self._closing:
                return None
            await self._done.wait(ring, left)

    async def _look(self, task_id: int) -> TaskRow | None:
        try:
            return await tasks.by_id(self._db, task_id)
        except self._db.away as error:  # the next look may find it back
            log.warning("the database is away (%s) while a call waits for its task", type(error).__name__)
            return None


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _proof(node_id: int, held: Held) -> Proof:
    return Proof(held.kind, held.id, held.epoch, _hash(held.token), node_id)


def _job(taken: Taken, token: str) -> Job:
    reference = None
    if taken.reference:
        row = taken.reference
        reference = Reference(row.sha256.hex(), row.size_bytes, row.transcript, row.language)
    text = preview_text(taken.text) if taken.kind == CLONE else taken.text
    lease_s = taken.lease_ms / 1000
    return Job(
        taken.kind, taken.id, taken.epoch, token, lease_s, text, taken.voice_id, taken.speed, reference
    )
