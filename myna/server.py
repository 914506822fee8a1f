"""uvicorn as Myna wants it: its own refusals in our envelope, limits on everything a client may do to a
connection, calls that end before the process does, an end with exit code 0.
"""

import asyncio
import contextlib
import errno
import logging
import os
import re
import socket
import sys
from collections.abc import Iterator
from typing import Any

import httptools
import uvicorn
from prometheus_client import multiprocess as metric_files
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.supervisors import multiprocess

from myna.edge import ABORT, STOPPING, WHOLE, App, envelope
from myna.errors import CommandError, ConfigError, InvalidRequest, MynaError, Overloaded
from myna.ids import new_name
from myna.sending import Outlet, Turn
from myna.settings import Settings

if sys.platform != "win32":
    import resource

log = logging.getLogger(__name__)

BACKLOG = 2048
HEADERS_MAX_BYTES = 64 * 1024
HEADERS_TIMEOUT_S = 20.0
PIPELINED_MAX = 32
"""Requests that may wait on one connection behind the one being answered."""
KNOWN_METHOD = b"PATCH"
"""One that the parser knows and nothing is offered under: it stands for those that it doesn't know."""
STALLED_S = 60.0
"""How long a client may take nothing of an answer that waits for it."""
REFUSAL_WAIT_S = 1.0
"""How long one connection too many may take to ask before it is told that it is one too many."""
CLOSE_WAIT_S = 1.0
"""At the end, for answers to leave when all calls are over."""
TICK_S = 0.1
OTHER_FILES = 256
"""Files and pipes beside the connections."""
_METHOD = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,40}(?= /)")


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with limits: how large a head may be and how long it may take, how many requests may wait,
    how long a client may leave its answer lying."""

    config: "Config"
    _header_bytes = 0
    _in_headers = False
    _offered = False
    _between = True
    _strange_method = ""
    _one_too_many = False
    _impatience: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Outlet(transport, self.config.turn))
        if len(self.connections) - self.config.refused > self.config.connections_max:
            self._turn_away()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient()
        self._moving()
        self.config.refused -= self._one_too_many
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._one_too_many:
            self._refuse(Overloaded())
            return
        self._unset_keepalive_if_required()
        self._feed(data)
        # What arrives with no answer on its way is the next head, blank lines before it, or the rest of a
        # body that nobody wanted: each stopped the clock of idle connections, so another one must run.
        if self._idle and self._impatience is None and self.timeout_keep_alive_task is None:
            self._expect_head()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX:
            raise ValueError("too many requests at once")  # the parser turns it into a 400
        super().on_message_begin()
        self._header_bytes, self._in_headers, self._offered = 0, True, False
        self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]  # ours
        self.scope[STOPPING] = self.config.is_stopping  # type: ignore[literal-required]  # ours

    def on_url(self, url: bytes) -> None:
        self._between = False
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if self._in_headers:  # what comes behind a chunked body is a trailer, and none means anything here
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("this is no proxy")  # the parser turns it into a 400
            self._offered = True
            return
        self._be_patient()
        super().on_headers_complete()
        if self._strange_method:
            self.scope["method"], self._strange_method = self._strange_method, ""

    def on_message_complete(self) -> None:
        self._between = True
        self.scope[WHOLE] = True  # type: ignore[literal-required]  # ours
        if not self._offered:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_leaving()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_leaving()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._moving()

    def send_400_response(self, msg: str) -> None:
        """Bytes that are no HTTP, or too many. Answers owed to earlier requests come first."""
        cycle = self.cycle
        if not self._idle and not cycle.more_body:
            cycle.keep_alive = False  # closes behind the last answer that is owed
            self.flow.pause_reading()
            return
        if not self._idle and (self.pipeline or cycle.response_started):
            self.transport.abort()
            return
        if not self._idle:
            cycle.disconnected = True  # its body never comes whole; the refusal is its answer
            cycle.message_event.set()
        self._refuse(InvalidRequest("The request is no valid HTTP, or its headers are too large."))

    def _feed(self, data: bytes) -> None:
        """An offer to speak another protocol is passed over in silence (RFC 9110, 7.8). The parser stops at
        one and takes the body for the other protocol's, so another parser reads the request without it. It
        also stops at a method it doesn't know, so another one reads the request with one that it does."""
        while True:
            begins = self._between
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = self._head_without_offer() + data[offer.args[0] :]
            except httptools.HttpParserError:
                strange = _strange_method(data) if begins else b""
                if not strange:
                    self.send_400_response("")
                    return
                self._strange_method = strange.decode()
                data = KNOWN_METHOD + data[len(strange) :]
            else:
                return
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it

    def _head_without_offer(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    @property
    def _idle(self) -> bool:
        """No request of this connection waits for its answer."""
        return self.cycle is None or self.cycle.response_complete

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADERS_MAX_BYTES:
            raise ValueError("headers too large")  # the parser turns it into a 400

    def _expect_head(self) -> None:
        self._impatience = self.loop.call_later(HEADERS_TIMEOUT_S, self.transport.abort)

    def _be_patient(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None

    def _watch_leaving(self) -> None:
        """Ends the connection unless what was written leaves it in time."""
        self._moving()
        self._stall = self.loop.call_later(STALLED_S, self.transport.abort)

    def _moving(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _turn_away(self) -> None:
        """Tells one connection too many so when it has asked: told before, it may see only a reset. Where as
        many wait to be told as may be open, there is no time for that either."""
        if self.config.refused >= self.config.connections_max:
            self.transport.abort()
            return
        self._one_too_many = True
        self.config.refused += 1
        self._impatience = self.loop.call_later(REFUSAL_WAIT_S, self._refuse, Overloaded())

    def _refuse(self, error: MynaError) -> None:
        """An answer before any application was asked; the connection ends behind it."""
        if self.transport.is_closing():
            return
        response = envelope(error)
        headers = {
            "content-type": "application/json",
            "content-length": str(len(response.body)),
            "x-request-id": new_name(),
            "connection": "close",
            **(response.headers or {}),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        self.transport.write(STATUS_LINE[response.status] + lines + b"\r\n" + response.body)
        self.transport.close()
        self._watch_leaving()


def _strange_method(data: bytes) -> bytes:
    """The method of the request that begins here, if the parser doesn't know it; empty if it does, or if this
    is no request."""
    method = _METHOD.match(data)
    if method is None:
        return b""
    try:
        httptools.HttpRequestParser(object()).feed_data(method[0] + b" / HTTP/1.1\r\n")
    except httptools.HttpParserError:  # none at all, or one of RTSP
        return method[0]
    return b""


class Server(uvicorn.Server):
    """Ends when the calls in flight have, and with exit code 0: being told to stop is no failure."""

    config: "Config"

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


class Config(uvicorn.Config):
    """uvicorn's configuration; how many connections there may be at once, how long calls may go on at the
    end, how callers reach the service; and what the connections of one process share: how many are being
    turned away, whether it ends, and the turn in which they send.
    """

    connections_max: int
    grace_s: float
    base_url: str
    turn: Turn
    refused = 0
    stopping = False

    def is_stopping(self) -> bool:
        return self.stopping


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
    config.base_url, config.turn = settings.base_url, Turn()
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
