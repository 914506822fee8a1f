"""Children end with a parent that is killed by SIGKILL, whether they are busy or idle."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engines.conftest import until
from tests.rig.processes import runs

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

_ROOT = str(Path(__file__).parents[2])
_PARENT = """
import asyncio
from myna.engines.pool.pool import Pool
from tests.engines.process_child import Command, Word

async def main():
    pool = Pool("tests.engines.process_child", Word, processes=2, queue_max=2, job_deadline_s=600)
    await pool.start()
    job = asyncio.create_task(pool.run(Command("hang"), 600))
    while len(pool._idle) != 1:
        await asyncio.sleep(0.01)
    print(*pool.pids(), flush=True)
    await job

asyncio.run(main())
"""


@contextmanager
def _parent() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": _ROOT}
    ) as parent:
        try:
            yield parent
        finally:
            parent.kill()


async def test_a_busy_and_an_idle_child_die_with_their_parent() -> None:
    with _parent() as parent:
        assert parent.stdout is not None
        line = await asyncio.to_thread(parent.stdout.readline)
        children = [int(pid) for pid in line.split()]
        assert len(children) == 2 and all(runs(pid) for pid in children)

        parent.kill()

        await until(lambda: not any(runs(pid) for pid in children))
