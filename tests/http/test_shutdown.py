"""What a service does at SIGTERM."""

import contextlib
import fcntl
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig import processes
from tests.rig.calls import Answer, Wire, call
from tests.rig.postgres import Postgres
from tests.rig.service import Service, ServiceMaker
from tests.rig.upstream import Upstream
from tests.rig.waiting import free_port, wait_until

WAIT_S = 60


def chat(service: Service, key: str, text: str = "hello") -> Answer:
    data = {"model": "svc-chat", "messages": [{"role": "user", "content": text}]}
    return call("POST", f"{service.base_url}/chat/completions", key=key, data=data)


def test_during_shutdown_new_calls_are_refused_and_open_calls_finish(
    make_service: ServiceMaker, upstream: Upstream
) -> None:
    upstream.behave("block")
    service = make_service(chat_url=upstream.url, speech="none").start()
    key = service.account().key().plain
    answers: list[Answer] = []
    caller = threading.Thread(target=lambda: answers.append(chat(service, key)))
    caller.start()
    upstream.wait_for_requests(1)
    service.terminate()
    wait_until(lambda: call("GET", f"{service.root_url}/readyz").status == 503, WAIT_S, "it is not ready")
    assert call("GET", f"{service.root_url}/readyz").json["checks"]["running"] is False
    assert call("GET", f"{service.root_url}/healthz").status == 200
    refused = chat(service, key)
    assert (refused.status, refused.json["error"]["type"]) == (503, "service_unavailable")
    assert call("GET", f"{service.base_url}/me", key=key).json["stats"]["calls"] == 1
    upstream.release()
    caller.join(WAIT_S)
    assert service.exit_code() == 0
    assert answers[0].status == 200
    assert service.command("audit").code == 0


def test_a_process_that_drains_is_not_ready_and_takes_calls(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none", env={"MYNA_DRAIN_S": "1"}).start()
    key = service.account().key().plain
    service.terminate()
    wait_until(lambda: call("GET", f"{service.root_url}/readyz").status == 503, WAIT_S, "it is not ready")
    assert chat(service, key).status == 200
    assert service.exit_code() == 0


@pytest.mark.parametrize("size", ["Content-Length: 100000", "Transfer-Encoding: chunked"])
def test_a_body_that_does_not_arrive_is_refused_at_shutdown(make_service: ServiceMaker, size: str) -> None:
    """The grace period and the timeout of bodies are longer than the deadlines of this test."""
    env = {"MYNA_SHUTDOWN_GRACE_S": "600", "MYNA_BODY_TIMEOUT_S": "600"}
    service = make_service(chat_url="parrot:", speech="none", env=env).start()
    account = service.account(units=5)
    key = account.key().plain
    with Wire(service.root_url) as wire:
        lines = (f"Authorization: Bearer {key}", size, "Expect: 100-continue")
        wire.head("POST /v1/chat/completions HTTP/1.1", *lines)
        assert wire.socket.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(b'2\r\n{"' if "chunked" in size else b'{"')
        service.terminate()
        answer = wire.answer()
        assert (answer.status, answer.json["error"]["type"]) == (503, "service_unavailable")
        assert answer.headers["connection"] == "close"
        assert "nothing was charged" in answer.json["error"]["message"]
    assert service.exit_code() == 0
    assert service.cli("account", "show", account.name)["balance"] == 5


def test_two_workers_share_metrics_and_engines_and_exit_with_0(
    make_service: ServiceMaker, postgres_url: str
) -> None:
    port = free_port()
    env = {"MYNA_WORKERS": "2", "MYNA_METRICS_PORT": str(port), "MYNA_SPEECH_PROCESSES": "2"}
    pair = make_service(database_url=postgres_url, chat_url="parrot:", speech="espeak", env=env).start()
    key = pair.account().key().plain
    asked = 0

    def both_have_served() -> bool:
        nonlocal asked
        with Wire(pair.root_url) as one, Wire(pair.root_url) as other:
            for wire in (one, other):
                wire.head("GET /v1/me HTTP/1.1", f"Authorization: Bearer {key}")
                assert wire.answer("GET").status == 200
                asked += 1
        return workers_that_served(pair) == 2

    wait_until(both_have_served, WAIT_S, "both workers have served")

    def counted() -> float:
        text = call("GET", f"http://127.0.0.1:{port}/metrics").body.decode()
        assert re.search(r"^process_resident_memory_bytes \d", text, re.MULTILINE)
        found = re.search(r'^myna_requests_total\{path="/v1/me",status="200"\} (\S+)$', text, re.MULTILINE)
        return float(found[1]) if found else 0

    wait_until(lambda: counted() == asked, WAIT_S, "both workers' requests are counted")  # after the answer
    assert chat(pair, key).status == 200
    elsewhere = (f"{pair.root_url}/metrics", f"http://127.0.0.1:{port}/v1/me")
    assert {call("GET", url, key=key).status for url in elsewhere} == {404}
    speaking = speakers(pair)
    assert len(speaking) == 2
    text = {"text": "Good morning.", "voice_id": "en-us-female-1"}
    assert call("POST", f"{pair.base_url}/tts", key=key, data=text).json["mode"] == "sync"
    before = set(workers(pair))
    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: len(set(workers(pair)) - before) == 1, WAIT_S, "another worker has started")
    started = "Application startup complete"
    wait_until(lambda: pair.stderr.count(started) == 3, WAIT_S, "the other worker serves")
    assert speakers(pair) == speaking
    last = [*workers(pair), *speaking]
    os.kill(pair.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(processes.runs, last)), WAIT_S, "the workers end with their parent")
    check_starting_workers_end_with_their_parent(pair)
    pair.start()
    last = [*workers(pair), *speakers(pair)]
    assert pair.stop() == 0
    assert not [pid for pid in last if processes.state(pid)]
    assert "Traceback" not in pair.stderr


