"""The ASGI application: exact routes, error envelope, request id, limits on the size and time of a body.

The paths of /v1 and /farm/v1 are looked up in a dict, without middleware. All other paths go to the fallback
application, whose errors have the same envelope.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import parse_qsl

from myna.errors import (
    BodyTooLarge,
    BodyTooSlow,
    CallAbandoned,
    CommitInDoubt,
    InvalidRequest,
    MethodNotAllowed,
    MynaError,
    ShuttingDown,
    Unauthorized,
)
from myna.http.asgi_types import (
    BODY_COMPLETE,
    EOF_RECEIVED,
    OPEN_STREAM,
    OPENED,
    RESPOND,
    App,
    Message,
    Receive,
    Scope,
    Send,
    abort,
    stopping,
    with_headers,
)
from myna.http.body_limits import SMALL_BODY_BYTES, BodyLimits
from myna.http.client_address import TrustedProxies, address_of
from myna.http.cors import Cors
from myna.http.request_ids import request_id_of
from myna.http.responses import Response, envelope, public_error, respond
from myna.http.stream import Header, ResponseStream, has_streamed
from myna.telemetry import access_log as access
from myna.telemetry import logs
from myna.telemetry.access_log import AccessLog, CompletedRequest

log = logging.getLogger(__name__)

METRICS_PATH = "/metrics"
HEALTH_PATHS = (b"/healthz", b"/readyz", METRICS_PATH.encode())
"""Health checks and metrics are also answered over the limit on connections."""
CORS_PREFIXES = ("/v1/", "/openai/v1/", "/uploads/")
"""CORS applies to the paths below these prefixes."""
MODELS_PREFIX = "/openai/v1/models/"
MODEL_ROUTE = MODELS_PREFIX + "{id}"
RESPONSES_PREFIX = "/openai/v1/responses/"
RESPONSE_ROUTE = RESPONSES_PREFIX + "{id}"
_BELOW = {MODELS_PREFIX: MODEL_ROUTE, RESPONSES_PREFIX: RESPONSE_ROUTE}
"""The routes whose path has a part that varies, by what is before it. A model's name may contain slashes."""
LOGGED_PATH_MAX_CHARS = 200
QUERY_PARAMETERS_MAX = 100
UNANSWERED = 0
"""The status in log and metrics of a request that got no response."""
STREAMED = 200
"""The status in log and metrics of a request whose response was a stream, complete or not."""
IN_DOUBT = "commit_in_doubt"
"""The error type in the access log of a request that got no response because a commit is in doubt."""


