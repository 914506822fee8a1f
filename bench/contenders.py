"""Who is measured: Myna on its databases, its two floors, nginx, and the peers. One that can't run is named
with the reason.
"""

import asyncio
import contextlib
import importlib.metadata
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import apsw
import asyncpg

from bench import fill, load, processes, upstream
from bench.fill import Size
from bench.install import COMPILED, GATEWAY, LITELLM, node
from bench.load import Target, Work
from bench.processes import CannotRun, Program, Started
from tests.rig import postgres

ROOT = Path(__file__).parents[1]
CHECKS = 8
UPSTREAM_SAYS = b"quick brown fox"
TWO_PROCESSES = 2

SQLITE, POSTGRESQL, POSTGRESQL_2 = "myna-sqlite", "myna-postgresql", "myna-postgresql-2"
FLOOR, BARE_FLOOR, NGINX = "floor", "bare-floor", "nginx"
PORTKEY_GATEWAY, LITELLM_PROXY, LITELLM_KEYS = "portkey", "litellm", "litellm-keys"
ROLTER, SMG, FERROGW = "rolter", "smg", "ferrogw"
DIRECT = "load alone"
"""The load against its own upstream, without a contender."""

MEANINGS = {
    SQLITE: "Myna, charging durably, SQLite, one process",
    POSTGRESQL: "Myna, charging durably, PostgreSQL, one process",
    POSTGRESQL_2: "Myna, charging durably, PostgreSQL, two processes on two cores",
    FLOOR: "Myna's edge, parser and client; its store calls return constants",
    BARE_FLOOR: "plain ASGI on uvicorn, msgspec, the same client; charges nothing",
    NGINX: "nginx as a proxy; charges nothing",
    ROLTER: "rolter, a gateway in Rust; checks no key, charges nothing",
    SMG: "Shepherd Model Gateway, in Rust; checks no key, charges nothing",
    FERROGW: "Ferro Labs' gateway, in Go; checks no key, charges nothing",
    PORTKEY_GATEWAY: "Portkey's gateway; charges nothing",
    LITELLM_PROXY: "LiteLLM proxy, one worker, a master key; counts in memory",
    LITELLM_KEYS: "LiteLLM proxy, one worker, virtual keys on PostgreSQL",
}


NOT_INSTALLED = "it isn't installed; `make bench-setup` does it"
NOT_RUN = {
    LITELLM_KEYS: (
        "its virtual keys need Prisma, whose query engine is in no package registry; the benchmark downloads"
        " nothing else"
    )
}


class Setup(NamedTuple):
    """What all contenders share: a folder for their files, the upstream, and PostgreSQL if it runs."""

    folder: Path
    upstream_url: str
    database: "Server | None"


class Server(NamedTuple):
    """A PostgreSQL server on its core."""

    postgres: postgres.Postgres
    program: Program
    version: str


@contextlib.contextmanager
def database() -> Iterator[Server]:
    """PostgreSQL from the wheel, with a quarter of the machine's memory for its pages, as its manual has it;
    or the one that MYNA_TEST_DATABASE_URL names, whose cores are its own."""
    with processes.pinned(processes.cores().database):
        server = postgres.start(f"{processes.machine_memory_bytes() // 4 // 2**20}MB")
    try:
        pid, version = asyncio.run(_ask(server.url))
        yield Server(server, Program(pid), version)
    finally:
        server.close()


async def _ask(url: str) -> tuple[int, str]:
    """The pid of the server's main process, 0 where it isn't on this machine, and its version with the memory
    it has for pages."""
    raw = await asyncpg.connect(url)
    try:
        version = str(await raw.fetchval("SHOW server_version"))
        buffers = str(await raw.fetchval("SHOW shared_buffers"))
        backend = int(await raw.fetchval("SELECT pg_backend_pid()"))
        return processes.parent(backend), f"{version} (shared_buffers {buffers})"
    finally:
        await raw.close()


