"""uvicorn with Myna's connections, a graceful shutdown, and exit code 0, and the limit on open files, within
which the connections must stay: a client whose call was accepted must get a connection to a channel.
"""

import asyncio
import contextlib
import dataclasses
import errno
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from multiprocessing import parent_process
from typing import Any, cast

import uvicorn
from prometheus_client import multiprocess as metric_files
from uvicorn.supervisors import multiprocess

from myna.errors import CommandError, ConfigError
from myna.http.client_address import TrustedProxies
from myna.http.connection import Protocol
from myna.http.request_head import App
from myna.http.server_config import ServerConfig, WaitingConnections
from myna.lib.aio import FlushQueue, Timeouts
from myna.lib.sandbox import end_with_parent, keep_to_ourselves
from myna.settings import Settings

log = logging.getLogger(__name__)

BACKLOG = 2048
CLOSE_WAIT_S = 1.0
"""Time to send the last responses after all calls have ended."""
TICK_S = 0.1
OTHER_FILES = 256
"""Open files and pipes other than connections: of a small limit half of it."""
ENDS = (signal.SIGINT, signal.SIGTERM)


class Server(uvicorn.Server):
    """Shuts down after the calls in flight have ended, with exit code 0."""

    config: ServerConfig

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        keep_to_ourselves()  # here, since each worker is a new process
        # SIGTERM would wait for the end of the start, which waits for the host of the engines.
        _end_with_parent(signal.SIGKILL)
        proxies = TrustedProxies.of(self.config.trusted_proxies)
        self.config.waiting = WaitingConnections(self.config.connections_max, proxies)
        await super().startup(sockets)
        _end_with_parent(signal.SIGTERM)
        for listening in (sockets or [])[:1]:
            host, port = listening.getsockname()[:2]
            base = self.config.base_url
            log.info(
                "ready: listening on %s port %d; base URL for OpenAI clients: %s/openai/v1,"
                " and for /v1: %s/v1",
                *(host, port, base, base),
            )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Takes calls until proxies know that it ends. Then keeps the socket open until the calls have ended:
        new requests, and requests whose body has not arrived, are answered with 503."""
        clock = asyncio.get_running_loop().time
        self.config.draining = True
        for _ in range(round(self.config.drain_s / TICK_S)):
            if not self.force_exit:
                await asyncio.sleep(TICK_S)
        until = clock() + self.config.grace_s
        self.config.stopping = True
        for connection in list(self.server_state.connections):
            if isinstance(connection, Protocol):
                connection.stop_reading_body()
        calls = set(self.server_state.tasks)
        while calls and not self.force_exit and clock() < until:
            _, calls = await asyncio.wait(calls, timeout=min(TICK_S, until - clock()))
        self.config.timeout_graceful_shutdown = max(until - clock(), CLOSE_WAIT_S)  # type: ignore[assignment]
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike uvicorn's, it does not raise the signals again: the process ends with exit code 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in ENDS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _end_with_parent(number: signal.Signals) -> None:
    """A worker gets the signal when its parent ends: one that is left alone would keep the port."""
    if (parent := parent_process()) is not None and parent.pid is not None:
        end_with_parent(parent.pid, number)


class Worker(multiprocess.Process):
    """One of several serving processes."""

    @cached_property
    def server(self) -> Server:
        return Server(cast(ServerConfig, self.config))

    def join(self) -> None:
        super().join()
        if self.pid is not None:
            metric_files.mark_process_dead(self.pid)  # type: ignore[no-untyped-call]


def configure(app: App | str, settings: Settings) -> ServerConfig:
    """Configures uvicorn without its access log and headers. `app` as a string is a factory to import."""
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
    config = ServerConfig(app, **options)
    config.connections_max = settings.connections_max
    config.trusted_proxies = settings.trusted_proxies
    config.drain_s = settings.drain_s
    config.grace_s = settings.shutdown_grace_s
    config.base_url = settings.base_url
    config.flush_queue = FlushQueue()
    config.keep_alive_timeouts = Timeouts()
    return config


def listen(settings: Settings) -> list[socket.socket]:
    """The listening sockets that all workers share: the service's, and that of the metrics alone if they have
    one. Raises ConfigError for an invalid host, CommandError for another error."""
    found = [_listen(settings.host, settings.port, "MYNA_HOST")]
    if settings.metrics_port:
        host = settings.metrics_host or settings.host
        found.append(_listen(host, settings.metrics_port, "MYNA_METRICS_HOST"))
    return found


def _listen(host: str, port: int, setting: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (socket.gaierror, UnicodeError):
        raise ConfigError(f"{setting}: {host!r} is neither an address nor the name of one.") from None
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(f"{setting}: {host} is not an address of this machine.") from None
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CommandError(f"Can't listen on {host} port {port}: {reason}.") from None


def run(app: App | str, settings: Settings, on_listening: Callable[[], None] = lambda: None) -> None:
    """Serves until told to stop. With several workers, `app` must be a string. Calls `on_listening` once,
    when the sockets are bound. Raises CommandError if the service can't start."""
    listening = listen(settings)
    on_listening()
    config = configure(app, settings)
    failed = CommandError("The service can't start; the log above says why.")
    if settings.workers == 1:
        try:
            Server(config).run(sockets=listening)
        except SystemExit:
            raise failed from None
        return
    multiprocess.Process = Worker  # type: ignore[misc]  # uvicorn has no other way to replace its Server
    supervisor = multiprocess.Multiprocess(config, sockets=listening)
    supervisor.run()
    if any(process.exitcode == uvicorn.config.STARTUP_FAILURE for process in supervisor.processes):
        raise failed


def raise_limit(settings: Settings) -> None:
    """Raises the soft limit to what the configured connections need, as far as the hard limit allows. Logs a
    warning if that is less; `fitted` says what is left."""
    wanted = 2 * settings.connections_max + settings.outbound_connections_max + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(wanted, soft)
    if soft < wanted and soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    if hard < wanted:
        fits = fitted(settings)
        log.warning(
            "the limit on open files is %d; the configured connections need %d: %d client connections are"
            " accepted, and %d to upstreams are opened; raise the limit (ulimit -n, LimitNOFILE)",
            *(hard, wanted, fits.connections_max, fits.outbound_connections_max),
        )


def fitted(settings: Settings) -> Settings:
    """The settings with as many connections as the limit on open files allows. A third each is for client
    connections, for those that are refused, and for upstreams."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    outbound, clients = settings.outbound_connections_max, settings.connections_max
    free = files - min(OTHER_FILES, files // 2)
    if files == resource.RLIM_INFINITY or 2 * clients + outbound <= free:
        return settings
    outbound = min(outbound, max(1, free // 3))
    clients = min(clients, max(1, (free - outbound) // 2))
    return dataclasses.replace(settings, connections_max=clients, outbound_connections_max=outbound)