def check_starting_workers_end_with_their_parent(pair: Service) -> None:
    waiting = "Waiting for application startup"
    pair.spawn()
    wait_until(lambda: len(hosts(pair)) == 1, WAIT_S, "the process of the engines runs")
    (host,) = hosts(pair)
    processes.send(host, signal.SIGSTOP)  # the workers wait for its engines
    wait_until(lambda: pair.stderr.count(waiting) == 2, WAIT_S, "the workers are starting")
    starting = workers(pair)
    os.kill(pair.pid, signal.SIGKILL)
    try:
        wait_until(lambda: not any(map(processes.runs, starting)), WAIT_S, "the workers end")
    finally:
        processes.send(host, signal.SIGCONT)


def workers(service: Service) -> list[int]:
    """The worker processes, without the resource tracker of multiprocessing."""
    found = processes.children(service.pid)
    return [pid for pid in found if "spawn_main" in processes.proc_file(pid, "cmdline")]


def hosts(service: Service) -> list[int]:
    """The process that runs the engines of all workers, once it has been started."""
    found = processes.children(service.pid)
    return [pid for pid in found if "engine_host" in processes.proc_file(pid, "cmdline")]


def speakers(service: Service) -> list[int]:
    """The processes that speak."""
    (host,) = hosts(service)
    return [pid for pid in processes.children(host) if "espeak" in processes.proc_file(pid, "cmdline")]


def workers_that_served(service: Service) -> int:
    """Number of workers whose file of counters has a GET /me."""
    environ = processes.proc_file(workers(service)[0], "environ")
    (folder,) = re.findall(r"PROMETHEUS_MULTIPROC_DIR=([^\0]+)", environ)
    return sum(b"/v1/me" in file.read_bytes() for file in Path(folder).glob("counter_*.db"))


def test_workers_without_database_exit_with_one_line(make_service: ServiceMaker, postgres: Postgres) -> None:
    url = postgres.url + "-that-is-not-there"
    service = make_service(database_url=url, chat_url="parrot:", env={"MYNA_WORKERS": "2"})
    service.spawn()
    assert service.exit_code() == 1
    place = url.rpartition("@")[2].partition("?")[0]
    name = place.rpartition("/")[2]
    assert (
        service.stderr == f'myna: The database {place} can\'t be opened: database "{name}" does not exist.\n'
    )


GRACE_S = 0.5
EXIT_S = 20.0
"""The grace period, the bounded waits after it, and a loaded machine. What blocks, blocks for ten minutes."""
NOT_FOUND, NOT_READ = f"{1:032x}.mp3", f"{2:032x}.mp3"
REQUESTS = 40
"""More than asyncio's default executor has threads."""

SERVE = """
from myna.server import service
from myna.http import server
from myna.store import sqlite
service.FINISH_WAIT_S = sqlite.CLOSE_MAX_S = server.CLOSE_WAIT_S = 0.3
from myna.cli import main
main(['serve'])
"""
"""With short waits for what does not end."""
STALLED_DISK = f"""
import builtins, io, time
from myna.store.files.named_files import AudioStore
stat, opened = AudioStore.stat, io.open
def stalled_stat(self, name):
    return time.sleep(600) if name == {NOT_FOUND!r} else stat(self, name)
def stalled_open(file, *more, **named):
    return time.sleep(600) if str(file).endswith({NOT_READ!r}) else opened(file, *more, **named)
AudioStore.stat = stalled_stat
builtins.open = io.open = stalled_open
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


@pytest.fixture
def unread() -> Iterator[tuple[int, int]]:
    """An unread pipe with a buffer of one page."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    yield reading, writing
    os.close(reading)
    with contextlib.suppress(OSError):
        os.close(writing)


def test_unread_logs_delay_no_call_or_shutdown(make_service: ServiceMaker, unread: tuple[int, int]) -> None:
    _, writing = unread
    service = started(make_service, "", writing)
    for _ in range(300):
        assert call("GET", f"{service.root_url}/healthz", deadline_s=10).status == 200
    check_it_stops_in_time(service)


def test_dropped_log_lines_are_counted_and_reported_in_the_next_line(
    make_service: ServiceMaker, unread: tuple[int, int]
) -> None:
    reading, writing = unread
    small = "from myna.lib.telemetry import logs\nlogs.WAITING_MAX_BYTES = 2000\n"
    service = started(make_service, small, writing)
    os.close(writing)

    wait_until(lambda: service.counted("myna_log_lines_dropped_total") > [0], 60, "lines are dropped")
    log = Path(f"/proc/self/fd/{reading}")
    service.terminate()
    text = log.read_text()  # until the process exits
    assert service.exit_code() == 0
    assert "lines of the log were dropped" in text
    assert all(line.startswith("{") and line.endswith("}") for line in text.splitlines())