@contextlib.contextmanager
def start(name: str, setup: Setup, work: Work = Work()) -> Iterator[Target]:  # noqa: B008  immutable
    """The contender, ready and checked by a call. Raises CannotRun."""
    if name in NOT_RUN:
        raise CannotRun(NOT_RUN[name])
    if not work.keys:
        work = work._replace(keys=Size().keys)
    with _STARTS[name](setup, work) as target:
        _check(target)
        yield target


def started(
    stack: contextlib.ExitStack,
    name: str,
    starting: contextlib.AbstractContextManager[Target],
    missing: dict[str, str],
) -> Target | None:
    """The contender, paused; None, and the reason in `missing`, if it can't run."""
    try:
        target = stack.enter_context(starting)
    except CannotRun as reason:
        missing[name] = str(reason)
        return None
    target.program.pause()
    return target


@contextlib.contextmanager
def myna(
    name: str,
    setup: Setup,
    work: Work,
    *,
    size: Size = Size(),  # noqa: B008  immutable
    module: str = "myna",
    on_postgresql: bool = False,
    on: set[int] | None = None,
    settings: dict[str, str] | None = None,
) -> Iterator[Target]:
    """`myna serve` on a new, filled database, with default settings except the upstream."""
    folder = setup.folder / name
    folder.mkdir()
    url = ""
    if on_postgresql:
        if setup.database is None:
            raise CannotRun("there is no PostgreSQL")
        url = setup.database.postgres.fresh_database()
    asyncio.run(fill.fill(url, folder / "data", size))
    port = processes.free_port()
    environ = {
        "MYNA_DATA": str(folder / "data"),
        "MYNA_PORT": str(port),
        "MYNA_DATABASE_URL": url,
        "MYNA_CHAT_URL": setup.upstream_url + "/v1",
        "MYNA_SPEECH": "none",
        "PYTHONPATH": str(ROOT),
        **(settings or {}),
    }
    command = [sys.executable, "-m", module, *(["serve"] if module == "myna" else [])]
    where = on or processes.cores().program
    with processes.running(command, where, folder / "log", environ, folder) as program:
        processes.wait_until(lambda: _audited(port), program)
        server = setup.database.program if setup.database and on_postgresql else None
        yield load.target_of(name, port, program, folder, work, server)


