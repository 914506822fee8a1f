"""The command line's way in beside a serving writer."""

import threading
import time
from pathlib import Path

from filelock import FileLock

from myna.store.knock import YIELD_S, Knock


def test_nobody_knocking_costs_no_lock(tmp_path: Path) -> None:
    Knock(tmp_path).make_way()
    assert list(tmp_path.iterdir()) == []


def test_the_writer_waits_for_whoever_knocked_and_goes_on_when_he_is_done(tmp_path: Path) -> None:
    inside, out = threading.Event(), threading.Event()

    def command() -> None:
        with Knock(tmp_path).held():
            inside.set()
            out.wait(5)

    thread = threading.Thread(target=command)
    thread.start()
    assert inside.wait(5)
    made_way = threading.Thread(target=Knock(tmp_path).make_way)
    made_way.start()
    made_way.join(0.1)
    assert made_way.is_alive()
    out.set()
    made_way.join(5)
    assert not made_way.is_alive()
    thread.join(5)
    assert not (tmp_path / "knock").exists()


def test_the_writer_does_not_wait_for_ever(tmp_path: Path) -> None:
    (tmp_path / "knock").touch()
    with FileLock(tmp_path / "knock.lock"):
        started = time.monotonic()
        Knock(tmp_path).make_way()
    assert time.monotonic() - started < 2 * YIELD_S


def test_the_mark_of_a_process_that_was_killed_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "knock").touch()
    Knock(tmp_path).make_way()
    assert not (tmp_path / "knock").exists()
