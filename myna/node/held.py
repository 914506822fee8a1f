"""The jobs that the node holds, each for as long as its lease goes on."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from myna.wire.farm import Held, Job


class Holding:
    """A job in work. It is dropped when the site takes it back or its lease runs out unheard.

    While its audio is `on_its_way`, the answer to that says whose the job is. A beat may cross it, and then
    the site names a job as over that it has just been brought.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.held = Held(job.kind, job.id, job.epoch, job.token)
        self.name = f"{job.kind} {job.id}"
        self.progress = 0.0
        self.on_its_way = False
        self.dropped = ""
        self._task: asyncio.Task[None] | None = None
        self._lapse: asyncio.TimerHandle | None = None

    @property
    def key(self) -> tuple[str, int, int]:
        """What the site knows it by."""
        return self.held.kind, self.held.id, self.held.epoch

    def begin(self, work: Coroutine[Any, Any, None], group: asyncio.TaskGroup) -> asyncio.Task[None]:
        """Starts the work on it."""
        self._task = group.create_task(work)
        self.extend(asyncio.get_running_loop().time() + self.job.lease_s)
        return self._task

    def extend(self, until: float) -> None:
        """The lease goes on until the loop's clock says so."""
        if self._task is None or self._task.done() or self.dropped:
            return
        if self._lapse is not None:
            self._lapse.cancel()
        self._lapse = asyncio.get_running_loop().call_at(until, self.drop, "its lease ran out")

    def drop(self, reason: str) -> None:
        """Ends the work at once; the engine's too."""
        if self._task is not None and not self._task.done() and not self.dropped:
            self.dropped = reason
            self._task.cancel()

    def end(self) -> None:
        """The work is over."""
        if self._lapse is not None:
            self._lapse.cancel()


class Holdings:
    """All that is held, `slots` at a time, with events for those who wait for a change."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._held: dict[tuple[str, int, int], Holding] = {}
        self.room, self.some, self.none = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._tell()

    def __iter__(self) -> Iterator[Holding]:
        return iter(tuple(self._held.values()))

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, holding: Holding) -> bool:
        return holding.key in self._held

    def free(self) -> int:
        """How many more there may be."""
        return max(self._slots - len(self._held), 0)

    def add(self, holding: Holding) -> None:
        self._held[holding.key] = holding
        self._tell()

    def remove(self, holding: Holding) -> None:
        holding.end()
        del self._held[holding.key]
        self._tell()

    def drop_all(self, reason: str) -> None:
        """Ends all work."""
        for holding in self:
            holding.drop(reason)

    def _tell(self) -> None:
        for event, true in (
            (self.room, self.free() > 0),
            (self.some, bool(self._held)),
            (self.none, not self._held),
        ):
            if true:
                event.set()
            else:
                event.clear()