def _audited(port: int) -> bool:
    """Waits until the audit that runs after a start is complete. On a large database it takes a while."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return False
    return any(
        line.startswith("myna_audit_timestamp_seconds") and float(line.split()[-1]) > 0 for line in lines
    )


@contextlib.contextmanager
def _two_processes(setup: Setup, work: Work) -> Iterator[Target]:
    count = os.cpu_count() or 1
    if count < processes.CORES_FOR_TWO:
        raise CannotRun(f"not measurable: it needs {processes.CORES_FOR_TWO} cores, this machine has {count}")
    settings = {"MYNA_WORKERS": str(TWO_PROCESSES)}
    on = processes.cores().two
    with myna(POSTGRESQL_2, setup, work, on_postgresql=True, on=on, settings=settings) as target:
        yield target


@contextlib.contextmanager
def bare_floor(setup: Setup, work: Work) -> Iterator[Target]:
    """The bare floor."""
    port = processes.free_port()
    command = [sys.executable, "-m", "bench.bare_floor", str(port), setup.upstream_url]
    with _program(BARE_FLOOR, setup, command, f"http://127.0.0.1:{port}/", PYTHONPATH=str(ROOT)) as program:
        yield load.target_of(BARE_FLOOR, port, program, setup.folder, work)


@contextlib.contextmanager
def nginx(setup: Setup, work: Work, *, buffering: bool = True) -> Iterator[Target]:
    """nginx as a proxy."""
    with upstream.proxy(setup.folder, setup.upstream_url, buffering=buffering) as (url, program):
        yield load.target_of(NGINX, int(url.rpartition(":")[2]), program, setup.folder, work)


@contextlib.contextmanager
def _portkey(setup: Setup, work: Work) -> Iterator[Target]:
    server = GATEWAY / "build" / "start-server.js"
    if not server.exists():
        raise CannotRun(NOT_INSTALLED)
    port = processes.free_port()
    headers = (("x-portkey-provider", "openai"), ("x-portkey-custom-host", setup.upstream_url + "/v1"))
    command = [node(), str(server), f"--port={port}", "--headless"]
    with _program(
        PORTKEY_GATEWAY, setup, command, f"http://127.0.0.1:{port}/", NODE_ENV="production"
    ) as program:
        yield load.target_of(PORTKEY_GATEWAY, port, program, setup.folder, work._replace(headers=headers))


_ROLTER_CONFIG = """
[[providers.readonly]]
name = "upstream"
kind = "openai"
api_base = "{upstream}"
allow_custom_api_base = true
[[routes]]
model = "svc-chat"
strategy = "round_robin"
[[routes.targets]]
provider = "upstream"
model = "m"
"""
_FERROGW_CONFIG = """
strategy: {mode: single}
targets: [{virtual_key: openai}]
aliases: {svc-chat: gpt-4o}
"""


@contextlib.contextmanager
def _rolter(setup: Setup, work: Work) -> Iterator[Target]:
    config = setup.folder / "rolter.toml"
    config.write_text(_ROLTER_CONFIG.format(upstream=setup.upstream_url), encoding="utf-8")
    place = ["--host", "127.0.0.1", "--port", str(port := processes.free_port())]
    command = ["rolter", "gateway", "--config", str(config), *place]
    with _compiled(ROLTER, setup, work, port, command, RUST_LOG="off") as target:
        yield target


@contextlib.contextmanager
def _smg(setup: Setup, work: Work) -> Iterator[Target]:
    """Without retries and its circuit breaker, as the others."""
    port, metrics = processes.free_port(), processes.free_port()
    command = ["smg", "launch", "--worker-urls", setup.upstream_url, "--backend", "openai"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)]
    command += ["--disable-retries", "--disable-circuit-breaker", "--log-level", "error"]
    with _compiled(SMG, setup, work, port, command) as target:
        yield target


@contextlib.contextmanager
def _ferrogw(setup: Setup, work: Work) -> Iterator[Target]:
    """Its default limit of requests would answer most of them with 429."""
    config = setup.folder / "ferrogw.yaml"
    config.write_text(_FERROGW_CONFIG, encoding="utf-8")
    unlimited = dict.fromkeys(("RATE_LIMIT_RPS", "RATE_LIMIT_BURST"), "1000000")
    environ = {"GATEWAY_CONFIG": str(config), "PORT": str(port := processes.free_port())} | unlimited
    environ |= {"OPENAI_BASE_URL": setup.upstream_url, "OPENAI_API_KEY": "none", "LOG_LEVEL": "fatal"}
    environ["ALLOW_UNAUTHENTICATED_PROXY"] = "true"
    with _compiled(FERROGW, setup, work, port, ["ferrogw", "serve"], **environ) as target:
        yield target


@contextlib.contextmanager
def _compiled(
    name: str, setup: Setup, work: Work, port: int, command: list[str], **environ: str
) -> Iterator[Target]:
    program = COMPILED / "bin" / command[0]
    if not program.exists():
        raise CannotRun(NOT_INSTALLED)
    ready = f"http://127.0.0.1:{port}/"
    with _program(name, setup, [str(program), *command[1:]], ready, **environ) as running:
        yield load.target_of(name, port, running, setup.folder, work)


MASTER_KEY = "sk-bench-0123456789"
_LITELLM_CONFIG = """
model_list:
  - model_name: svc-chat
    litellm_params: {{model: openai/m, api_base: "{upstream}/v1", api_key: none}}
