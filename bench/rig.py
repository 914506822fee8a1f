"""Processes of the benchmark: nginx as the instant upstream, wrk as the load, the program under test.

The program under test has core 0 for itself; upstream and load share core 1. All traffic is loopback.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from myna import accounts, keys
from myna.store.database import connect
from myna.store.migrate import migrate

UNDER_TEST, LOAD = 0, 1
ACCOUNTS, KEYS = 64, 1000
UNITS = 10_000_000
FAILING = "1%"
READY_WAIT_S = 20.0

ANSWER = (
    '{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,'
    '"message":{"role":"assistant","content":"The quick brown fox jumps over the lazy dog, 你好。"},'
    '"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}'
)
BODY = (
    '{"model":"svc-chat","messages":[{"role":"system","content":"You are a helpful assistant."},'
    '{"role":"user","content":"Tell me in one sentence what the fox does, please. 谢谢"}],"temperature":0.2}'
)


class Figures(NamedTuple):
    """One run of wrk: answers and failed ones (other than 2xx), a second; latencies in ms."""

    calls: float
    failed: float
    p50_ms: float
    p99_ms: float
    cpu_s_per_1000: float


def missing() -> list[str]:
    """What must be installed first."""
    return [name for name in ("nginx", "wrk") if not shutil.which(name)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextlib.contextmanager
def upstream(folder: Path) -> Iterator[str]:
    """nginx answering every chat at once, one in a hundred with a 500. Yields the base URL."""
    port = free_port()
    config = folder / "nginx.conf"
    quoted = ANSWER.replace("'", "\\'")
    config.write_text(
        f"""daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 1h; client_max_body_size 8m;
  split_clients "$request_id" $broken {{ {FAILING} 1; * 0; }}
  server {{
    listen 127.0.0.1:{port}; default_type application/json;
    location / {{ if ($broken) {{ return 500 '{{}}'; }} return 200 '{quoted}'; }}
  }}
}}""",
        encoding="utf-8",
    )
    with process(["nginx", "-p", str(folder), "-c", str(config)], LOAD, folder / "nginx.out", {}):
        wait_for(f"http://127.0.0.1:{port}/")
        yield f"http://127.0.0.1:{port}/v1"


@contextlib.contextmanager
def process(
    command: list[str], core: int, log: Path, environ: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process on one core, ended at the end by its id."""
    with log.open("wb") as out:
        started = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            env={**os.environ, **environ},
            preexec_fn=lambda: os.sched_setaffinity(0, {core % (os.cpu_count() or 1)}),
        )
    try:
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        started.wait(30)


def wait_for(url: str) -> None:
    """Until something answers there, whatever it answers."""
    until = time.monotonic() + READY_WAIT_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=1)
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def issue_keys(database_url: str, data: Path) -> list[str]:
    """The accounts and keys of the load."""

    async def work() -> list[str]:
        db = await connect(database_url or "sqlite:", data)
        try:
            await migrate(db)
            rows = [await accounts.add(db, f"bench-{n}", "", False, UNITS) for n in range(ACCOUNTS)]
            owners = [rows[n % ACCOUNTS].id for n in range(KEYS)]
            scopes = keys.Scope.CHAT | keys.Scope.TTS | keys.Scope.RECORDS
            return [(await keys.issue(db, owner, "bench", scopes, 0)).key for owner in owners]
        finally:
            await db.close()

    return asyncio.run(work())


def script(folder: Path, plain: list[str], name: str) -> Path:
    """The wrk script: each call with the next of the keys."""
    listed = ",".join(f'"Bearer {key}"' for key in plain)
    path = folder / f"{name}.lua"
    path.write_text(
        f"local keys = {{{listed}}}\nlocal n = math.random(#keys)\nwrk.method = 'POST'\n"
        f"wrk.body = [==[{BODY}]==]\nwrk.headers['Content-Type'] = 'application/json'\n"
        "request = function()\n  n = n % #keys + 1\n  wrk.headers['Authorization'] = keys[n]\n"
        "  return wrk.format(nil, '/v1/chat/completions')\nend\n"
        "done = function(s, l, r)\n  io.write(string.format('FIGURES %d %d %d %d %d\\n', s.requests,"
        " s.errors.status, s.duration, l:percentile(50), l:percentile(99)))\nend\n",
        encoding="utf-8",
    )
    return path


def load(port: int, lua: Path, connections: int, seconds: float, pid: int) -> Figures:
    """One run of wrk against the port; the CPU time is that of process `pid`."""
    before = cpu_s(pid)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--timeout", "10s", "-s", str(lua)]
    done = subprocess.run(
        ["taskset", "-c", str(LOAD % (os.cpu_count() or 1)), *command, f"http://127.0.0.1:{port}"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = re.search(r"FIGURES (\d+) (\d+) (\d+) (\d+) (\d+)", done)
    if not found:
        sys.exit(f"wrk said something unexpected:\n{done}")
    requests, failed, micros, p50, p99 = map(int, found.groups())
    took = micros / 1e6
    spent = (cpu_s(pid) - before) / max(requests, 1) * 1000
    return Figures(requests / took, failed / took, p50 / 1000, p99 / 1000, spent)


def cpu_s(pid: int) -> float:
    """User and system seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
