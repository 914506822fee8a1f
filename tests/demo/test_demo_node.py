"""`make demo-node`: a compute node and a cloned voice, as a newcomer sees them."""

import json
import re
import signal
from pathlib import Path

import pytest
import soundfile

from tests.demo.running import DemoMaker


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
