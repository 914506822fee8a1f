"""A job that keeps a child of a pool busy."""

import asyncio

import pytest

from myna.engines.pool.child_handle import Child, PendingJob
from myna.engines.pool.child_main import JobDone, JobFailed
from myna.engines.pool.pool import Pool
from tests.engines.conftest import until
from tests.engines.process_child import Command, Word


async def busy(pool: Pool[Word]) -> "asyncio.Task[Word]":
    """A job that the child has reported as started and that hangs."""
    jobs: list[PendingJob] = []
    run = Child.run

    async def noted(child: Child, job: PendingJob) -> JobDone | JobFailed | None:
        jobs.append(job)
        return await run(child, job)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Child, "run", noted)
        task = asyncio.create_task(pool.run(Command("hang"), 60))
        await until(lambda: bool(jobs) and jobs[-1].started)
    return task
