"""A demo as a newcomer runs it: a process, its output, and all processes that it starts."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.rig.processes import proc_file, tethered
from tests.rig.waiting import free_port, wait_until

ROOT = Path(__file__).parents[2]
DEADLINE_S = 250


class Demo:
    """One run of `python -m MODULE` in a folder, with these variables added to the environment. The
    voices are those of espeak unless VOICE says otherwise."""

    def __init__(self, folder: Path, module: str = "demo", **env: str) -> None:
        self._out = folder / "stdout"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MYNA_")}
        ours = {"PYTHONPATH": str(ROOT), "MYNA_PORT": str(free_port()), "VOICE": "espeak"}
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                tethered([sys.executable, "-m", module], signal.SIGTERM),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**inherited, **ours, **env},
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self._out.read_text(encoding="utf-8")

    def ended(self) -> int:
        return self.process.wait(DEADLINE_S)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Waits until the condition is true or the demo has ended."""
        wait_until(lambda: condition() or self.process.poll() is not None, DEADLINE_S, what)

    def paste(self) -> bytes:
        """Runs the lines that the demo prints for another terminal; returns their output."""
        lines = [line for line in self.text.splitlines() if line.startswith(("export ", "curl "))]
        return subprocess.run(
            ["sh", "-e", "-c", "\n".join(lines)],
            env={**os.environ, "NO_PROXY": "127.0.0.1"},
            capture_output=True,
            timeout=DEADLINE_S,
            check=True,
        ).stdout

    def check_nothing_is_left(self) -> None:
        """No process of the demo is running."""
        wait_until(lambda: not self.family(), DEADLINE_S, "no process is left")

    def family(self) -> list[int]:
        """The running processes of its session: the demo, the service, and the speaking ones."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            pid = int(process.name)
            fields = proc_file(pid, "stat").rpartition(")")[2].split()
            if fields and int(fields[3]) == self.process.pid and fields[0] != "Z":
                found.append(pid)
        return found


DemoMaker = Callable[..., Demo]


@pytest.fixture
def run_demo(tmp_path: Path) -> Iterator[DemoMaker]:
    made: list[Demo] = []

    def run(module: str = "demo", **env: str) -> Demo:
        made.append(Demo(tmp_path, module, **env))
        return made[-1]

    yield run
    for demo in made:
        demo.process.terminate()
        demo.process.wait(DEADLINE_S)
