"""The composition root: the only module that wires. Nothing happens at import."""

import contextlib
import gc
import logging
import os
from collections.abc import AsyncIterator, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from myna import logs
from myna import settings as settings_module
from myna.access import Access
from myna.api.auth import Gate
from myna.api.chat import ChatApi
from myna.api.health import HealthApi
from myna.api.me import MeApi
from myna.api.openapi import OpenApi
from myna.api.speech import SpeechApi
from myna.api.uploads import UploadsApi
from myna.channels import Channels
from myna.chat.complete import Chat
from myna.edge import METRICS_PATH, Edge, Limits, Routes, envelope, known
from myna.engines.espeak import Espeak
from myna.engines.listener import Listener
from myna.errors import InvalidRequest, MethodNotAllowed, MynaError, NotFound
from myna.farm.api import FarmApi
from myna.jobs import Jobs
from myna.ledger import Ledger
from myna.nodes import Nodes
from myna.outbound import Outbound
from myna.outlook import Outlook
from myna.settings import Settings, usable_cores
from myna.site import Site
from myna.speech.plan import Planner
from myna.speech.synthesize import Synthesizer
from myna.store.audio import AudioStore
from myna.store.database import Database, connect
from myna.store.group_commit import GroupCommit
from myna.store.migrate import migrate
from myna.store.samples import SampleStore
from myna.tasks import Tasks

log = logging.getLogger(__name__)

FINISH_WAIT_S = 5.0
GC_AFTER = 20_000
"""New objects between two collections: a busy loop has thousands alive that aren't garbage, and Python's 700
would have them looked at again and again."""


class Service:
    """The parts of one serving process, and the order in which they start and end."""

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], db: Database, site: Site, commits: GroupCommit
    ) -> None:
        self.settings, self.db, self.site = settings, db, site
        self.audio = AudioStore(settings.data_folder / "audio")
        self.samples = SampleStore(settings.data_folder / "samples")
        self.outbound = Outbound(connections_max=settings.outbound_connections_max)
        self.espeak = _espeak(settings)
        self.commits = commits
        self.channels = Channels(settings, environ, self.outbound, self.espeak)
        self.ledger = Ledger(db, self.commits, site, charge_wait_s=settings.charge_wait_s)
        self.listener = Listener()
        self.tasks = Tasks(db, lease_s=settings.lease_s)
        self.outlook = Outlook(db)
        self.planner = Planner(db, self.ledger, site, self.channels, self.outlook)
        self.synthesizer = Synthesizer(
            settings, self.ledger, site, self.channels, self.tasks, self.planner, self.audio
        )
        self.chat = Chat(
            settings, self.ledger, site, self.channels, self.outbound, self.planner, self.synthesizer
        )
        self.health = HealthApi(db, self.audio)
        self.jobs = Jobs(
            settings, db, self.commits, self.ledger, self.tasks, site, self.channels, self.audio, self.samples
        )

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, settings: Settings, environ: Mapping[str, str]) -> AsyncIterator["Service"]:
        """Started whole; at the end what runs is finished or refunded before the database is let go."""
        db = await connect(settings.database_url or "sqlite:", settings.data_folder, serving=True)
        try:
            await migrate(db)
            commits = cls.commits_of(db, settings)
            service = cls(settings, environ, db, await Site.read(db), commits)
            await service._start()
            try:
                yield service
            finally:
                await service._stop()
        finally:
            await db.close()

    @staticmethod
    def commits_of(db: Database, settings: Settings) -> GroupCommit:
        """What charges and ends go through."""
        return GroupCommit(db, settings.queue_max)

    async def _start(self) -> None:
        self.commits.start()
        if self.db.single_process:
            while refunded := await self.ledger.recover():
                log.warning("%d calls were left open by the process before and are refunded", refunded)
        if self.espeak:
            await self.espeak.start()
        await self.tasks.start()
        self.jobs.start()

    async def _stop(self) -> None:
        self.health.stopping = True
        await self.tasks.close()
        await self.jobs.close()
        await self.ledger.finish(FINISH_WAIT_S)
        await self.commits.close(FINISH_WAIT_S)
        if self.espeak:
            await self.espeak.close()
        await self.listener.close()
        await self.outbound.close()

    def routes(self) -> Routes:
        """What is called most, by exact path."""
        gate = Gate(self.db, self.settings.charge_wait_s)
        chat, me = ChatApi(gate, self.chat, self.site), MeApi(gate, self.db)
        speech = SpeechApi(gate, self.db, self.site, self.channels, self.outlook, self.synthesizer)
        farm = FarmApi(
            self.settings, self.db, Nodes(self.db), self.tasks, self.audio, self.samples, self.listener
        )
        return {
            **farm.routes(),
            "/v1/me": {"GET": me.me},
            "/v1/models": {"GET": chat.models},
            "/v1/chat/completions": {"POST": chat.completions},
            "/v1/voices": {"GET": speech.voices},
            "/v1/tts": {"POST": speech.speak},
            "/v1/task": {"GET": speech.task},
            "/v1/records": {"GET": speech.records},
        }

    def other_routes(self) -> list[Route]:
        """Everything else, by Starlette."""
        openapi = OpenApi(self.settings.base_url)
        uploads = UploadsApi(self.audio)
        return [
            Route("/healthz", self.health.healthz),
            Route("/readyz", self.health.readyz),
            Route(METRICS_PATH, self.health.metrics),
            Route("/openapi.json", openapi.document),
            Route("/uploads/{name}", uploads.file),
        ]


def create(
    settings: Settings | None = None,
    environ: Mapping[str, str] | None = None,
    kind: type[Service] = Service,
) -> Edge:
    """The ASGI application. Without arguments, as a server's worker makes it: from the environment."""
    environ = os.environ if environ is None else environ
    if settings is None:
        settings, _ = settings_module.load(environ)
    logs.configure(settings.log_level)
    access = Access()
    routes: dict[str, Mapping[str, object]] = {}

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with kind.running(settings, environ) as service:
            app.router.routes.extend(service.other_routes())
            routes.update(service.routes())
            gc.set_threshold(GC_AFTER)
            gc.freeze()  # what is here now stays: later collections needn't look at it again
            yield
        access.flush()

    fallback = Starlette(
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_error, MynaError: answer_for, Exception: answer_for},
    )
    fallback.router.redirect_slashes = False
    limits = Limits(settings.body_max_bytes, settings.body_timeout_s)
    return Edge(routes, fallback, limits, access)  # type: ignore[arg-type]  # filled when the service runs


def _espeak(settings: Settings) -> Espeak | None:
    if settings.speech != "espeak":
        return None
    cores = usable_cores()
    return Espeak(
        processes=max(1, cores // settings.workers),
        queue_max=settings.speech_queue_max,
        job_deadline_s=settings.call_deadline_s,
    )


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own refusals in our envelope."""
    status = getattr(error, "status_code", 500)
    if status == 404:
        return _answer(NotFound("There is nothing at this path; see /openapi.json."))
    if status == 405:
        allow = (getattr(error, "headers", None) or {}).get("Allow", "GET")
        return _answer(MethodNotAllowed(request.method, allow))
    return _answer(InvalidRequest(str(getattr(error, "detail", "The request can't be served."))))


async def answer_for(request: Request, error: Exception) -> Response:
    """Whatever went wrong behind the fallback, in our envelope."""
    return _answer(known(error))


def _answer(error: MynaError) -> Response:
    found = envelope(error)
    headers = dict(found.headers or {})
    return Response(found.body, found.status, headers, media_type="application/json")
