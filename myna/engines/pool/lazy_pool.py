"""A pool whose processes start at its first job."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from myna.engines.interface import EngineBusy, EngineUnavailable
from myna.engines.pool.pool import Pool
from myna.lib.sandbox import AllowedPaths
from myna.lib.shares import Shares

R = TypeVar("R", bound=msgspec.Struct)


class LazyPool(Generic[R]):
    """`pool`, whose processes may open `files` only. Three quarters of its places are for one `queue_key` at
    most. A job may take `deadline_s` seconds, waiting and start
    included. The processes stay until `close`."""

    def __init__(self, pool: Pool[R], *, files: AllowedPaths | None, deadline_s: float) -> None:
        self._pool = pool
        self._files = files
        self._deadline_s = deadline_s
        self._lifecycle = asyncio.Lock()
        self._started = self._closed = False
        self._places = Shares[Hashable](pool.places, pool.places * 3 // 4, _busy)

    def pids(self) -> list[int]:
        """The process ids, for monitoring; empty before the first job."""
        return self._pool.pids()

    def full(self) -> bool:
        """Whether the queue is full."""
        return self._started and self._pool.full()

    async def run(
        self,
        job: msgspec.Struct,
        queue_key: Hashable = None,
        deadline_s: float = 0.0,
        disconnected: Callable[[], Awaitable[None]] | None = None,
    ) -> R:
        """The job's result, at most `deadline_s` seconds from now if given: see `Pool.run`."""
        async with self._lifecycle:
            if self._closed:
                raise EngineUnavailable("The service is closing.")
            if not self._started:
                await self._pool.start(self._files)
                self._started = True
        with self._places.place(queue_key):
            return await self._pool.run(
                job, deadline_s or self._deadline_s, queue_key=queue_key, disconnected=disconnected
            )

    async def close(self) -> None:
        """Ends the processes; jobs that wait or run fail. May be called twice."""
        async with self._lifecycle:
            self._closed = True
            await self._pool.close()


def _busy() -> EngineBusy:
    return EngineBusy("The engine's queue is full.")
