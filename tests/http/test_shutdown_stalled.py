"""A process that gets SIGTERM exits in time and with 0, also with a stalled disk, log or audit."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.calls import Wire, call
from tests.rig.service import Service, ServiceMaker
from tests.rig.waiting import wait_until

GRACE_S = 0.5
EXIT_S = 20.0
"""The grace period, the bounded waits after it, and a loaded machine. What blocks, blocks for ten minutes."""
NOT_FOUND, NOT_READ = f"{1:032x}.mp3", f"{2:032x}.mp3"
REQUESTS = 40
"""More than asyncio's default executor has threads."""

SERVE = """
from myna import service
from myna.http import server
from myna.store import sqlite
service.FINISH_WAIT_S = sqlite.CLOSE_MAX_S = server.CLOSE_WAIT_S = 0.3
from myna.cli import main
main(['serve'])
"""
"""With short waits for what does not end."""
STALLED_DISK = f"""
import builtins, io, time
from myna.store.files.audio import AudioStore
find, opened = AudioStore.find, io.open
def stalled_find(self, name):
    return time.sleep(600) if name == {NOT_FOUND!r} else find(self, name)
def stalled_open(file, *more, **named):
    return time.sleep(600) if str(file).endswith({NOT_READ!r}) else opened(file, *more, **named)
AudioStore.find = stalled_find
builtins.open = io.open = stalled_open
"""
STALLED_CLEANING = """
import time
from myna.store.files.audio import AudioStore
AudioStore.modified_between = lambda *_: time.sleep(600)
"""
ENDLESS_AUDIT = """
from myna import audit
async def endless(db):
    await db.fetch(
        'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1e15)'
        ' SELECT i FROM n WHERE i < 0'
    )
async def run(db, *_, **__):
    await db.snapshot(endless)
audit.run = run
"""


def started(make_service: ServiceMaker, patch: str, stderr: int | None = None) -> Service:
    env = {"MYNA_SHUTDOWN_GRACE_S": str(GRACE_S)}
    service = make_service(chat_url="parrot:", speech="none", env=env, program=("-c", patch + SERVE))
    return service.start(stderr)


def check_it_stops_in_time(service: Service) -> None:
    began_s = time.monotonic()
    assert service.stop(deadline_s=EXIT_S * 2) == 0
    assert time.monotonic() - began_s < EXIT_S


def test_downloads_from_a_stalled_disk_do_not_delay_shutdown(make_service: ServiceMaker) -> None:
    """Neither those of a file that is not found in time, nor those of one that is not read."""
    service = started(make_service, STALLED_DISK)
    for name in (NOT_FOUND, NOT_READ):
        file = service.folder / "data" / "audio" / name[:2] / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"some audio")
    with contextlib.ExitStack() as open_wires:
        for name in (NOT_READ, NOT_FOUND) * (REQUESTS // 2):
            wire = open_wires.enter_context(Wire(service.root_url))
            wire.head(f"GET /uploads/{name} HTTP/1.1")
        assert call("GET", f"{service.root_url}/healthz").status == 200
        check_it_stops_in_time(service)


def test_maintenance_that_does_not_end_does_not_delay_shutdown(make_service: ServiceMaker) -> None:
    check_it_stops_in_time(started(make_service, STALLED_CLEANING + ENDLESS_AUDIT))


@pytest.fixture
def unread() -> Iterator[tuple[int, int]]:
    """An unread pipe with a buffer of one page."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    yield reading, writing
    os.close(reading)
    with contextlib.suppress(OSError):
        os.close(writing)


def test_an_unread_log_delays_neither_calls_nor_shutdown(
    make_service: ServiceMaker, unread: tuple[int, int]
) -> None:
    _, writing = unread
    service = started(make_service, "", writing)
    for _ in range(300):
        assert call("GET", f"{service.root_url}/healthz", deadline_s=10).status == 200
    check_it_stops_in_time(service)


def test_dropped_log_lines_are_counted_and_reported_in_the_next_line(
    make_service: ServiceMaker, unread: tuple[int, int]
) -> None:
    reading, writing = unread
    small = "from myna.telemetry import logs\nlogs.WAITING_MAX_BYTES = 2000\n"
    service = started(make_service, small, writing)
    os.close(writing)

    def dropped() -> float:
        text = call("GET", f"{service.root_url}/metrics").body.decode()
        (line,) = [line for line in text.splitlines() if line.startswith("myna_log_lines_dropped_total")]
        return float(line.split()[1])

    wait_until(lambda: dropped() > 0, 60, "lines are dropped")
    log = Path(f"/proc/self/fd/{reading}")
    service.terminate()
    text = log.read_text()  # until the process exits
    assert service.exit_code() == 0
    assert "lines of the log were dropped" in text
    assert all(line.startswith("{") and line.endswith("}") for line in text.splitlines())
