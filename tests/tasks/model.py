"""A model of the queue: no database, no hashes, and a clock that a test moves."""

from dataclasses import dataclass, field
from typing import ClassVar

from myna.store.batch import AUDIO_PLACEHOLDER, TASK_PLACEHOLDER
from myna.wire.farm import TRIES_MAX

LEASE_S = 300
ONLINE_S = 40
CLONE_LEASE_MAX_S = 900
OPINION_GRACE_S = 600
SWEPT_S = 60
"""The maximum time past a deadline, since sweeps run more often."""
QUEUED, LEASED, DONE, FAILED = range(4)


@dataclass
class Node:
    """The capabilities and the cooldown of a node."""

    voices: tuple[str, ...]
    languages: tuple[str, ...] = ()
    enabled: bool = True
    failures: int = 0
    cooldown_until: int = 0
    heard_at: int = 0

    def cool_down(self, now: int, *, returned: bool) -> None:
        self.failures += not returned
        self.cooldown_until = now + min(60, 2**self.failures)


@dataclass(eq=False)
class Work:
    """The fields that tasks and voices have in common."""

    id: int
    account_id: int
    status: int = QUEUED
    epoch: int = 0
    tries: int = 0
    node_id: int = 0
    leased_at: int = 0
    lease_until: float = 0
    audio: str = ""
    deleted: bool = False
    refused_by: list[int] = field(default_factory=list)

    kind: ClassVar[str]


@dataclass(eq=False)
class Voice(Work):
    """A cloned voice of an account."""

    voice_id: str = ""
    language: str = ""

    kind = "clone"


@dataclass(eq=False)
class Task(Work):
    """A task, its call, and its stored response if it has an idempotency key.

    LEASED without `lease_until`: the service itself speaks it.
    """

    call_id: bytes = b""
    voice_id: str = ""
    has_key: bool = False
    draft: str | None = None
    answer: str | None = None
    deadline: int = 0

    kind = "task"

    @property
    def spoken_by_service(self) -> bool:
        return self.status == LEASED and not self.lease_until

    @property
    def has_stored_response(self) -> bool:
        return self.has_key and self.status != FAILED

    def set_draft(self, draft: str | None) -> None:
        if draft is not None:
            self.draft = draft.replace(TASK_PLACEHOLDER, str(self.id))
            self.answer = None if AUDIO_PLACEHOLDER in self.draft else self.draft


@dataclass(frozen=True)
class Lease:
    """One lease of a job."""

    job: Work
    node_id: int
    epoch: int


