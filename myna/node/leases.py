"""The jobs that the node has leased, each until its lease expires."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from myna.wire.farm import Job, LeaseProof

Key = tuple[str, int, int]
"""Kind, id and epoch of a job."""


class LeasedJob:
    """A job under way. It is dropped when the service cancels it or its lease expires.

    A heartbeat can cross the upload of the audio: the service then cancels a job that it has just completed.
    While `uploading`, such a cancellation is ignored, and the answer to the upload decides.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.lease = LeaseProof(kind=job.kind, id=job.id, epoch=job.epoch, token=job.token)
        self.name = f"{job.kind} {job.id}"
        self.progress = 0.0
        self.uploading = False
        self.dropped = ""
        self._task: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def key(self) -> Key:
        return self.lease.kind, self.lease.id, self.lease.epoch

    def start(self, work: Coroutine[Any, Any, None], group: asyncio.TaskGroup) -> asyncio.Task[None]:
        """Runs the work in the group, and starts the timer of the lease."""
        self._task = group.create_task(work)
        self.extend(asyncio.get_running_loop().time() + self.job.lease_s)
        return self._task

    def extend(self, until: float) -> None:
        """Sets the expiry of the lease, in seconds of the event loop's clock."""
        if self._task is None or self._task.done() or self.dropped:
            return
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = asyncio.get_running_loop().call_at(until, self.drop, "its lease expired")

    def drop(self, reason: str) -> None:
        """Cancels the work, and the engine's."""
        if self._task is not None and not self._task.done() and not self.dropped:
            self.dropped = reason
            self._task.cancel()

    def end(self) -> None:
        """Stops the timer of the lease."""
        if self._expiry is not None:
            self._expiry.cancel()


class LeasedJobs:
    """The leased jobs, at most `slots`. `has_room`, `has_jobs` and `is_empty` are set while they are true."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._jobs: dict[Key, LeasedJob] = {}
        self.has_room = asyncio.Event()
        self.has_jobs = asyncio.Event()
        self.is_empty = asyncio.Event()
        self._set_events()

    def __iter__(self) -> Iterator[LeasedJob]:
        return iter(tuple(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, leased: LeasedJob) -> bool:
        return leased.key in self._jobs

    def free(self) -> int:
        """The number of free slots."""
        return max(self._slots - len(self._jobs), 0)

    def add(self, leased: LeasedJob) -> None:
        self._jobs[leased.key] = leased
        self._set_events()

    def remove(self, leased: LeasedJob) -> None:
        leased.end()
        del self._jobs[leased.key]
        self._set_events()

    def drop_all(self, reason: str) -> None:
        for leased in self:
            leased.drop(reason)

    def _set_events(self) -> None:
        for event, value in (
            (self.has_room, self.free() > 0),
            (self.has_jobs, bool(self._jobs)),
            (self.is_empty, not self._jobs),
        ):
            if value:
                event.set()
            else:
                event.clear()