class Request:
    """A request as passed to a handler. Header names are in lower case."""

    __slots__ = (
        "_added", "_counted_bytes", "_has_duplicates", "_headers", "_key_hash", "_receive", "_scope",
        "limits", "opened",
    )  # fmt: skip

    def __init__(
        self, scope: Scope, receive: Receive, limits: "BodyLimits", added: Sequence[Header] = ()
    ) -> None:
        """`added` are headers of every response, in addition to those of the handler."""
        self._scope = scope
        self._receive = receive
        self._added = added
        self.limits = limits
        self.opened: ResponseStream | None = None
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._has_duplicates = len(self._headers) < len(scope["headers"])
        self._counted_bytes = 0
        self._key_hash = b""

    @property
    def path(self) -> str:
        return str(self._scope["path"])

    @property
    def address(self) -> str:
        """The client's network address."""
        return address_of(self._scope)

    def header(self, name: bytes) -> bytes | None:
        """The value of a header, or None. Raises InvalidRequest for a duplicate header."""
        value = self._headers.get(name)
        if self._has_duplicates and value is not None and self._duplicate(name):
            raise InvalidRequest(f"{name.decode()}: duplicate header; send it once.")
        return value

    def _duplicate(self, name: bytes) -> bool:
        return [key for key, _ in self._scope["headers"]].count(name) > 1

    @property
    def authorization(self) -> bytes | None:
        """The Authorization header, or None. Raises Unauthorized for a duplicate header."""
        try:
            return self.header(b"authorization")
        except InvalidRequest as duplicate:
            raise Unauthorized(duplicate.message) from None

    def query(self) -> dict[str, str]:
        """The query parameters. Raises InvalidRequest for duplicates, too many or invalid UTF-8."""
        parameters: dict[str, str] = {}
        try:
            pairs = parse_qsl(
                self._scope["query_string"].decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=QUERY_PARAMETERS_MAX,
            )
        except UnicodeDecodeError:
            raise InvalidRequest("The query is not valid UTF-8.") from None
        except ValueError:
            raise InvalidRequest(f"The query has more than {QUERY_PARAMETERS_MAX} parameters.") from None
        for name, value in pairs:
            if name in parameters:
                raise InvalidRequest(f"{name[:40]}: duplicate parameter in the query; send it once.")
            parameters[name] = value
        return parameters

    @property
    def declared_bytes(self) -> int | None:
        """Content-Length; None for a chunked body."""
        value = self.header(b"content-length")
        if value is not None:
            return int(value) if value.isdigit() else 0
        return None if self.header(b"transfer-encoding") else 0

    async def body(self, key_hash: bytes = b"") -> bytes:
        """The complete body. Its bytes count against the budget of the API key until `release`.

        A large body is returned in a separate iteration of the event loop (see `Pacer`); the caller decodes
        it before it awaits anything else. Raises BodyTooLarge before more than the limit is read,
        TooManyBodies before the budget is exceeded, InvalidRequest if the body takes too long or ends early,
        and ShuttingDown if the process is told to stop before the body has arrived."""
        self._key_hash = key_hash
        if BODY_COMPLETE in self._scope:  # the usual case needs no timeout
            body, _ = await self.part()
            if len(body) > self.limits.body_max_bytes:
                raise BodyTooLarge(self.limits.body_max_bytes)
        else:
            body = await self._read_in_time()
        if len(body) > SMALL_BODY_BYTES:
            self._count(len(body))
            await self.limits.pacer.wait()
        return body

    async def _read_in_time(self) -> bytes:
        max_bytes = self.limits.body_max_bytes
        if (self.declared_bytes or 0) > max_bytes:
            raise BodyTooLarge(max_bytes)
        try:
            async with asyncio.timeout(self.limits.body_timeout_s):
                return await self._read(max_bytes)
        except TimeoutError:
            raise BodyTooSlow(self.limits.body_timeout_s) from None

    def _count(self, size_bytes: int) -> None:
        """Counts `size_bytes` of this body against the budget. Raises TooManyBodies."""
        more = size_bytes - self._counted_bytes
        if size_bytes > SMALL_BODY_BYTES and more > 0:
            self.limits.budget.take(more, self._key_hash)
            self._counted_bytes = size_bytes

    def release(self) -> None:
        """Returns the bytes of the body to the budget."""
        if self._counted_bytes:
            self.limits.budget.release(self._counted_bytes, self._key_hash)
            self._counted_bytes = 0

    async def part(self) -> tuple[bytes, bool]:
        """The next part of the body, and whether more follow. Raises InvalidRequest if it ends early."""
        message = await self._receive()
        if message["type"] != "http.request":
            raise InvalidRequest("The body ended early.")
        return message.get("body", b""), bool(message.get("more_body"))

    @property
    def stopping(self) -> bool:
        """Whether the process is shutting down: long polls end now."""
        return stopping(self._scope)

    def stream(self) -> ResponseStream:
        """The response as a stream, of which nothing is sent yet. Call it once, after the body was read."""
        headers = [(b"x-request-id", request_id_of(self._scope).encode()), *self._added]
        self.opened = self._scope[OPEN_STREAM](headers)
        return self.opened

    async def disconnected(self) -> None:
        """Returns when the client has closed the connection or its sending side. The two can't be told apart
        before something is written. Call it after the body has been read."""
        while not self._scope.get(EOF_RECEIVED, bool)():
            if (await self._receive())["type"] == "http.disconnect":
                return

    async def _read(self, max_bytes: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        more = True
        while more:
            part, more = await self.part()
            if more and self.stopping:
                raise ShuttingDown
            parts.append(part)
            size += len(part)
            if size > max_bytes:
                raise BodyTooLarge(max_bytes)
            self._count(size)
        return parts[0] if len(parts) == 1 else b"".join(parts)


Handler = Callable[[Request], Awaitable[Response | ResponseStream]]
Routes = Mapping[str, Mapping[str, Handler]]
"""Handlers by path and method."""


class Application:
    """The ASGI application of the server. `proxies` may name another address than the connection's as the
    client's: all that reads `client` of the scope gets that one."""

    def __init__(
        self,
        routes: Routes,
        fallback: App,
        limits: BodyLimits,
        access: AccessLog,
        cors: Cors | None = None,
        proxies: TrustedProxies | None = None,
    ) -> None:
        self._routes = routes
        self._fallback = fallback
        self._limits = limits
        self._access = access
        self._cors = cors
        self._proxies = proxies
        self.failure = ""
        """Why the service ends by itself; empty as long as it does not."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._fallback(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = request_id_of(scope)
        logs.request_id.set(request_id)
        if self._proxies is not None:
            scope["client"] = (self._proxies.client_address(address_of(scope), scope["headers"]), 0)
        details = access.begin()
        path = route = scope["path"]
        methods = self._routes.get(path)
        if methods is None and (tidy := _tidy(path)) in self._routes:
            path = route = scope["path"] = tidy
            methods = self._routes[path]
        for prefix, below in _BELOW.items():
            if methods is None and path.startswith(prefix):
                route = below
                methods = self._routes.get(route)
        added: list[Header] = []
        if self._cors is not None and path.startswith(CORS_PREFIXES):
            added = self._cors.answer(scope["headers"])
            send = with_headers(send, added)
            scope.pop(RESPOND, None)  # it would send the response without these headers
        if methods is None:
            status = await self._fall_back(scope, receive, send, request_id)
        else:
            request = Request(scope, receive, self._limits, added)
            status = await self._serve(methods, request, scope, receive, send)
        seconds = time.perf_counter() - started
        logged_path = path if route == path and methods else logs.masked(path[:LOGGED_PATH_MAX_CHARS])
        if not methods:
            route = "other"
        self._access.record(
            CompletedRequest(
                request_id=request_id,
                method=scope["method"],
                route=route,
                path=logged_path,
                status=status,
                seconds=seconds,
                ended_at=time.time(),
                details=details,
                address=address_of(scope),
            )
        )

    def log_refusal(self, error: MynaError, request_id: str, status: int) -> None:
        """Logs a connection or an invalid request that the server refused without this application."""
        self._access.record(
            CompletedRequest(
                request_id=request_id,
                method="",
                route=access.REFUSED,
                path="",
                status=status,
                seconds=0.0,
                ended_at=time.time(),
                details=access.RequestDetails(error_type=error.type),
            )
        )

    async def _serve(
        self, methods: Mapping[str, Handler], request: Request, scope: Scope, receive: Receive, send: Send
    ) -> int:
        try:
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            handler = methods.get(method) or self._preflight(methods, scope)
            if handler is None:
                raise MethodNotAllowed(scope["method"], ", ".join(methods))
            if scope["method"] == "POST" and stopping(scope):
                raise ShuttingDown
            response = await handler(request)
        except CommitInDoubt as doubt:
            log.error(
                "the charge of this call is in doubt; the connection is closed without a response",
                exc_info=doubt.__cause__,
            )
            access.details().error_type = IN_DOUBT
            if request.opened is not None and request.opened.started:
                request.opened.abort()
                return STREAMED
            await abort(scope, receive)
            return UNANSWERED
        except asyncio.CancelledError:
            response = envelope(CallAbandoned(), request.path)
        except Exception as error:
            response = envelope(public_error(error), request.path)
        finally:
            request.release()
        if request.opened is not None and request.opened.started:
            request.opened.abort()  # unless it is complete
            return STREAMED
        if isinstance(response, ResponseStream):
            raise AssertionError("a handler returned a stream that it did not start")
        await respond(response, scope, receive, send, request_id_of(scope))
        return response.status

    def _preflight(self, methods: Mapping[str, Handler], scope: Scope) -> Handler | None:
        if self._cors is None or not scope["path"].startswith(CORS_PREFIXES):
            return None
        headers = self._cors.preflight(scope["method"], scope["headers"], methods)
        if headers is None:
            return None

        async def answer(request: Request) -> Response:
            return Response(b"", headers=headers)

        return answer

    async def _fall_back(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> int:
        """Runs the fallback application and adds X-Request-Id. Starlette answers an unhandled exception and
        raises it again; once a response has started, that exception is already answered and logged."""
        status = 0
        if scope["path"] == METRICS_PATH:
            self._access.flush()

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send_with_id(message)

        send_with_id = with_headers(send, [(b"x-request-id", request_id.encode())])
        try:
            await self._fallback(scope, receive, send_and_note_status)
        except Exception as error:
            if not status and not has_streamed(scope):
                response = envelope(public_error(error), scope["path"])
                await respond(response, scope, receive, send, request_id)
                return response.status
        finally:
            if has_streamed(scope):
                scope[OPENED].abort()  # unless it is complete
        return STREAMED if has_streamed(scope) else status


def _tidy(path: str) -> str:
    """The path without empty parts, which base URLs that end in a slash lead to."""
    return "/" + "/".join(filter(None, path.split("/")))
