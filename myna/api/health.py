"""GET /healthz, /readyz, /metrics: for machines that watch over the service. No key is asked for."""

import asyncio
import os

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from myna.disk_threads import DiskThreads
from myna.edge import stopping
from myna.store.audio import AudioStore
from myna.store.database import Database
from myna.store.migrate import newest, schema_version

READY_WAIT_S = 2.0
MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"


class HealthApi:
    """Handlers of the health endpoints."""

    def __init__(self, db: Database, audio: AudioStore) -> None:
        self._db, self._audio, self._disk = db, audio, DiskThreads(1)
        self._probe: asyncio.Future[bool] | None = None
        self.stopping = False

    async def healthz(self, request: Request) -> Response:
        """The process answers."""
        return JSONResponse({"ok": True})

    async def readyz(self, request: Request) -> Response:
        """Calls would work now: database, schema version, storage; and the process isn't ending."""
        database, storage = await asyncio.gather(self._schema_fits(), self._storage_takes())
        checks = {
            "running": not self.stopping and not stopping(request.scope),
            "database": database,
            "storage": storage,
        }
        ok = all(checks.values())
        return JSONResponse({"ok": ok, "checks": checks}, status_code=200 if ok else 503)

    async def metrics(self, request: Request) -> Response:
        """Prometheus text; with several processes, of all of them."""
        registry = REGISTRY
        if os.environ.get(MULTIPROCESS):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    async def _schema_fits(self) -> bool:
        try:
            async with asyncio.timeout(READY_WAIT_S):
                return await schema_version(self._db) == newest(self._db.dialect)
        except TimeoutError:
            return False
        except self._db.away:
            return False

    async def _storage_takes(self) -> bool:
        """Who asks while a probe is under way waits for that one."""
        probe = self._probe
        if probe is None or probe.done():
            probe = self._probe = self._disk.do(self._audio.writable)
        await asyncio.wait([probe], timeout=READY_WAIT_S)
        return probe.done() and probe.result()
