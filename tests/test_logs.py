"""Logs: one JSON object per line, for any text of a caller or an error."""

import errno
import json
import logging
import os
import re
from pathlib import Path
from threading import Thread

import pytest

from myna.files import disk_threads
from myna.telemetry import logs
from myna.telemetry.logs import JsonFormatter, LogWriter, masked, timestamp
from tests.rig.waiting import wait_until

DEADLOCK_S = 60
KEY = "myna_" + "0123456789abcdef0123456789abcdef01234567"


def formatted(message: str, *args: object, error: BaseException | None = None) -> dict[str, str]:
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("myna.x", logging.WARNING, "f", 1, message, args, info)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    found: dict[str, str] = json.loads(line)
    return found


def test_a_line_has_time_level_logger_and_message() -> None:
    line = formatted("%d calls", 3)
    assert set(line) == {"time", "level", "logger", "message"}
    assert (line["level"], line["logger"], line["message"]) == ("warning", "myna.x", "3 calls")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])


def test_a_line_that_belongs_to_a_request_has_its_id() -> None:
    token = logs.request_id.set("an-id")
    try:
        assert formatted("x")["request_id"] == "an-id"
    finally:
        logs.request_id.reset(token)


def test_an_exception_with_line_breaks_is_one_line() -> None:
    try:
        raise ValueError('two\nlines"} {"level": "info')
    except ValueError as error:
        line = formatted("a\nb\u2028c", error=error)
    assert line["message"] == "a\nb\u2028c"
    assert "Traceback" in line["error"]


def test_keys_and_logins_are_masked_in_every_field() -> None:
    url = "postgresql://user:word@host:5432/db"
    try:
        raise ValueError(f"{url} {KEY}")
    except ValueError as error:
        line = formatted("%s and %s", KEY, url, error=error)
    text = json.dumps(line)
    assert KEY not in text
    assert "word@" not in text
    assert "postgresql://***@host:5432/db" in line["message"]
    assert "myna_012345***" in line["message"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (KEY, "myna_012345***"),
        (KEY.upper(), "MYNA_012345***"),
        (f"/v1/{KEY}/x", "/v1/myna_012345***/x"),
        (KEY[:30], "myna_012345***"),
        (KEY.replace("_", "node_"), "mynanode_012345***"),
        (KEY.replace("_", "join_"), "mynajoin_012345***"),
        ("http://h/a@b", "http://h/a@b"),
        ("http://u@h", "http://***@h"),
        ("myna_serve", "myna_serve"),
    ],
)
def test_what_is_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_a_timestamp_is_utc_to_the_millisecond() -> None:
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"
    assert timestamp(1_767_225_600.0625) == "2026-01-01T00:00:00.062Z"


def test_logs_of_the_level_and_above_go_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    try:
        root.handlers = []  # basicConfig closes what it finds; these belong to pytest
        writer = logs.configure("warning")
        logging.getLogger("myna.x").info("quiet")
        logging.getLogger("myna.x").warning("loud")
        writer.flush()
    finally:
        root.setLevel(before[0])
        root.handlers = before[1]
    assert [json.loads(line)["message"] for line in capfd.readouterr().err.splitlines()] == ["loud"]


def test_a_line_truncated_by_a_full_disk_corrupts_no_later_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put, room = os.write, [3]

    def little_room(descriptor: int, data: bytes) -> int:
        if not room:
            return put(descriptor, data)
        left = room.pop()
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        room.append(0)
        return put(descriptor, data[:left])

    with (tmp_path / "log").open("wb") as file:
        writer = LogWriter(file.fileno())
        monkeypatch.setattr(os, "write", little_room)
        writer.write(b'{"a": 1}\n')
        writer.write(b'{"b": 2}\n')
        writer.flush()
    broken, dropped, whole = (tmp_path / "log").read_text().splitlines()
    assert broken == '{"a'
    assert json.loads(dropped)["message"].startswith("1 lines of the log were dropped")
    assert json.loads(whole) == {"b": 2}


def test_a_process_without_stderr_can_log() -> None:
    writer = LogWriter(None)
    writer.write(b"{}\n")
    writer.flush()


@pytest.mark.parametrize("step", ["copy_context", "Thread"])
def test_a_line_can_be_written_in_the_middle_of_writing_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """As when the garbage collector runs there and finds a task whose exception was never retrieved."""
    calls = 0

    def interrupted(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 1:
            writer.write(b"found\n")
        return original(*args, **kwargs)

    original = getattr(disk_threads, step)
    monkeypatch.setattr(disk_threads, step, interrupted)
    with (tmp_path / "log").open("wb") as file:
        writer = LogWriter(file.fileno())
        writing = Thread(target=writer.write, args=(b"line\n",), daemon=True)
        writing.start()
        writing.join(DEADLOCK_S)
        assert not writing.is_alive()
        wait_until(lambda: (tmp_path / "log").stat().st_size == 11, DEADLOCK_S, "both lines are written")
    assert (tmp_path / "log").read_bytes() == b"found\nline\n"
    assert calls == (1 if step == "Thread" else 2)  # one thread writes all lines
