"""The composition root: the only module that creates and connects the parts of a process."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial

from starlette.routing import Route

from myna.accounts.refusals import Refusals
from myna.accounts.sign_in.oidc.flow import Oidc
from myna.accounts.sign_in.oidc.provider import client_of
from myna.accounts.throttle import KeyThrottle
from myna.api.auth import KeyAuth
from myna.api.farm import FarmApi
from myna.api.health import HealthApi
from myna.api.openai import ModelsApi, OpenAIAudioApi, RelayApi
from myna.api.openapi import OpenApi
from myna.api.uploads import UploadsApi
from myna.api.v1 import V1Api, headers_with_channel, unit_headers
from myna.billing.ledger import Ledger
from myna.billing.quota import Quota
from myna.channels.channels import Channels, restore_circuits
from myna.config import ConfigCache
from myna.engines.media.media import Inspector, Transcoder
from myna.errors import NoSpeechChannel, sentences
from myna.farm.nodes import Capacity, Nodes
from myna.farm.tasks import Tasks
from myna.gateway.failover import ChannelClient
from myna.gateway.models import ContextLengths
from myna.gateway.relay.plan import RelayPlanner
from myna.gateway.relay.relay import Headers, Relay
from myna.gateway.relay.stored_responses import StoredResponses
from myna.gateway.transcription import EmbeddedWhisper, Transcriber
from myna.gateway.trial import Prober
from myna.http.asgi import METRICS_PATH, MODEL_ROUTE, RESPONSE_ROUTE, Routes
from myna.http.client import HttpClient
from myna.lib.files import DiskExecutor
from myna.lib.sandbox import AllowedPaths
from myna.office.edge import Office
from myna.office.model_fetching import ModelFetching
from myna.office.visit import Parts
from myna.office.web_security import stream_headers
from myna.server.maintenance import Maintenance
from myna.settings import Settings, usable_cores
from myna.speech.catalogue import require_channel
from myna.speech.delivery import DeliveryTools
from myna.speech.plan import Planner
from myna.speech.previews import Previews
from myna.speech.site_engines import SiteEngines, speech_engines
from myna.speech.streamed import StreamedSpeech
from myna.speech.synthesize import Synthesizer
from myna.store.database import Database, connect
from myna.store.files.named_files import AudioStore, SampleStore, Spool
from myna.store.files.storage import FreeSpace, open_storage
from myna.store.group_commit import GroupCommit
from myna.store.migrate import migrate

log = logging.getLogger(__name__)

FINISH_WAIT_S = 5.0


@dataclass(eq=False, repr=False)  # `repr` would have the keys of the environment
class Service:
    """The parts of one serving process, and the order in which they start and stop."""

    settings: Settings
    environ: Mapping[str, str]
    db: Database
    config: ConfigCache
    commits: GroupCommit

    def __post_init__(self) -> None:
        settings, db, config = self.settings, self.db, self.config
        idle_s = settings.upstream_idle_s
        storage = open_storage(settings, self.environ)
        self.audio = AudioStore(storage)
        self.samples = SampleStore(storage)
        self.spool = Spool(settings.data_folder / "spool")
        self.space = FreeSpace(settings.data_folder, settings.disk_reserve_bytes)
        self.quota = Quota(db, config)
        self.refusals = Refusals(db)
        self.http_client = HttpClient(
            connections_max=settings.outbound_connections_max,
            connect_timeout_s=settings.upstream_connect_s,
            idle_s=idle_s,
        )
        client = client_of(settings)
        self.oidc = Oidc(client, self.http_client) if client else None
        engines = speech_engines(settings, self.environ)
        self.site_engines = SiteEngines(settings, engines, self.audio.folder)
        self.channels = channels = Channels(
            settings=settings, environ=self.environ, http_client=self.http_client, local=engines
        )
        config.on_load = channels.load_keys
        self.ledger = ledger = Ledger(db, self.commits, config, charge_wait_s=settings.charge_wait_s)
        self.inspector = Inspector(files=AllowedPaths.of(reads=(self.audio.folder,)))
        self.recordings = Inspector(files=AllowedPaths.of(writes=(self.samples.folder,)))
        self.tasks = Tasks(db, lease_s=settings.lease_s)
        self.capacity = Capacity(db)
        self.planner = Planner(
            db, ledger, config, channels, self.capacity, self.space, self.quota, try_s=idle_s
        )
        self.synthesizer = Synthesizer(
            settings, ledger, config, channels, self.tasks, self.planner, self.audio
        )
        self.channel_client = ChannelClient(settings, channels, self.http_client)
        self.relay_planner = RelayPlanner(settings, config, channels, self.planner, self.synthesizer)
        self.transcoder = Transcoder(
            files=AllowedPaths.of(reads=(self.audio.folder,), writes=(self.spool.folder,))
        )
        self.whisper = EmbeddedWhisper(
            settings.data_folder,
            self.spool.folder,
            cores=max(1, usable_cores() // settings.workers),
            deadline_s=settings.call_deadline_s,
        )
        self.health = HealthApi(
            db, self.audio, settings.metrics_token, self._missing, self.commits.try_commit
        )
        self.jobs = self._maintenance()

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, settings: Settings, environ: Mapping[str, str]) -> AsyncIterator["Service"]:
        """Starts the service. On exit, finishes or refunds the open calls, then closes the database."""
        db = await connect(settings, serving=True)
        try:
            if settings.migrate == "on":
                await migrate(db)
            await db.ready()
            await db.ready(contended=True)
            log.info("the database is %s", settings.database_label)
            allowed, needed = await db.connections_max(), settings.workers * settings.postgresql_connections
            if allowed is not None and allowed < needed:
                log.warning(
                    "the database allows %d connections; MYNA_WORKERS x MYNA_POSTGRESQL_CONNECTIONS is %d",
                    *(allowed, needed),
                )
            if not settings.on_sqlite and settings.sqlite_file.exists():
                log.warning("%s is not used; 'myna move' moves its contents", settings.sqlite_file)
            commits = cls.commits_of(db, settings)
            service = cls(settings, environ, db, await ConfigCache.read(db), commits)
            await service._start()
            try:
                yield service
            finally:
                await service._stop()
        finally:
            await db.close()

    @staticmethod
    def commits_of(db: Database, settings: Settings) -> GroupCommit:
        """The group commit of charges and ends."""
        return GroupCommit(db, settings.queue_max)

    def _relay(self, headers: Headers) -> Relay:
        return Relay(self.channel_client, self.ledger, self.config, self.synthesizer, headers)

    def _openai_audio(self, key_auth: KeyAuth, v1: V1Api) -> OpenAIAudioApi:
        disk = DiskExecutor()
        streamed = StreamedSpeech(
            settings=self.settings,
            ledger=self.ledger,
            config=self.config,
            channels=self.channels,
            capacity=self.capacity,
            planner=self.planner,
            synthesizer=self.synthesizer,
            audio=self.audio,
            tools=DeliveryTools(self.spool, self.transcoder, disk, self.settings.upstream_idle_s),
        )
        transcriber = Transcriber(self.channel_client, self.ledger, self.config, self.whisper, disk)
        return OpenAIAudioApi(key_auth, v1, self.settings, streamed, transcriber, self.spool, self.space)

    def _maintenance(self) -> Maintenance:
        return Maintenance(
            settings=self.settings,
            db=self.db,
            commits=self.commits,
            ledger=self.ledger,
            tasks=self.tasks,
            config=self.config,
            channels=self.channels,
            audio=self.audio,
            samples=self.samples,
            spool=self.spool,
            space=self.space,
            quota=self.quota,
            refusals=self.refusals,
            prober=Prober(self.channel_client, self.audio),
        )

    async def _start(self) -> None:
        self.commits.start()
        if self.db.single_process:
            while refunded := await self.ledger.recover():
                log.warning("%d calls were left open by the last process and are refunded", refunded)
        for files in (self.audio, self.samples, self.spool):
            await asyncio.to_thread(files.prepare)
        await self.space.refresh()
        await self.site_engines.start()
        await self.tasks.start()
        await self.channels.load_keys(self.config.current)
        await restore_circuits(self.db, self.channels)
        self.jobs.start()

    async def _stop(self) -> None:
        self.health.stopping = True
        await self.tasks.close()
        await self.jobs.close()
        await self.ledger.finish(FINISH_WAIT_S)
        await self.commits.close(FINISH_WAIT_S)
        for child in (self.site_engines, self.inspector, self.recordings, self.transcoder, self.whisper):
            await child.close()
        await self.http_client.close()

    async def _missing(self) -> dict[str, str]:
        """Why chat and speech are unavailable; "" if available. Raises DatabaseUnavailable."""
        try:
            config = await self.config.with_nodes()
            require_channel(self.channels, config, await self.capacity.nodes(config))
            speech = sentences.DISK_LOW if self.space.low else ""
        except NoSpeechChannel:
            speech = sentences.NO_SPEECH
        return {"chat": self._missing_chat(), "speech": speech, **self.site_engines.down}

    def _missing_chat(self) -> str:
        channels = self.channels.chat(self.config.current)
        if not channels:
            return sentences.NO_CHAT_CHANNEL
        fail = all(self.channels.circuits.open(channel.name) for channel in channels)
        return sentences.CHAT_CHANNELS_FAIL if fail else ""

    def routes(self) -> Routes:
        """The routes of /v1 and /farm/v1, by exact path."""
        throttle = KeyThrottle()
        key_auth = KeyAuth(self.db, self.config, self.settings.charge_wait_s, throttle)
        stored = StoredResponses(self.settings, self.db, self.ledger, self.config, self.quota, self.space)
        relayed = RelayApi(key_auth, self._relay(headers_with_channel), self.relay_planner, stored)
        lengths = ContextLengths(self.http_client, self.channels)
        models = ModelsApi(key_auth, self.db, self.config, self.whisper, lengths)
        v1 = V1Api(
            key_auth=key_auth,
            db=self.db,
            config=self.config,
            channels=self.channels,
            capacity=self.capacity,
            relay=self._relay(unit_headers),
            planner=self.relay_planner,
            synthesizer=self.synthesizer,
        )
        farm = FarmApi(
            settings=self.settings,
            db=self.db,
            nodes=Nodes(self.db),
            tasks=self.tasks,
            audio=self.audio,
            samples=self.samples,
            inspector=self.inspector,
            space=self.space,
            throttle=throttle,
        )
        return {
            **farm.routes(),
            **self._openai_audio(key_auth, v1).routes(),
            **v1.routes(),
            "/openai/v1/chat/completions": {"POST": relayed.chat_completions},
            "/openai/v1/responses": {"POST": relayed.responses},
            RESPONSE_ROUTE: {"GET": relayed.stored_response, "DELETE": relayed.delete_response},
            "/openai/v1/completions": {"POST": relayed.completions},
            "/openai/v1/models": {"GET": models.list_all},
            MODEL_ROUTE: {"GET": models.one},
            "/openai/v1/embeddings": {"POST": relayed.embeddings},
        }

    def other_routes(self) -> list[Route]:
        """The other routes, served by Starlette."""
        openapi = OpenApi(self.settings.base_url, self.config)
        uploads = UploadsApi(self.audio, self.settings.uploads_redirect_s)
        folder, try_s = self.settings.data_folder / "previews", self.settings.upstream_idle_s
        previews = Previews(folder, self.audio, self.space, try_s=try_s)
        office = Office(
            Parts(
                settings=self.settings,
                environ=self.environ,
                db=self.db,
                config=self.config,
                channels=self.channels,
                capacity=self.capacity,
                relay=self._relay(partial(stream_headers, self.settings.base_url.startswith("https:"))),
                relay_planner=self.relay_planner,
                synthesizer=self.synthesizer,
                audio=self.audio,
                samples=self.samples,
                recordings=self.recordings,
                previews=previews,
                space=self.space,
                refusals=self.refusals,
                channel_client=self.channel_client,
                commits=self.commits,
                missing=self._missing,
                models=ModelFetching(self.settings.data_folder, self.environ),
                whisper_missing=self.whisper.missing,
                oidc=self.oidc,
            )
        )
        return [
            *office.routes(),
            Route("/healthz", self.health.healthz),
            Route("/readyz", self.health.readyz),
            Route(METRICS_PATH, self.health.metrics),
            Route("/openapi.json", openapi.document),
            Route("/uploads/{name}", uploads.file),
        ]
