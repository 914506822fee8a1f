"""Traces with OpenTelemetry: the extra `otel`, and the variables of its SDK.

Nothing of it is imported unless OTEL_EXPORTER_OTLP_ENDPOINT, or that of traces alone, is set. Spans have no
text of a caller and no key.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from myna import __version__
from myna.lib.telemetry.requests import CompletedRequest, RequestDetails

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

log = logging.getLogger(__name__)

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
FLUSH_MAX_S: Final = 2.0
"""How long a shutdown waits for the last spans."""
_FAILED_FROM: Final = 500
OFF: Final = nullcontext()

_provider: "TracerProvider | None" = None
tracer: "Tracer | None" = None
"""None while no traces are sent. Callers look: where all requests pass, each call of a function counts."""


def start(environ: Mapping[str, str]) -> None:
    """Starts sending the spans of this process, if the environment names a receiver."""
    global _provider, tracer
    if tracer is not None or not any(map(environ.get, ENDPOINTS)):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("no traces are sent: OTEL_EXPORTER_OTLP_ENDPOINT is set, and the extra otel is missing")
        return
    resource = Resource.create({"service.name": "myna", "service.version": __version__})
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = _provider.get_tracer("myna", __version__)


async def flush() -> None:
    """Sends the last spans."""
    if _provider is not None:
        await asyncio.to_thread(_provider.force_flush, int(FLUSH_MAX_S * 1000))


def begin(method: str, parent: str) -> "Span":
    """The span of a request, below the client's `traceparent`. Those of its parts follow in the same task."""
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    above = TraceContextTextMapPropagator().extract({"traceparent": parent})
    found = _started().start_span(method, above, trace.SpanKind.SERVER)
    context.attach(trace.set_span_in_context(found, above))
    return found


def end(found: "Span", request: CompletedRequest) -> None:
    """The request is complete."""
    from opentelemetry import trace

    details = request.details
    found.update_name(f"{request.method} {request.route}")
    attributes: dict[str, Any] = {
        "http.request.method": request.method,
        "http.route": request.route,
        "http.response.status_code": request.status,
        "error.type": details.error_type,
        "myna.request_id": request.request_id,
        "myna.account_id": details.account_id,
        "myna.route": details.route,
        "myna.channel": details.channel,
        "myna.units": details.units,
        "gen_ai.request.model": details.model,
        **_usage(details),
    }
    found.set_attributes({name: value for name, value in attributes.items() if value})
    if not request.status or request.status >= _FAILED_FROM:
        found.set_status(trace.StatusCode.ERROR)
    found.end()


def record(name: str, began_ns: int) -> None:
    """A part of a request that has just ended. What no request caused, such as a check of the health, is
    left out."""
    if traceparent():
        _started().start_span(name, start_time=began_ns).end()


@contextmanager
def attempt(operation: str, channel: str, url: str, model: str, details: RequestDetails) -> Iterator[None]:
    """A request to a channel: to its server, or without a URL to an engine. That of a stream ends with the
    beginning of its answer."""
    from opentelemetry import trace

    model = model or details.model
    server = urlsplit(url)
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "openai" if server.hostname else "myna",
        "gen_ai.request.model": model,
        "myna.channel": channel,
        "server.address": server.hostname,
        "server.port": server.port,
    }
    kind = trace.SpanKind.CLIENT if server.hostname else trace.SpanKind.INTERNAL
    found = _started().start_span(
        f"{operation} {model or channel}",
        kind=kind,
        attributes={name: value for name, value in attributes.items() if value},
    )
    with trace.use_span(found, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except BaseException as error:
            found.set_attribute("error.type", getattr(error, "kind", type(error).__name__))
            found.set_status(trace.StatusCode.ERROR)
            raise
        found.set_attributes(_usage(details))


def traceparent() -> str:
    """The W3C Trace Context of the span in this task; empty without one."""
    from opentelemetry import trace

    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return ""
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"


def _started() -> "Tracer":
    if tracer is None:
        raise AssertionError("a span without a tracer")
    return tracer


def _usage(details: RequestDetails) -> dict[str, int]:
    if not details.input_tokens and not details.output_tokens:
        return {}
    return {
        "gen_ai.usage.input_tokens": details.input_tokens,
        "gen_ai.usage.output_tokens": details.output_tokens,
    }
