"""Programs of the benchmark are measured with their children, can be stopped, and end with it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import load, processes
from bench.load import Work
from bench.processes import Started
from tests.rig.processes import proc_file, state
from tests.rig.waiting import wait_until

DEADLINE_S = 60.0
WORK = "while True: pass"
BUSY_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{WORK}'])"
MEBIBYTE = 2**20


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Started]:
    """A program that sleeps while its child works. Until the child has called exec, its parent is blocked
    in vfork(2) and can't be stopped."""
    with processes.running([sys.executable, "-c", BUSY_CHILD], {0}, tmp_path / "log", {}) as program:
        wait_until(lambda: child_uses_cpu(program), DEADLINE_S, "the child works")
        yield program


def child_uses_cpu(program: Started) -> bool:
    return [_uses_cpu(pid) for pid in processes.tree(program.pid)] == [False, True]


def _uses_cpu(pid: int) -> bool:
    return proc_file(pid, "cmdline").endswith(f"\0{WORK}\0")


def test_cpu_time_includes_running_children(busy: Started) -> None:
    begun = busy.cpu_s()
    wait_until(lambda: busy.cpu_s() > begun + 0.2, DEADLINE_S, "the child has used 0.2 s")


def test_cpu_time_includes_ended_children(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, time;"
        "subprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.3: pass']);"
        "print(flush=True); time.sleep(60)"
    )
    with processes.running([sys.executable, "-c", script], {0}, tmp_path / "log", {}) as program:
        processes.wait_until(lambda: (tmp_path / "log").stat().st_size > 0, program, DEADLINE_S)
        assert program.cpu_s() >= 0.3


def test_a_stopped_program_uses_no_time_until_resumed(busy: Started) -> None:
    busy.pause()
    stopped = processes.tree(busy.pid)
    wait_until(lambda: all(state(pid) == "T" for pid in stopped), DEADLINE_S, "all are stopped")
    before = busy.cpu_s()
    spin_until = time.process_time() + 0.1
    while time.process_time() < spin_until:
        pass
    assert busy.cpu_s() == before
    busy.resume()
    wait_until(lambda: busy.cpu_s() > before, DEADLINE_S, "it works again")


def test_memory_includes_all_children(busy: Started) -> None:
    _, child = processes.tree(busy.pid)
    wait_until(lambda: processes.memory_bytes(child, "VmHWM") > MEBIBYTE, DEADLINE_S, "the child has memory")
    assert busy.memory_bytes() > MEBIBYTE
    assert busy.peak_bytes() > processes.memory_bytes(busy.pid, "VmHWM") + MEBIBYTE


def test_nothing_outlives_a_benchmark_that_is_killed(tmp_path: Path) -> None:
    starter = (
        "import sys; from pathlib import Path; from bench import processes;"
        "block = processes.running(['sleep', '100'], {0}, Path(sys.argv[1]), {});"
        "print(block.__enter__().pid, flush=True); sys.stdin.read()"
    )
    benchmark = subprocess.Popen(
        [sys.executable, "-c", starter, str(tmp_path / "log")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    with benchmark:
        assert benchmark.stdout is not None
        pid = int(benchmark.stdout.readline())
        wait_until(lambda: proc_file(pid, "comm") == "sleep\n", DEADLINE_S, "it sleeps")
        os.kill(benchmark.pid, signal.SIGKILL)
        wait_until(lambda: proc_file(pid, "comm") != "sleep\n", DEADLINE_S, "it has ended")


@pytest.mark.parametrize(
    ("count", "program", "load_on", "database", "two"),
    [
        (2, {0}, {1}, {1}, {0, 1}),
        (8, {0}, {1}, {7}, {0, 2}),
    ],
)
def test_the_program_under_test_has_its_own_core_if_there_are_two(
    count: int, program: set[int], load_on: set[int], database: set[int], two: set[int]
) -> None:
    assert processes.cores(count) == (program, two, load_on, database)


def test_the_load_script_sends_well_formed_requests(tmp_path: Path) -> None:
    """The Lua drops the first newline of a long string and sends the others as CRLF."""
    text = load.script(tmp_path / "work.lua", Work(body='{"a":"你"}', keys=5)).read_text(encoding="utf-8")
    assert "POST /v1/chat/completions HTTP/1.1\nHost: 127.0.0.1\n" in text
    assert "Content-Length: 11\nAuthorization: Bearer ]==]" in text
    assert '[==[\n\n\n{"a":"你"}]==]' in text
    assert "format('myna_%040x', random(5))" in text
