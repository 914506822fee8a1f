"""uvicorn as Myna wants it: our connections, calls that end before the process does, exit code 0."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import uvicorn
from prometheus_client import multiprocess as metric_files
from uvicorn.supervisors import multiprocess

from myna.connection import Config, Protocol
from myna.deadlines import Deadlines
from myna.edge import App
from myna.errors import CommandError, ConfigError
from myna.sending import Turn
from myna.settings import Settings

if sys.platform != "win32":
    import resource

log = logging.getLogger(__name__)

BACKLOG = 2048
CLOSE_WAIT_S = 1.0
"""At the end, for answers to leave when all calls are over."""
TICK_S = 0.1
OTHER_FILES = 256
"""Files and pipes beside the connections."""


class Server(uvicorn.Server):
    """Ends when the calls in flight have, and with exit code 0: being told to stop is no failure."""

    config: Config

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            host, port = listening.getsockname()[:2]
            log.info("ready: listening on %s port %d; base URL %s/v1", host, port, self.config.base_url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """The socket stays open until the calls are over, so that whoever asks meanwhile is told 503."""
        clock = asyncio.get_running_loop().time
        until = clock() + self.config.grace_s
        self.config.stopping = True
        calls = set(self.server_state.tasks)
        while calls and not self.force_exit and clock() < until:
            _, calls = await asyncio.wait(calls, timeout=min(TICK_S, until - clock()))
        self.config.timeout_graceful_shutdown = max(until - clock(), CLOSE_WAIT_S)  # type: ignore[assignment]
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with contextlib.suppress(KeyboardInterrupt), super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()  # else uvicorn raises them again


class Worker(multiprocess.Process):
    """One of several serving processes."""

    @property
    def server(self) -> Server:
        if self._server is None:
            self._server = Server(self.config)
        return self._server  # type: ignore[return-value]  # made above

    def join(self) -> None:
        super().join()
        if self.pid is not None:
            metric_files.mark_process_dead(self.pid)  # type: ignore[no-untyped-call]


def configure(app: App | str, settings: Settings) -> Config:
    """No access log of uvicorn's own, headers as we send them. `app` as a string is a factory to import."""
    options: dict[str, Any] = {
        "factory": isinstance(app, str),
        "workers": settings.workers,
        "http": Protocol,
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": settings.keep_alive_s,
    }
    config = Config(app, **options)
    config.connections_max, config.grace_s = settings.connections_max, settings.shutdown_grace_s
    config.base_url, config.turn, config.pauses = settings.base_url, Turn(), Deadlines()
    return config


def listen(settings: Settings) -> socket.socket:
    """The socket that all workers share. Raises ConfigError for a host that can't be, CommandError where
    something else is in the way."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.getaddrinfo(settings.host, settings.port, family, socket.SOCK_STREAM)
        found = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except (socket.gaierror, UnicodeError):
        raise ConfigError(f"MYNA_HOST: {settings.host!r} is no address and no name of one.") from None
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(f"MYNA_HOST: {settings.host} is no address of this machine.") from None
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CommandError(f"Can't listen on {settings.host} port {settings.port}: {reason}.") from None
    return found


def run(app: App | str, settings: Settings) -> None:
    """Serves until told to stop. With several workers, `app` must be a string. Raises CommandError where the
    service doesn't get to its feet."""
    listening = listen(settings)
    _allow_files(2 * settings.connections_max + settings.outbound_connections_max + OTHER_FILES)
    config = configure(app, settings)
    failed = CommandError("The service can't start; the log above says why.")
    if settings.workers == 1:
        try:
            Server(config).run(sockets=[listening])
        except SystemExit:
            raise failed from None
        return
    multiprocess.Process = Worker  # type: ignore[misc]  # uvicorn has no other way to have a Server of one's own
    supervisor = multiprocess.Multiprocess(config, sockets=[listening])
    supervisor.run()
    if any(process.exitcode == uvicorn.config.STARTUP_FAILURE for process in supervisor.processes):
        raise failed


def _allow_files(wanted: int) -> None:
    """Raises this process's own limit on open files as far as it may, since every connection is one."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(wanted, soft)
    if soft < wanted and soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    if hard < wanted:
        log.warning("at most %d files may be open; all connections at once would want %d", hard, wanted)
