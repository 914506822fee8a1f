"""What all edges share: exact routes, error envelope, request id, limits on size and time of a body.

The paths of /v1 are looked up in a dict and served by plain ASGI: no middleware stands between the server
and a handler. Whatever isn't there goes to the fallback application, inside the same envelope.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Struct

from myna import logs
from myna.access import Access, Answered
from myna.errors import (
    AnswerUnknown,
    BodyTooLarge,
    BodyTooSlow,
    CallGivenUp,
    InvalidRequest,
    MethodNotAllowed,
    MynaError,
    ServerFault,
    ShuttingDown,
    Unauthorized,
)
from myna.ids import new_name
from myna.wire.encode import to_json
from myna.wire.v1 import ErrorAnswer, ErrorBody

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ABORT = "myna.abort"
"""Where the server puts, into each scope, what ends the connection without an answer."""
WHOLE = "myna.whole"
"""There once all of a request's body has arrived."""
STOPPING = "myna.stopping"
"""Where it puts what tells whether the process is about to end."""
JSON = b"application/json"
METRICS_PATH = "/metrics"
"""It tells of all that was answered before it."""
PATH_SHOWN_MAX_CHARS = 200
LINGER_S = 2.0
LINGER_MAX_BYTES = 16 * 2**20
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SECRETS = (b"myna_", b"mynanode_", b"mynajoin_")
"""How a key, a node's credential and a join token begin: none is a request's id."""


class Response(Struct, frozen=True):
    """An answer. With `close`, the connection ends behind it and what the client still sends is dropped."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] | None = None
    close: bool = False
    media_type: bytes = JSON


class Request:
    """A request as a handler sees it; header names in lower case."""

    __slots__ = ("_headers", "_receive", "_scope", "limits")

    def __init__(self, scope: Scope, receive: Receive, limits: "Limits") -> None:
        self._scope, self._receive, self.limits = scope, receive, limits
        self._headers: dict[bytes, bytes] = dict(scope["headers"])

    @property
    def path(self) -> str:
        return str(self._scope["path"])

    def header(self, name: bytes) -> bytes | None:
        """The only header of this name; None where there is none. Raises InvalidRequest for two."""
        found = self._headers.get(name)
        if found is not None and len(self._headers) < len(self._scope["headers"]) and self._twice(name):
            raise InvalidRequest(f"{name.decode()}: this header stands twice; send it once.")
        return found

    def _twice(self, name: bytes) -> bool:
        return [key for key, _ in self._scope["headers"]].count(name) > 1

    @property
    def authorization(self) -> bytes | None:
        """The Authorization header. Raises Unauthorized for two: neither opens a door."""
        try:
            return self.header(b"authorization")
        except InvalidRequest as twice:
            raise Unauthorized(twice.message) from None

    def query(self) -> dict[str, str]:
        """Query parameters. Raises InvalidRequest for one that stands twice or is no UTF-8."""
        found: dict[str, str] = {}
        try:
            pairs = parse_qsl(
                self._scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict"
            )
        except UnicodeDecodeError:
            raise InvalidRequest("The query is no valid UTF-8.") from None
        for name, value in pairs:
            if name in found:
                raise InvalidRequest(f"{name[:40]}: stands twice in the query; send it once.")
            found[name] = value
        return found

    @property
    def declared_bytes(self) -> int | None:
        """Content-Length; None for a chunked body."""
        value = self.header(b"content-length")
        if value is not None:
            return int(value) if value.isdigit() else 0
        return None if self.header(b"transfer-encoding") else 0

    async def body(self) -> bytes:
        """The whole body. Raises BodyTooLarge before more than the limit was read, InvalidRequest when it
        takes too long to arrive or ends early."""
        most = self.limits.body_max_bytes
        if (self.declared_bytes or 0) > most:
            raise BodyTooLarge(most)
        if WHOLE in self._scope:  # nothing to wait for: the usual case
            whole, _ = await self.part()
            if len(whole) > most:
                raise BodyTooLarge(most)
            return whole
        try:
            async with asyncio.timeout(self.limits.body_timeout_s):
                return await self._read(most)
        except TimeoutError:
            raise BodyTooSlow(self.limits.body_timeout_s) from None

    async def part(self) -> tuple[bytes, bool]:
        """The next part of the body, and whether there are more. Raises InvalidRequest when it ends early."""
        message = await self._receive()
        if message["type"] != "http.request":
            raise InvalidRequest("The body ended early.")
        return message.get("body", b""), bool(message.get("more_body"))

    @property
    def stopping(self) -> bool:
        """Whether the process is about to end: what only waits ends now."""
        return stopping(self._scope)

    async def gone(self) -> None:
        """Returns when the client has hung up. To be asked behind the body."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _read(self, most: int) -> bytes:
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            part, more = await self.part()
            parts.append(part)
            size += len(part)
            if size > most:
                raise BodyTooLarge(most)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Limits(Struct, frozen=True):
    """Limits on a request body."""

    body_max_bytes: int
    body_timeout_s: float


