"""The application of the server: routes, error envelope, request id, limits on the size and time of a body.

The paths of /v1 and /farm/v1 are looked up in a dict, without middleware. All other paths go to the fallback
application, whose errors have the same envelope.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping

from myna.errors import (
    CallAbandoned,
    ClientDisconnected,
    CommitInDoubt,
    MethodNotAllowed,
    MynaError,
    NotFound,
    ShuttingDown,
)
from myna.http.client_address import TrustedProxies
from myna.http.cors import Cors
from myna.http.exchange import ResponseStream
from myna.http.request import BodyLimits, Request
from myna.http.request_head import App, Receive, Scope, Send, traceparent_of
from myna.http.responses import Response, envelope, public_error
from myna.lib.telemetry import access_log as access
from myna.lib.telemetry import logs, traces
from myna.lib.telemetry.access_log import AccessLog
from myna.lib.telemetry.requests import CompletedRequest, RequestDetails

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
_BELOW = {
    MODEL_ROUTE: re.compile(f"{MODELS_PREFIX}.*", re.DOTALL),
    RESPONSE_ROUTE: re.compile(f"{RESPONSES_PREFIX}resp_[^/]*"),
}
"""The routes whose path has a part that varies. A model's name may contain slashes. What OpenAI has beside
and below a response, such as `compact` and `input_items`, is not offered."""
LOGGED_PATH_MAX_CHARS = 200
DISCONNECTED = 499
"""The status in log and metrics of a request whose client left before its answer."""
UNANSWERED = 0
"""The status in log and metrics of a request that got no response."""
IN_DOUBT = "commit_in_doubt"
"""The error type in the access log of a request that got no response because a commit is in doubt."""


Handler = Callable[[Request], Awaitable[Response | ResponseStream]]
Routes = Mapping[str, Mapping[str, Handler]]
"""Handlers by path and method."""


async def _nowhere(request: Request) -> Response:
    raise NotFound("There is nothing at this path of this port.")


NOWHERE: Mapping[str, Handler] = dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"), _nowhere)


class Application:
    """The application of the server. `proxies` may name another address than the connection's as the
    client's: the `client` of the request is then that one. A `metrics_port` has the metrics alone."""

    def __init__(
        self,
        routes: Routes,
        fallback: App,
        limits: BodyLimits,
        access: AccessLog,
        cors: Cors | None = None,
        proxies: TrustedProxies | None = None,
        metrics_port: int = 0,
    ) -> None:
        self._routes = routes
        self._fallback = fallback
        self._limits = limits
        self._access = access
        self._cors = cors
        self._proxies = proxies
        self._metrics_port = metrics_port
        self.failure = ""
        """Why the service ends by itself; empty as long as it does not."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The lifespan of the process, for uvicorn."""
        await self._fallback(scope, receive, send)

    async def serve(self, request: Request) -> None:
        """Answers a request."""
        started = time.perf_counter()
        logs.request_id.set(request.request_id)
        if parent := traceparent_of(request.headers):
            logs.traceparent.set(parent)
        span = traces.begin(request.method, parent) if traces.tracer else None
        if self._proxies is not None:
            request.address = self._proxies.client_address(request.address, request.fields)
            request.client = request.address, 0
        path = request.path
        route = path if path in self._routes else self._route_of(path)
        if route and route not in _BELOW:
            path = request.path = route
        methods = self._routes.get(route)
        if self._metrics_port and self._is_elsewhere(request):
            methods, route = NOWHERE, ""
        if self._cors is not None and path.startswith(CORS_PREFIXES):
            request.added += self._cors.answer(request.fields)
        if methods is None:
            await self._fall_back(request)
        else:
            await self._serve(methods, request)
        seconds = time.perf_counter() - started
        completed = CompletedRequest(
            request_id=request.request_id,
            method=request.method,
            route=route or "other",
            path=path if route == path else logs.masked(path[:LOGGED_PATH_MAX_CHARS]),
            status=request.status,
            seconds=seconds,
            ended_at=time.time(),
            details=request.details,
            address=request.address,
        )
        self._access.record(completed)
        if span is not None:
            traces.end(span, completed)

    def _route_of(self, path: str) -> str:
        """The route of a path that is not one itself: without its empty parts, which base URLs that end in a
        slash lead to, or below one; "" if there is none."""
        tidy = "/" + "/".join(filter(None, path.split("/")))
        if tidy in self._routes:
            return tidy
        below = (route for route, pattern in _BELOW.items() if pattern.fullmatch(path))
        return next((route for route in below if route in self._routes), "")

    def _is_elsewhere(self, request: Request) -> bool:
        """Whether the path is not of this port. That of the service and that of the metrics have the health
        checks."""
        is_of_metrics, (server, _) = request.path == METRICS_PATH, request.connection.ends
        on_metrics_port = server is not None and server[1] == self._metrics_port
        return is_of_metrics != on_metrics_port and request.path.encode() not in HEALTH_PATHS[:2]

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
                details=RequestDetails(error_type=error.type),
            )
        )

    async def _serve(self, methods: Mapping[str, Handler], request: Request) -> None:
        request.limits = self._limits
        disconnected = False
        try:
            handler = methods.get("GET" if request.method == "HEAD" else request.method)
            handler = handler or self._preflight(methods, request)
            if handler is None:
                raise MethodNotAllowed(request.method, ", ".join(methods))
            if request.method == "POST" and request.stopping:
                raise ShuttingDown
            response = await handler(request)
        except CommitInDoubt as doubt:
            log.error(
                "the charge of this call is in doubt; the connection is closed without a response",
                exc_info=doubt.__cause__,
            )
            request.details.error_type = IN_DOUBT
            if not request.abort_stream():
                await request.abort()
            return
        except asyncio.CancelledError:
            response = envelope(CallAbandoned(), request.path)
        except Exception as error:
            disconnected = isinstance(error, ClientDisconnected)
            response = envelope(public_error(error), request.path)
        finally:
            request.release()
        if request.abort_stream():  # unless it is complete
            return
        if isinstance(response, ResponseStream):
            raise AssertionError("a handler returned a stream that it did not start")
        if response.error_type:
            request.details.error_type, request.details.message = response.error_type, response.message
        await request.respond(response)
        if disconnected:
            request.status = DISCONNECTED

    def _preflight(self, methods: Mapping[str, Handler], request: Request) -> Handler | None:
        if self._cors is None or not request.path.startswith(CORS_PREFIXES):
            return None
        headers = self._cors.preflight(request.method, request.fields, methods)
        if headers is None:
            return None

        async def answer(request: Request) -> Response:
            return Response(b"", headers=headers)

        return answer

    async def _fall_back(self, request: Request) -> None:
        """Runs the fallback application. Starlette answers an unhandled exception and raises it again; once a
        response has started, that exception is already answered and logged."""
        if request.path == METRICS_PATH:
            self._access.flush()
        try:
            await self._fallback(request.scope(), request.next_message, request.send)
        except Exception as error:
            if not request.status:
                public = public_error(error)
                request.details.failed(public)
                await request.respond(envelope(public, request.path))
        finally:
            request.abort_stream()  # unless it is complete
