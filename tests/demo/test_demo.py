"""`make demo`, as a newcomer runs it: once, twice, until Ctrl-C, and with obstacles."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import soundfile

from myna.engines.models.published import KOKORO, installed
from tests.rig.commands import output_of
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

    def paste(self) -> str:
        """Runs the lines that the demo prints for another terminal; returns their output."""
        lines = [line for line in self.text.splitlines() if line.startswith(("export ", "curl "))]
        env = {**os.environ, "NO_PROXY": "127.0.0.1"}
        return output_of(["sh", "-e", "-c", "\n".join(lines)], env, Path.cwd(), DEADLINE_S)

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


def sounds(demo: Demo, folder: Path) -> dict[str, float]:
    """The mp3 files that the demo names, with their stated lengths, which decoding confirms."""
    said = re.findall(r"(\d+\.\d) s .*?(\S+/\d-[\w-]+\.mp3)", demo.text)
    for seconds, name in said:
        found = soundfile.info(folder / name)
        assert found.duration == pytest.approx(float(seconds), abs=0.1)
    return {Path(name).name: float(seconds) for seconds, name in said}


SOUNDS = {"1-mandarin.mp3", "2-english.mp3", "3-mandarin-with-english.mp3"}


def test_the_demo_can_be_run_twice(run_demo: DemoMaker, tmp_path: Path) -> None:
    first = run_demo(ONCE="1")
    assert first.ended() == 0, first.text
    assert sounds(first, tmp_path).keys() == SOUNDS
    assert "🦜 Hello" in first.text
    assert "5, of which 5 delivered" in first.text
    assert "account add demo" in first.text
    assert "\x1b" not in first.text
    (key,) = re.findall(r"myna_[0-9a-f]{6}\*\*\*", first.text)

    second = run_demo(ONCE="1")
    assert second.ended() == 0, second.text
    assert "account add demo" not in second.text
    assert "5, of which 5 delivered" in second.text
    assert key not in second.text
    second.check_nothing_is_left()


@pytest.mark.timeout(600)
def test_the_first_run_puts_the_neural_voice_into_the_data_folder(
    run_demo: DemoMaker, tmp_path: Path, kokoro_model: Path
) -> None:
    first = run_demo(ONCE="1", VOICE="")
    assert first.ended() == 0, first.text
    assert "A neural voice, Kokoro-82M" in first.text
    assert installed(tmp_path / "data/demo", "kokoro")
    assert sounds(first, tmp_path).keys() == SOUNDS
    assert len(re.findall(r"^ +z[fm]_\w+ .*mp3$", first.text, re.MULTILINE)) == 2, first.text
    assert len(re.findall(r"^ +[ab][fm]_\w+ .*mp3$", first.text, re.MULTILINE)) == 1, first.text

    second = run_demo(VOICE="")
    second.wait(lambda: "ready in" in second.text, "it is ready")
    assert "A neural voice" not in second.text


def test_without_a_network_the_small_voices_speak(run_demo: DemoMaker, tmp_path: Path) -> None:
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:1", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    demo = run_demo(ONCE="1", VOICE="", XDG_CACHE_HOME=str(tmp_path / "cache"), **nowhere)
    assert demo.ended() == 0, demo.text
    assert f"The first run fetches it, {round(KOKORO.size_bytes / 10**6)} MB" in demo.text
    assert "kokoro can't be fetched." in demo.text
    assert "So the small voices of espeak-ng speak." in demo.text
    assert sounds(demo, tmp_path).keys() == SOUNDS


def test_the_demo_serves_until_ctrl_c_and_leaves_no_process_behind(run_demo: DemoMaker) -> None:
    demo = run_demo()
    demo.wait(lambda: "Ctrl-C" in demo.text, "it serves")
    assert len(demo.family()) > 2, demo.text
    assert json.loads(demo.paste())["choices"][0]["message"]["content"] == "🦜 Hi"

    demo.process.send_signal(signal.SIGINT)
    assert demo.ended() == 0, demo.text
    assert "Stopping" in demo.text
    demo.check_nothing_is_left()


def test_the_month_is_made_once_and_its_books_have_no_breach(run_demo: DemoMaker, tmp_path: Path) -> None:
    first = run_demo("demo.month", ONCE="1")
    assert first.ended() == 0, first.text
    assert re.search(r"3[,\d]\d\d\d? calls, no breach", first.text), first.text
    database = tmp_path / "data/demo-month/myna.sqlite"
    with sqlite3.connect(database) as db:
        days, accounts = "SELECT count(DISTINCT day) FROM usage_days", "SELECT count(*) FROM accounts"
        assert db.execute(days).fetchone()[0] > 25
        assert db.execute(accounts).fetchone() == (6,)
    db.close()
    second = run_demo("demo.month")
    second.wait(lambda: "Ctrl-C" in second.text, "it serves")
    assert "Writing the month" not in second.text
    assert "account invite ann" in second.text


def test_a_demo_terminated_midway_stops_its_service(run_demo: DemoMaker) -> None:
    demo = run_demo()
    demo.wait(lambda: "ready in" in demo.text, "it is ready")
    demo.process.terminate()
    assert demo.ended() in (0, 130), demo.text
    demo.check_nothing_is_left()


def test_the_demo_skips_speech_where_it_is_disabled(run_demo: DemoMaker) -> None:
    demo = run_demo(ONCE="1", MYNA_SPEECH="none")
    assert demo.ended() == 0, demo.text
    assert "1, of which 1 delivered" in demo.text


def test_an_unavailable_model_ends_the_demo_with_the_reason(run_demo: DemoMaker) -> None:
    demo = run_demo(ONCE="1", MYNA_CHAT_URL=f"http://127.0.0.1:{free_port()}/v1")
    assert demo.ended() == 1, demo.text
    assert "can't be reached" in demo.text
    demo.check_nothing_is_left()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder in which the demo makes its own folder and removes it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def test_a_node_speaks_for_the_service_and_clones_a_voice(run_demo: DemoMaker, place: Path) -> None:
    """The settings of the user who runs it must be ignored: there is no such database."""
    demo = run_demo("demo.node", TMPDIR=str(place), MYNA_DATABASE_URL="postgresql://127.0.0.1:1/theirs")
    demo.wait(lambda: "Ctrl-C" in demo.text, "it goes on")
    assert re.search(r"answer +503 .*\n +charged +0 units", demo.text), demo.text
    quick, slow = re.findall(r"mode async, task \d, charged 1\n +status +(.*)", demo.text)
    assert quick.endswith("2 已完成")
    assert "1 处理中" in slow and slow.endswith("2 已完成")
    assert re.search("status +queued → (cloning → )?ready", demo.text)
    assert "98 units" in demo.text
    heard = re.findall(r"listen to +(\S+) \((\d+\.\d) s\)", demo.text)
    assert [Path(path).name for path, _ in heard] == ["order.mp3", "cloned.mp3"]
    for path, seconds in heard:
        assert soundfile.info(path).duration == pytest.approx(float(seconds), abs=0.1)
    ordered = json.loads(demo.paste())
    assert (ordered["mode"], ordered["cost"]) == ("async", 1)

    demo.process.send_signal(signal.SIGINT)
    assert demo.ended() == 0, demo.text
    assert re.findall("exit code (.+)", demo.text) == ["0", "0"]
    demo.check_nothing_is_left()
    assert list(place.iterdir()) == []


def test_a_node_demo_terminated_midway_leaves_nothing(run_demo: DemoMaker, place: Path) -> None:
    demo = run_demo("demo.node", TMPDIR=str(place))
    demo.wait(lambda: "The node works" in demo.text, "the node is started")
    assert len(demo.family()) > 2, demo.text
    demo.process.terminate()
    assert demo.ended() == 130, demo.text
    demo.check_nothing_is_left()
    assert list(place.iterdir()) == []
