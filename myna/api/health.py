"""GET /healthz, /readyz, /metrics: for monitoring. No API key is needed.

/readyz and /metrics use results that are at most CACHE_MAX_AGE_S old, so that frequent requests don't slow
the service. /metrics may require a token."""

import asyncio
import hmac
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Metric,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from myna.errors import DatabaseUnavailable, Unauthorized
from myna.http.exchange import EXCHANGE
from myna.lib.aio import Cached
from myna.lib.files import DiskThreads
from myna.lib.telemetry import metrics
from myna.store.database import Database, in_time
from myna.store.files.named_files import AudioStore

READY_WAIT_S = 2.0
CACHE_MAX_AGE_S = 1.0
NOT_ALLOWED = "The metrics need a token; send MYNA_METRICS_TOKEN as 'Authorization: Bearer <token>'."


@dataclass(eq=False, repr=False)  # `repr` would have the token
class HealthApi:
    """Handlers of the health endpoints. With an empty `metrics_token`, /metrics needs no token. `missing`
    returns for each capability why it is unavailable, "" if it is available; it may raise
    DatabaseUnavailable. `try_commit` returns when the database has committed what a charge does."""

    db: Database
    audio: AudioStore
    metrics_token: str = field(repr=False)
    missing: Callable[[], Awaitable[dict[str, str]]]
    try_commit: Callable[[], Awaitable[None]]
    clock: Callable[[], float] = time.monotonic
    stopping = False

    def __post_init__(self) -> None:
        self._disk = DiskThreads(1)
        self._files = DiskThreads(1)
        self._storage = Cached(self._is_usable, self.clock)
        self._commits = Cached(self._has_committed, self.clock)
        self._checks = Cached(self._check, self.clock)
        self._metrics = Cached(self._render_metrics, self.clock)

    async def healthz(self, request: Request) -> Response:
        """The process answers."""
        return JSONResponse({"ok": True})

    async def readyz(self, request: Request) -> Response:
        """Whether this process can serve: the database has this build's schema and commits, storage works,
        and it is not shutting down. Capabilities are reported but don't affect readiness: they depend on the
        configuration and the channels, which all processes share."""
        running = not self.stopping and not request.scope[EXCHANGE].draining
        storage, commits, missing = await self._checks.get(CACHE_MAX_AGE_S)
        checks = {"running": running, "database": commits and missing is not None, "storage": storage}
        ok = all(checks.values())
        missing = missing or {}
        report = {
            "ok": ok,
            "checks": checks,
            "capabilities": {name: not reason for name, reason in missing.items()},
            "reasons": {name: reason for name, reason in missing.items() if reason},
        }
        return JSONResponse(report, status_code=200 if ok else 503)

    async def metrics(self, request: Request) -> Response:
        """The metrics of all processes as Prometheus text. Raises Unauthorized."""
        if self.metrics_token:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            same = hmac.compare_digest(token.strip(" ").encode("latin-1"), self.metrics_token.encode())
            if scheme.lower() != "bearer" or not same:
                raise Unauthorized(NOT_ALLOWED)
        return Response(await self._metrics.get(CACHE_MAX_AGE_S), media_type=CONTENT_TYPE_LATEST)

    async def _check(self) -> tuple[bool, bool, dict[str, str] | None]:
        """Whether the storage is writable, whether the database commits, and the missing capabilities; None
        if the database can't be read."""
        return await asyncio.gather(_passes(self._storage), _passes(self._commits), self._capabilities())

    async def _render_metrics(self) -> bytes:
        """With several processes the metrics are files, which a separate thread reads."""
        metrics.fold()
        if os.environ.get(metrics.MULTIPROCESS):
            return await self._files.run(_metrics_of_all_processes)
        return generate_latest(REGISTRY)

    async def _capabilities(self) -> dict[str, str] | None:
        try:
            return await in_time(self.db, self._missing_capabilities(), READY_WAIT_S)
        except DatabaseUnavailable:
            return None

    async def _missing_capabilities(self) -> dict[str, str]:
        """Raises DatabaseUnavailable if the schema isn't this build's."""
        await self.db.schema.check(self.db)
        return await self.missing()

    async def _is_usable(self) -> bool:
        return await self._disk.run(self.audio.storage.usable)

    async def _has_committed(self) -> bool:
        await self.try_commit()
        return True


async def _passes(probe: Cached[bool]) -> bool:
    """Whether a probe of storage or database succeeds in time. One that takes longer is waited for by the
    next callers."""
    try:
        async with asyncio.timeout(READY_WAIT_S):
            return await probe.get(0.0)
    except Exception:  # why it failed is in the log of the part that is probed
        return False


def _metrics_of_all_processes() -> bytes:
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    registry.register(_Processes())
    return generate_latest(registry)


class _Processes(Collector):
    """What Prometheus' clients tell of their process, summed over the workers."""

    def collect(self) -> Iterator[Metric]:
        folder = Path(os.environ[metrics.MULTIPROCESS])
        files = folder.glob("gauge_live*_*.db")  # those of dead workers are deleted
        found: dict[str, Metric] = {}
        for pid in {int(file.stem.rpartition("_")[2]) for file in files}:
            for metric in ProcessCollector(pid=partial(int, pid), registry=None).collect():
                of_all = found.setdefault(metric.name, metric)
                if of_all is not metric:
                    more, latest = metric.samples[0], metric.name == "process_start_time_seconds"
                    (one,) = of_all.samples
                    value = max(one.value, more.value) if latest else one.value + more.value
                    of_all.samples = [one._replace(value=value)]
        yield from found.values()
