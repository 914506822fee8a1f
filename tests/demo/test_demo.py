"""`make demo`, as a newcomer runs it: once, twice, until Ctrl-C, and with obstacles."""

import json
import re
import signal
import socket
from pathlib import Path

import pytest
import soundfile
from filelock import FileLock

from demo.service import choose_settings
from tests.demo.running import Demo, DemoMaker
from tests.rig.waiting import free_port


def sounds(demo: Demo, folder: Path) -> dict[str, float]:
    """The mp3 files that the demo names, with their stated lengths, which decoding confirms."""
    said = re.findall(r"(\d+\.\d) s .*?(\S+/sentence-\w+\.mp3)", demo.text)
    for seconds, name in said:
        found = soundfile.info(folder / name)
        assert found.duration == pytest.approx(float(seconds), abs=0.1)
    return {Path(name).name: float(seconds) for seconds, name in said}


def test_the_demo_can_be_run_twice(run_demo: DemoMaker, tmp_path: Path) -> None:
    first = run_demo(ONCE="1")
    assert first.ended() == 0, first.text
    assert sounds(first, tmp_path).keys() == {"sentence-zh.mp3", "sentence-en.mp3"}
    assert "🦜 Hello" in first.text
    assert "4, of which 4 delivered" in first.text
    assert "account add demo" in first.text
    assert "\x1b" not in first.text
    (key,) = re.findall(r"myna_[0-9a-f]{6}\*\*\*", first.text)

    second = run_demo(ONCE="1")
    assert second.ended() == 0, second.text
    assert "account add demo" not in second.text
    assert "4, of which 4 delivered" in second.text
    assert key not in second.text
    second.check_nothing_is_left()


def test_the_demo_serves_until_ctrl_c_and_leaves_no_process_behind(run_demo: DemoMaker) -> None:
    demo = run_demo()
    demo.wait(lambda: "Ctrl-C" in demo.text, "it serves")
    assert len(demo.family()) > 2, demo.text
    assert json.loads(demo.paste())["choices"][0]["message"]["content"] == "🦜 Hi"

    demo.process.send_signal(signal.SIGINT)
    assert demo.ended() == 0, demo.text
    assert "Stopping" in demo.text
    demo.check_nothing_is_left()


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


def test_a_service_that_cannot_start_shows_the_end_of_its_log(run_demo: DemoMaker, tmp_path: Path) -> None:
    data = tmp_path / "data/demo"
    data.mkdir(parents=True)
    with FileLock(data / "serving.lock"):
        demo = run_demo(ONCE="1")
        assert demo.ended() == 1, demo.text
    assert "Another process serves" in demo.text


def test_an_invalid_setting_is_named(run_demo: DemoMaker) -> None:
    demo = run_demo(MYNA_WORKERS="many")
    assert demo.ended() == 2, demo.text
    assert "MYNA_WORKERS" in demo.text


def test_a_chosen_port_that_is_in_use_is_named(run_demo: DemoMaker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        demo = run_demo(MYNA_PORT=port)
        assert demo.ended() == 1, demo.text
    assert port in demo.text


def test_another_port_is_used_if_the_default_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # no myna.toml here
    usual = choose_settings({})[2]
    if choose_settings({})[0].port == usual:
        with socket.create_server(("127.0.0.1", usual)):
            settings, env, wanted = choose_settings({})
    else:
        settings, env, wanted = choose_settings({})
    assert wanted == usual != settings.port
    assert env["MYNA_PORT"] == str(settings.port)
    assert settings.base_url.endswith(f":{settings.port}")