Handler = Callable[[Request], Awaitable[Response]]
Routes = Mapping[str, Mapping[str, Handler]]
"""Path to method to handler."""


class Edge:
    """The ASGI application of the server."""

    def __init__(self, routes: Routes, fallback: App, limits: Limits, access: Access) -> None:
        self._routes, self._fallback, self._limits, self._access = routes, fallback, limits, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._fallback(scope, receive, send)
            return
        started = time.perf_counter()
        request = _request_id(scope)
        logs.request_id.set(request)
        methods = self._routes.get(scope["path"])
        if methods is None:
            status = await self._fall_back(scope, receive, send, request)
        else:
            status = await self._serve(methods, scope, receive, send, request)
        seconds = time.perf_counter() - started
        path = scope["path"]
        route, shown = (path, path) if methods is not None else ("other", _masked(path))
        self._access.note(Answered(request, scope["method"], route, shown, status, seconds, time.time()))

    async def _serve(
        self, methods: Mapping[str, Handler], scope: Scope, receive: Receive, send: Send, request: str
    ) -> int:
        try:
            handler = methods.get(scope["method"])
            if handler is None:
                raise MethodNotAllowed(scope["method"], ", ".join(methods))
            if scope["method"] == "POST" and stopping(scope):
                raise ShuttingDown
            response = await handler(Request(scope, receive, self._limits))
        except AnswerUnknown:
            log.error("whether the call was kept isn't known; the connection ends without an answer")
            await _abort(scope, receive)
            return 0
        except asyncio.CancelledError:
            response = envelope(CallGivenUp())
        except Exception as error:
            response = envelope(known(error))
        await _respond(response, receive, send, request)
        return response.status

    async def _fall_back(self, scope: Scope, receive: Receive, send: Send, request: str) -> int:
        """The fallback application with our header. Its own last handler answers for a crash and then raises
        it again: the answer is out, and the log has the crash."""
        status = 0
        if scope["path"] == METRICS_PATH:
            self._access.flush()

        async def with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request.encode())]
            await send(message)

        try:
            await self._fallback(scope, receive, with_id)
        except Exception as error:
            if not status:
                response = envelope(known(error))
                await _respond(response, receive, send, request)
                return response.status
        return status


def stopping(scope: Scope) -> bool:
    """The process ends as soon as the calls in flight have; it begins no new ones."""
    told = scope.get(STOPPING)
    return bool(told and told())


def known(error: Exception) -> MynaError:
    """The error as the caller may see it: one of ours, or a fault that only the log describes."""
    if isinstance(error, MynaError):
        if isinstance(error, ServerFault):
            log.error("%s", error.message)
        return error
    log.error("a fault of ours", exc_info=error)
    return ServerFault("Something went wrong on our side; the log has it under this request's id.")


def envelope(error: MynaError) -> Response:
    """The one shape of every answer that isn't a success."""
    body = ErrorAnswer(ErrorBody(error.message, error.type, int(error.status)))
    close = isinstance(error, BodyTooLarge | BodyTooSlow)
    return Response(to_json(body).encode(), int(error.status), error.headers, close)


def _masked(path: str) -> str:
    return logs.masked(path[:PATH_SHOWN_MAX_CHARS])


def _request_id(scope: Scope) -> str:
    """The client's, where it sent a sane one, which no secret is; else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value) and not value.startswith(_SECRETS):
            return str(value, "ascii")
    return new_name()


async def _respond(response: Response, receive: Receive, send: Send, request: str) -> None:
    headers = [
        (b"content-type", response.media_type),
        (b"content-length", str(len(response.body)).encode()),
        (b"x-request-id", request.encode()),
    ]
    for name, value in (response.headers or {}).items():
        headers.append((name.lower().encode(), value.encode()))
    if response.close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": response.close})
    if response.close:
        await _linger(receive)
        await send({"type": "http.response.body", "body": b""})


async def _linger(receive: Receive) -> None:
    """Reads on a little behind the answer, so that a client still sending gets it instead of a reset."""
    dropped = 0
    try:
        async with asyncio.timeout(LINGER_S):
            while dropped < LINGER_MAX_BYTES:
                message = await receive()
                if message["type"] != "http.request" or not message.get("more_body"):
                    return
                dropped += len(message.get("body", b""))
    except TimeoutError:
        return


async def _abort(scope: Scope, receive: Receive) -> None:
    """Ends the connection; returns when the server has noticed, so that it adds no answer of its own."""
    scope[ABORT]()
    while (await receive())["type"] != "http.disconnect":
        pass