@dataclass
class Model:
    """The state of one service. `now` is in seconds."""

    now: int = 0
    units: dict[int, int] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    voices: list[Voice] = field(default_factory=list)
    turns: dict[int, int] = field(default_factory=dict)

    @property
    def jobs(self) -> list[Work]:
        return [*self.voices, *self.tasks]

    # ---- orders

    def order(self, task: Task, life_s: int, draft: str | None) -> None:
        self.units[task.account_id] -= 1
        task.deadline = self.now + life_s
        task.set_draft(draft)
        self.tasks.append(task)

    def queue_for_nodes(self, task: Task, life_s: int, draft: str | None) -> bool:
        if not task.spoken_by_service:
            return False
        task.status = QUEUED
        task.deadline = self.now + life_s
        task.set_draft(draft)
        return True

    def keep(self, task: Task, audio: str, answer: str | None) -> bool:
        """The service itself completes the task. Returns False if it no longer speaks it."""
        if not task.spoken_by_service:
            return False
        task.audio = audio
        task.answer = answer
        self.end(task, kept=True)
        return True

    def delete(self, voice: Voice) -> int:
        """Returns the number of tasks that fail with the voice."""
        self.voices.remove(voice)
        voice.deleted = True
        waiting = [
            task
            for task in self.tasks
            if task.voice_id == voice.voice_id and task.status < DONE and not task.spoken_by_service
        ]
        for task in waiting:
            self.end(task, kept=False)
        return len(waiting)

    # ---- what nodes do

    def lease(self, node_id: int, jobs: int) -> list[Work]:
        """Leases round robin over accounts with jobs for the node, the account served longest ago first."""
        found: list[Work] = []
        while len(found) < jobs:
            heads = self._heads(node_id)[: jobs - len(found)]
            if not heads:
                break
            for job in heads:
                job.status = LEASED
                job.node_id = node_id
                job.leased_at = self.now
                job.epoch += 1
                job.tries += 1
                self.renew(job)
                self.turns[job.account_id] = max(self.turns.values(), default=0) + 1
            found += heads
        return found

    def _heads(self, node_id: int) -> list[Work]:
        able = [job for job in self.jobs if self._can(node_id, job)]
        first: dict[int, Work] = {}
        for job in able:  # voices come before tasks, both in order of their ids
            first.setdefault(job.account_id, job)
        return sorted(first.values(), key=self._place)

    def _place(self, job: Work) -> tuple[int, int, int]:
        return (self.turns.get(job.account_id, 0), job.id if job.kind == "task" else 0, job.account_id)

    def node_called(self, node_id: int) -> None:
        self.nodes[node_id].heard_at = self.now

    def _can(self, node_id: int, job: Work) -> bool:
        node = self.nodes[node_id]
        if node.cooldown_until > self.now or job.status != QUEUED:
            return False
        if isinstance(job, Task) and job.deadline <= self.now:
            return False
        if job.node_id == node_id and self._another(job, node_id):
            return False
        return self._able(node_id, job)

    def _able(self, node_id: int, job: Work) -> bool:
        """Whether the node is enabled, has the capabilities for the job and has not refused it."""
        node = self.nodes[node_id]
        if not node.enabled or node_id in job.refused_by:
            return False
        if isinstance(job, Voice):
            return job.language in node.languages
        assert isinstance(job, Task)
        ready = {
            voice.voice_id
            for voice in self.voices
            if voice.status == DONE and voice.language in node.languages
        }
        return job.voice_id in node.voices or job.voice_id in ready

    def renew(self, job: Work) -> None:
        """A node has half of the time to the deadline: the texts are short."""
        most = CLONE_LEASE_MAX_S
        if isinstance(job, Task):
            most = (job.deadline - job.leased_at) / 2
        job.lease_until = min(self.now + LEASE_S, job.leased_at + most)

    def valid(self, lease: Lease) -> bool:
        job = lease.job
        return self._is_current(lease) and job.status == LEASED and job.lease_until > self.now

    def completed(self, lease: Lease) -> bool:
        return self._is_current(lease) and lease.job.status == DONE

    def _is_current(self, lease: Lease) -> bool:
        return (lease.job.epoch, lease.job.node_id, lease.job.deleted) == (lease.epoch, lease.node_id, False)

    def may_fetch_sample(self, node_id: int, voice: Voice) -> bool:
        """Whether the node has a valid lease that needs the voice's sample."""
        in_voice = [task for task in self.tasks if task.voice_id == voice.voice_id]
        return any(
            job.node_id == node_id and job.status == LEASED and job.lease_until > self.now
            for job in (voice, *in_voice)
        )

    def complete(self, lease: Lease, audio: str) -> bool | None:
        """None if the lease is stale."""
        if self.valid(lease):
            lease.job.audio = audio
            self.nodes[lease.node_id].failures = 0
            for node_id in lease.job.refused_by:
                if node_id in self.nodes:
                    self.nodes[node_id].cool_down(self.now, returned=False)
            self.end(lease.job, kept=True)
            return True
        return False if self.completed(lease) and lease.job.audio == audio else None

    def fail(self, lease: Lease, final: bool, returned: bool) -> bool:
        """False if the lease is stale."""
        if not self.valid(lease):
            return False
        job = lease.job
        if not final:
            self.nodes[lease.node_id].cool_down(self.now, returned=returned)
        last = job.tries >= TRIES_MAX
        if final and not returned and not last:
            job.refused_by.append(lease.node_id)
            final = not self._another(job)
        if returned or not (final or last):
            self._requeue(job, int(returned))
        else:
            self.end(job, kept=False)
        return True

    def _another(self, job: Work, but: int = 0) -> bool:
        """Whether a node is online that can do the job and has not refused it."""
        return any(
            self._able(node_id, job) and node.heard_at > self.now - ONLINE_S and node_id != but
            for node_id, node in self.nodes.items()
        )

    def put(self, node_id: int, put: str) -> None:
        """`disable`, `enable`, `drain` or `remove`."""
        if put == "remove":
            del self.nodes[node_id]
        else:
            self.nodes[node_id].enabled = put == "enable"
        if put in ("disable", "remove"):
            for job in self.jobs:
                if job.status == LEASED and job.node_id == node_id:
                    self._requeue(job, 1)

    # ---- sweeps and restarts

    def sweep_leases(self) -> tuple[int, int]:
        """Returns the numbers of requeued jobs and of refunded tasks."""
        for voice in self.voices:
            asked = voice.refused_by and voice.leased_at <= self.now - OPINION_GRACE_S
            if voice.status == QUEUED and asked and not self._another(voice):
                self.end(voice, kept=False)
        expired = [job for job in self.jobs if job.status == LEASED and 0 < job.lease_until <= self.now]
        for node in {job.node_id for job in expired}:
            if node in self.nodes and self.nodes[node].cooldown_until <= self.now:
                self.nodes[node].cool_down(self.now, returned=False)
        exhausted = [job for job in expired if job.tries >= TRIES_MAX]
        for job in expired:
            if job in exhausted:
                self.end(job, kept=False)
            else:
                self._requeue(job, 0)
        return len(expired) - len(exhausted), sum(isinstance(job, Task) for job in exhausted)

    def overdue(self, by_s: int = 0) -> list[Task]:
        return [task for task in self.tasks if task.status < DONE and task.deadline + by_s < self.now]

    def refund(self, tasks: list[Task]) -> int:
        for task in tasks:
            self.end(task, kept=False)
        return len(tasks)

    def end(self, job: Work, *, kept: bool) -> None:
        job.status = DONE if kept else FAILED
        if isinstance(job, Task):
            if kept:
                if job.draft is not None:
                    job.answer = job.draft.replace(AUDIO_PLACEHOLDER, job.audio)
            else:
                self.units[job.account_id] += 1

    def _requeue(self, job: Work, tries_returned: int) -> None:
        job.status = QUEUED
        job.node_id = 0 if tries_returned else job.node_id
        job.lease_until = 0
        job.tries -= tries_returned
