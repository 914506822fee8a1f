"""The endpoints of /v1: chat and models, speech, voices and records, /me."""

import re
from dataclasses import dataclass

from msgspec import structs

from myna.accounts.keys import Scope
from myna.api import units
from myna.api.auth import KeyAuth, model_refused
from myna.channels.channels import Channels
from myna.config import ConfigCache
from myna.engines.interface import EngineVoice
from myna.errors import InvalidRequest, ModelNotFound, NotFound
from myna.farm.nodes import Capacity
from myna.gateway.chat.complete import Chat
from myna.http.asgi import Routes
from myna.http.request import Request
from myna.http.responses import Response
from myna.speech import catalogue as voices
from myna.speech.synthesize import Synthesizer, status_text
from myna.store.database import Database
from myna.store.queries import clones
from myna.store.queries import keys as keys_store
from myna.store.queries import tasks as store
from myna.store.queries.tasks import TaskRow
from myna.wire.body import to_json
from myna.wire.v1 import (
    MODELS,
    KeyInfo,
    KeyStats,
    Model,
    ModelList,
    Record,
    RecordList,
    Task,
    TaskAnswer,
    Voice,
    VoiceList,
)

RECORDS_MAX = 200
RECORDS_DEFAULT = 100
ID_MAX = 2**53
_INTEGER = re.compile(r"-?[0-9]+")


MODELS_CREATED = 1_767_225_600
"""2026-01-01: the creation time of both models."""


@dataclass(frozen=True)
class V1Api:
    """The handlers of /v1."""

    key_auth: KeyAuth
    db: Database
    config: ConfigCache
    channels: Channels
    capacity: Capacity
    chat: Chat
    synthesizer: Synthesizer

    def routes(self) -> Routes:
        return {
            "/v1/me": {"GET": self.me},
            "/v1/models": {"GET": self.models},
            "/v1/chat/completions": {"POST": self.completions},
            "/v1/voices": {"GET": self.voices},
            "/v1/tts": {"POST": self.speak},
            "/v1/task": {"GET": self.task},
            "/v1/records": {"GET": self.records},
        }

    async def models(self, request: Request) -> Response:
        verified = await self.key_auth.verify(request, Scope.CHAT)
        await self.key_auth.in_time(self.config.at(verified.config_version))
        owner = self.config.settings.owner
        models = [Model(id=name, object="model", created=MODELS_CREATED, owned_by=owner) for name in MODELS]
        return Response(to_json(ModelList("list", models)))

    async def completions(self, request: Request) -> Response:
        caller, body = await self.key_auth.caller_and_body(request, Scope.CHAT)
        try:
            answer = await self.chat.complete(caller, body, request.disconnected)
        except ModelNotFound as error:
            raise model_refused(error) from None
        return Response(answer, headers=units.headers(caller.details))

    async def speak(self, request: Request) -> Response:
        caller, body = await self.key_auth.caller_and_body(request, Scope.TTS)
        try:
            answer = await self.synthesizer.speak(caller, body, request.disconnected)
        except ModelNotFound as error:
            raise model_refused(error) from None
        return Response(answer.encode(), headers=units.headers(caller.details))

    async def voices(self, request: Request) -> Response:
        verified = await self.key_auth.verify(request, Scope.TTS)
        await self.key_auth.in_time(self.config.at(verified.config_version))
        config = await self.key_auth.in_time(self.config.with_nodes())
        nodes = await self.key_auth.in_time(self.capacity.nodes(config))
        own = clones.ready(self.db, verified.key.account_id) if nodes else None
        cloned = voices.usable_clones(await self.key_auth.in_time(own), config, nodes) if own else []
        public = voices.usable(self.channels, config, nodes)
        data = [_voice(voice, "public") for voice in public] + [_voice(voice, "clone") for voice in cloned]
        return Response(to_json(VoiceList("list", data, data[0].voice_id if data else "")))

    async def task(self, request: Request) -> Response:
        verified = await self.key_auth.verify(request, Scope.TTS)
        task_id = read_integer("id", request.query().get("id"))
        found = None
        if 0 < task_id <= ID_MAX:
            query = store.of_account(self.db, verified.key.account_id, task_id)
            found = await self.key_auth.in_time(query)
        if found is None:
            raise NotFound("There is no such task; check the id.")
        await self.key_auth.in_time(self.config.at(verified.config_version))
        return Response(to_json(TaskAnswer(1, self._task(found))))

    async def records(self, request: Request) -> Response:
        verified = await self.key_auth.verify(request, Scope.RECORDS)
        query = request.query()
        limit = read_integer("limit", query.get("limit", str(RECORDS_DEFAULT)))
        before = read_integer("before", query.get("before", str(ID_MAX)))
        if not 1 <= limit <= RECORDS_MAX:
            raise InvalidRequest(f"must be from 1 to {RECORDS_MAX}.", field="limit")
        if before < 1:
            raise InvalidRequest("must be the id of a record.", field="before")
        page = store.page(self.db, verified.key.account_id, min(before, ID_MAX), limit + 1)
        rows = await self.key_auth.in_time(page)
        await self.key_auth.in_time(self.config.at(verified.config_version))
        data = [self._record(row) for row in rows[:limit]]
        return Response(
            to_json(RecordList(object="list", count=len(data), data=data, has_more=len(rows) > limit))
        )

    def _task(self, row: TaskRow) -> Task:
        return Task(
            id=row.id,
            status=row.status,
            status_text=status_text(row, self.config.settings.language),
            text=row.text,
            chars=row.chars,
            audio_url=self.synthesizer.url(row.audio),
        )

    def _record(self, row: TaskRow) -> Record:
        return Record(**structs.asdict(self._task(row)), create_time=row.created_at // 1000)

    async def me(self, request: Request) -> Response:
        key = (await self.key_auth.verify(request, Scope(0))).key
        used = await self.key_auth.in_time(keys_store.usage(self.db, key.id))
        stats = KeyStats(used.calls, used.cost, used.ok_calls)
        scopes, expires_at = Scope(key.scopes).names, key.expires_at // 1000
        info = KeyInfo(
            ok=1,
            key_name=key.name,
            masked=key.masked,
            scopes=scopes,
            use_count=used.calls,
            expires_at=expires_at,
            stats=stats,
        )
        return Response(to_json(info), headers=units.headers(request.details))


def _voice(voice: EngineVoice, source: str) -> Voice:
    return Voice(voice.voice_id, voice.name, voice.gender, voice.language, source)


def read_integer(name: str, value: str | None) -> int:
    """A query parameter. Raises InvalidRequest."""
    if value is None:
        raise InvalidRequest("is missing.", field=name)
    if not _INTEGER.fullmatch(value) or len(value) > 1000:
        raise InvalidRequest("must be an integer.", field=name)
    return int(value)
