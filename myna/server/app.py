"""The application of the server. Nothing happens at import."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from myna import __version__
from myna import settings as settings_module
from myna.errors import InvalidRequest, MethodNotAllowed, MynaError, NotFound
from myna.http.asgi import Application
from myna.http.client_address import TrustedProxies
from myna.http.cors import Cors
from myna.http.exchange import EXCHANGE, Exchange
from myna.http.request import BodyBudget, BodyLimits
from myna.http.responses import JSON, envelope, public_error
from myna.http.server import fitted
from myna.lib.files import DiskThreads
from myna.lib.telemetry import logs, metrics, traces
from myna.lib.telemetry.access_log import AccessLog
from myna.server.service import Service
from myna.settings import Settings, usable_cores

NO_PATH = "There is no such path; see /openapi.json."
NO_V1_PATH = f"{NO_PATH} OpenAI's clients use the base URL that ends in /openai/v1."
OPENAI_ENDS = ("/completions", "/embeddings", "/models", "/responses", "/speech", "/transcriptions")
"""Paths that end so are those of a client with another base URL."""
log = logging.getLogger(__name__)
GC_THRESHOLD = 20_000
"""Allocations between two collections. A busy event loop has thousands of live objects, which Python's
default of 700 would traverse again and again."""
SCHEMA_CHANGED = (
    "The schema of the database has become another version's: start the version of Myna that migrated it."
)


async def answer_for(request: Request, error: Exception) -> Response:
    """The answer to an error of the applications behind the exact routes."""
    public = _of_starlette(request, error) if isinstance(error, HTTPException) else public_error(error)
    exchange: Exchange = request.scope[EXCHANGE]
    exchange.details.failed(public)
    answer = envelope(public, request.url.path)
    headers = dict(answer.headers)
    return Response(answer.body, answer.status, headers, media_type=JSON.decode())


def _of_starlette(request: Request, error: HTTPException) -> MynaError:
    if error.status_code == 404:
        path = request.url.path
        return NotFound(NO_V1_PATH if path.startswith("/v1/") or path.endswith(OPENAI_ENDS) else NO_PATH)
    if error.status_code == 405:
        return MethodNotAllowed(request.method, (error.headers or {}).get("Allow", "GET"))
    return InvalidRequest(error.detail)


def create(
    settings: Settings | None = None,
    environ: Mapping[str, str] | None = None,
    kind: type[Service] = Service,
) -> Application:
    """Creates the application, by default from the environment, as a worker of the server does."""
    environ = os.environ if environ is None else environ
    if settings is None:
        settings = fitted(settings_module.load(environ)[0])
    traces.start(environ)
    access = AccessLog(logs.configure(settings.log_level).write)
    routes: dict[str, Mapping[str, object]] = {}

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_default_executor(DiskThreads(min(32, usable_cores() + 4)))
        async with kind.running(settings, environ) as service:
            access.on_error = service.refusals.note
            app.router.routes.extend(service.other_routes())
            routes.update(service.routes())
            metrics.BUILD.labels(__version__).set(1)
            gc.set_threshold(GC_THRESHOLD)
            gc.freeze()  # startup objects are permanent: exclude them from later collections
            watching = asyncio.create_task(end_with_the_schema(service), name="schema")
            yield
            watching.cancel()
        access.flush()
        await traces.flush()

    async def end_with_the_schema(service: Service) -> None:
        """Shuts down when the schema has become another build's."""
        await service.db.schema.changed.wait()
        application.failure = SCHEMA_CHANGED
        signal.raise_signal(signal.SIGTERM)

    fallback = Starlette(
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((HTTPException, MynaError, Exception), answer_for),
    )
    fallback.router.redirect_slashes = False
    limits = BodyLimits(
        body_max_bytes=settings.body_max_bytes,
        body_timeout_s=settings.body_timeout_s,
        budget=BodyBudget(settings.bodies_max_bytes, settings.body_max_bytes),
    )
    cors = Cors(settings.allowed_origins) if settings.allowed_origins else None
    application = Application(
        routes=routes,  # type: ignore[arg-type]  # filled when the service runs
        fallback=fallback,
        limits=limits,
        access=access,
        cors=cors,
        proxies=TrustedProxies.of(settings.trusted_proxies),
        metrics_port=settings.metrics_port,
    )
    return application