router_settings: {{num_retries: 0, disable_cooldowns: true}}
litellm_settings: {{num_retries: 0, telemetry: false, set_verbose: false}}
general_settings: {{master_key: {master_key}}}
"""


@contextlib.contextmanager
def _litellm(setup: Setup, work: Work) -> Iterator[Target]:
    program = LITELLM / "bin" / "litellm"
    if not program.exists():
        raise CannotRun(NOT_INSTALLED)
    config = setup.folder / "litellm.yaml"
    config.write_text(
        _LITELLM_CONFIG.format(upstream=setup.upstream_url, master_key=MASTER_KEY), encoding="utf-8"
    )
    port = processes.free_port()
    command = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    environ = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_MODE": "PRODUCTION"}
    ready = f"http://127.0.0.1:{port}/health/liveliness"
    with _program(LITELLM_PROXY, setup, [*command, "--num_workers", "1"], ready, **environ) as running:
        yield load.target_of(
            LITELLM_PROXY, port, running, setup.folder, work._replace(keys=0, bearer=MASTER_KEY)
        )


_STARTS: dict[str, Callable[[Setup, Work], contextlib.AbstractContextManager[Target]]] = {
    SQLITE: partial(myna, SQLITE),
    POSTGRESQL: partial(myna, POSTGRESQL, on_postgresql=True),
    POSTGRESQL_2: _two_processes,
    FLOOR: partial(myna, FLOOR, module="bench.floor"),
    BARE_FLOOR: bare_floor,
    NGINX: nginx,
    ROLTER: _rolter,
    SMG: _smg,
    FERROGW: _ferrogw,
    PORTKEY_GATEWAY: _portkey,
    LITELLM_PROXY: _litellm,
}


@contextlib.contextmanager
def _program(name: str, setup: Setup, command: list[str], url: str, **environ: str) -> Iterator[Started]:
    """A program that is ready once `url` answers."""
    where, log = processes.cores().program, setup.folder / f"{name}.log"
    with processes.running(command, where, log, environ, setup.folder) as program:
        processes.wait_for(url, program)
        yield program


def _check(target: Target) -> None:
    """Checks that a call returns the upstream's text. One of a hundred calls fails by design."""
    seen = ""
    for _ in range(CHECKS):
        try:
            answer = load.ask(target)
        except OSError as error:
            seen = str(error)
            continue
        if UPSTREAM_SAYS in answer:
            return
        seen = answer[:200].decode(errors="replace")
    raise CannotRun(f"its answer isn't the upstream's: {seen}")


def versions(setup: Setup) -> dict[str, str]:
    """The versions of all programs that influence the figures, if installed."""
    found = {name: importlib.metadata.version(name) for name in _PACKAGES}
    found["SQLite"] = apsw.sqlite_lib_version()
    if setup.database:
        found["PostgreSQL"] = setup.database.version
    return found | {name: version for name, command in _ASKED.items() if (version := _said(command))}


_PACKAGES = (
    "myna", "uvicorn", "uvloop", "httptools", "msgspec", "apsw", "asyncpg", "espeakng-loader", "lameenc",
)  # fmt: skip
_ASKED = {
    **{name: [str(COMPILED / "bin" / name), "--version"] for name in (ROLTER, SMG)},
    "ferrogw": [str(COMPILED / "bin" / "ferrogw"), "version"],
    "nginx": ["nginx", "-v"],
    "wrk": ["wrk", "-v"],
    "node": [node(), "--version"],
    "Portkey": [node(), "-p", f"require('{GATEWAY}/package.json').version"],
    "LiteLLM": [
        str(LITELLM / "bin" / "python"), "-c", "import importlib.metadata as m; print(m.version('litellm'))"
    ],
}  # fmt: skip


def _said(command: list[str]) -> str:
    """The version in the first line that a command prints; empty if it is not installed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    found = re.search(r"\d+\.\d[\w.+-]*", (done.stdout + done.stderr).partition("\n")[0])
    return found[0] if found else ""
