"""Pools of children, and a job that keeps one busy."""

import asyncio
from typing import Any

import pytest

from myna.engines.pool.child_handle import Child, PendingJob
from myna.engines.pool.child_main import JobDone, JobFailed
from myna.engines.pool.pool import Pool
from tests.engines.conftest import until
from tests.engines.process_child import Command, Word


def child_pool(child: str = "process_child", **changes: Any) -> Pool[Word]:
    """A pool of a program of this folder, which is not started yet."""
    limits = {"processes": 1, "queue_max": 9, "job_deadline_s": 60, **changes}
    return Pool(f"tests.engines.{child}", Word, **limits)


async def busy(pool: Pool[Word], queue_key: str | None = None) -> "asyncio.Task[Word]":
    """A job that the child has reported as started and that hangs."""
    jobs: list[PendingJob] = []
    run = Child.run

    async def noted(child: Child, job: PendingJob) -> JobDone | JobFailed | None:
        jobs.append(job)
        return await run(child, job)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Child, "run", noted)
        task = asyncio.create_task(pool.run(Command("hang"), 60, queue_key=queue_key))
        await until(lambda: bool(jobs) and jobs[-1].started)
    return task
