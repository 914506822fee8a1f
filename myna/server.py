"""uvicorn as Myna wants it: its own refusals in our envelope, limits on headers, an end with exit code 0."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from myna.edge import ABORT, App, envelope
from myna.errors import CommandError, InvalidRequest, MynaError, Overloaded
from myna.settings import Settings

BACKLOG = 2048
HEADERS_MAX_BYTES = 64 * 1024
HEADERS_TIMEOUT_S = 20.0


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with a limit on the size of headers and on the time they take to arrive."""

    config: "Config"
    _header_bytes = 0
    _in_headers = False
    _impatience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.config.connections_max:
            self._refuse(Overloaded())
            return
        self._impatience = self.loop.call_later(HEADERS_TIMEOUT_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_headers and self._impatience is None:
            self._impatience = self.loop.call_later(HEADERS_TIMEOUT_S, self.transport.abort)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes, self._in_headers = 0, True
        self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]  # ours

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._be_patient()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(InvalidRequest("The request is no valid HTTP, or its headers are too large."))

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADERS_MAX_BYTES:
            raise ValueError("headers too large")  # the parser turns it into a 400

    def _be_patient(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None

    def _refuse(self, error: MynaError) -> None:
        """An answer before any application was asked; the connection ends behind it."""
        response = envelope(error)
        headers = {
            "content-type": "application/json",
            "content-length": str(len(response.body)),
            "x-request-id": secrets.token_hex(16),
            "connection": "close",
            **(response.headers or {}),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        self.transport.write(STATUS_LINE[response.status] + lines + b"\r\n" + response.body)
        self.transport.close()


class Server(uvicorn.Server):
    """Ends with exit code 0 on SIGTERM and SIGINT: being told to stop is no failure."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with contextlib.suppress(KeyboardInterrupt), super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()  # else uvicorn raises them again


class Config(uvicorn.Config):
    """uvicorn's configuration, and how many connections there may be at once."""

    connections_max: int


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
        "timeout_graceful_shutdown": max(1, round(settings.shutdown_grace_s)),
    }
    config = Config(app, **options)
    config.connections_max = settings.connections_max
    return config


def listen(settings: Settings) -> socket.socket:
    """The socket that all workers share. Raises CommandError."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        found = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise CommandError(
            f"Can't listen on {settings.host} port {settings.port}: {error.strerror}."
        ) from None
    found.set_inheritable(True)
    return found


def run(app: App | str, settings: Settings) -> None:
    """Serves until told to stop. With several workers, `app` must be a string."""
    listening = listen(settings)
    config = configure(app, settings)
    if settings.workers > 1:
        Multiprocess(config, sockets=[listening]).run()
    else:
        Server(config).run(sockets=[listening])
