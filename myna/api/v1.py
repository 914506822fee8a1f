"""The endpoints of /v1: chat and models, speech, voices and records, /me; the headers of a charged call."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice

from msgspec import structs

from myna.accounts.keys import Scope
from myna.api.auth import KeyAuth, model_refused
from myna.channels.channels import Channels
from myna.config import ConfigCache
from myna.engines.interface import EngineVoice
from myna.errors import InvalidRequest, ModelNotFound, NotFound
from myna.farm.nodes import Capacity
from myna.gateway.relay.plan import RelayPlanner
from myna.gateway.relay.relay import Relay
from myna.gateway.relay.v1 import V1_CHAT
from myna.http.asgi import Routes
from myna.http.exchange import ResponseStream
from myna.http.request import Request
from myna.http.responses import Response
from myna.lib.telemetry.requests import RequestDetails
from myna.speech import catalogue as voices
from myna.speech.synthesize import Synthesizer, status_text
from myna.store.database import Database
from myna.store.queries import clones
from myna.store.queries import keys as keys_store
from myna.store.queries import tasks as store
from myna.store.queries.tasks import TaskRow
from myna.wire.body import NAMES_MAX, to_json
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
"""2026-01-01: the creation time of every model."""


def unit_headers(details: RequestDetails) -> dict[str, str]:
    """The units that a request cost, 0 for a stored response, and the account's balance after it; the calls
    that are left in this minute, if they are limited; and what of the request was ignored or not spoken."""
    found = {"X-Units-Cost": str(details.units), "X-Units-Balance": str(details.balance)}
    found |= details.rate_headers
    if details.ignored:
        found["X-Ignored-Fields"] = details.ignored
    if details.unspoken:
        found["X-Unspoken"] = unspoken(details.unspoken)
    if details.ignored_tools:
        found["X-Ignored-Tools"] = details.ignored_tools
    return found


def unspoken(counts: Mapping[str, int]) -> str:
    """What of a text was not spoken, as the value of a header: scripts, kinds of signs, names of markup."""
    named = [f"{name} {count}" for name, count in islice(counts.items(), NAMES_MAX)]
    more = sum(islice(counts.values(), NAMES_MAX, None))
    return ", ".join([*named, f"{more} more"] if more else named)


def headers_with_channel(details: RequestDetails) -> dict[str, str]:
    """The headers about units, and the channel that answered: `node` for compute nodes, and no header for a
    stored response."""
    return unit_headers(details) | ({"X-Myna-Channel": details.channel} if details.channel else {})


@dataclass(frozen=True)
class V1Api:
    """The handlers of /v1."""

    key_auth: KeyAuth
    db: Database
    config: ConfigCache
    channels: Channels
    capacity: Capacity
    relay: Relay
    planner: RelayPlanner
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
        await self.key_auth.verify(request, Scope.CHAT)
        owner = self.config.settings.owner
        models = [Model(id=name, object="model", created=MODELS_CREATED, owned_by=owner) for name in MODELS]
        return Response(to_json(ModelList("list", models)))

    async def completions(self, request: Request) -> Response | ResponseStream:
        caller, body = await self.key_auth.caller_and_body(request, Scope.CHAT)
        try:
            return await self.relay.answer(caller, partial(self.planner.plan, V1_CHAT, caller, body), request)
        except ModelNotFound as error:
            raise model_refused(error) from None

    async def speak(self, request: Request) -> Response:
        caller, body = await self.key_auth.caller_and_body(request, Scope.TTS)
        try:
            answer = await self.synthesizer.speak(caller, body, request.disconnected)
        except ModelNotFound as error:
            raise model_refused(error) from None
        return Response(answer.encode(), headers=unit_headers(caller.details))

    async def voices(self, request: Request) -> Response:
        public, cloned = await self.usable_voices(request)
        data = [_voice(voice, "public") for voice in public] + [_voice(voice, "clone") for voice in cloned]
        return Response(to_json(VoiceList("list", data, data[0].voice_id if data else "")))

    async def usable_voices(self, request: Request) -> tuple[list[EngineVoice], list[EngineVoice]]:
        """The public voices that can be used now, and the cloned ones of the caller's account."""
        key = await self.key_auth.verify(request, Scope.TTS)
        config = await self.key_auth.in_time(self.config.with_nodes())
        nodes = await self.key_auth.in_time(self.capacity.nodes(config))
        own = clones.ready(self.db, key.account_id) if nodes else None
        cloned = voices.usable_clones(await self.key_auth.in_time(own), config, nodes) if own else []
        return voices.usable(self.channels, config, nodes), cloned

    async def task(self, request: Request) -> Response:
        key = await self.key_auth.verify(request, Scope.TTS)
        task_id = read_integer("id", request.query().get("id"))
        found = None
        if 0 < task_id <= ID_MAX:
            query = store.of_account(self.db, key.account_id, task_id)
            found = await self.key_auth.in_time(query)
        if found is None:
            raise NotFound("There is no such task; check the id.")
        return Response(to_json(TaskAnswer(1, self._task(found))))

    async def records(self, request: Request) -> Response:
        key = await self.key_auth.verify(request, Scope.RECORDS)
        query = request.query()
        limit = read_integer("limit", query.get("limit", str(RECORDS_DEFAULT)))
        before = read_integer("before", query.get("before", str(ID_MAX)))
        if not 1 <= limit <= RECORDS_MAX:
            raise InvalidRequest(f"must be from 1 to {RECORDS_MAX}.", field="limit")
        if before < 1:
            raise InvalidRequest("must be the id of a record.", field="before")
        page = store.page(self.db, key.account_id, min(before, ID_MAX), limit + 1)
        rows = await self.key_auth.in_time(page)
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
        key = await self.key_auth.verify(request, Scope(0))
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
        return Response(to_json(info), headers=unit_headers(request.details))


def _voice(voice: EngineVoice, source: str) -> Voice:
    return Voice(voice.voice_id, voice.name, voice.gender, voice.language, source)


def read_integer(name: str, value: str | None) -> int:
    """A query parameter. Raises InvalidRequest."""
    if value is None:
        raise InvalidRequest("is missing.", field=name)
    if not _INTEGER.fullmatch(value) or len(value) > 1000:
        raise InvalidRequest("must be an integer.", field=name)
    return int(value)
