"""The edge of /openai/v1, with the shapes of OpenAI's API: models, calls that a channel answers, stored
responses, speech and recordings."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from msgspec import UNSET, structs

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.api.auth import KeyAuth
from myna.api.multipart import Form
from myna.api.v1 import MODELS_CREATED, V1Api, headers_with_channel
from myna.channels import routes
from myna.channels.routes import Route
from myna.config import ConfigCache
from myna.engines.pool.admission import Slot
from myna.errors import DiskFull, ModelNotFound, MynaError
from myna.gateway import transcripts
from myna.gateway.models import ContextLengths
from myna.gateway.relay import responses
from myna.gateway.relay.plan import CHAT, COMPLETIONS, EMBEDDINGS, RelayPlan, RelayPlanner
from myna.gateway.relay.relay import Relay
from myna.gateway.relay.stored_responses import StoredResponses
from myna.gateway.transcription import EmbeddedWhisper, Transcriber
from myna.http.asgi import MODELS_PREFIX, RESPONSES_PREFIX, Handler, Routes
from myna.http.exchange import ResponseStream
from myna.http.request import BodyBudget, Request
from myna.http.responses import Response, envelope
from myna.settings import Settings
from myna.speech.delivery import SoundResponse
from myna.speech.streamed import StreamedSpeech, named
from myna.speech.synthesize import SpokenPlan
from myna.store.database import Database
from myna.store.files.named_files import Spool
from myna.store.files.storage import FreeSpace
from myna.store.queries import config as store
from myna.wire.body import to_json
from myna.wire.openai import AudioVoices, DeletedResponse, RoutedModel, RoutedModelList

NO_SPACE = "The disk has no space for recordings; nothing was charged, try again later."
Plan = Callable[[UnverifiedCaller, bytes, Slot], Awaitable[RelayPlan | SpokenPlan]]
SPOOLED_MAX = 40
"""Recordings of the largest size that a process may have in the spool folder; a quarter of them of one
account."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelsApi:
    """Handlers of the list of models: the built-in ones and the operator's routes, as far as the key may use
    them. Wildcards are not listed, nor is the embedded Whisper where it is not installed."""

    key_auth: KeyAuth
    db: Database
    config: ConfigCache
    whisper: EmbeddedWhisper
    context_lengths: ContextLengths

    async def list_all(self, request: Request) -> Response:
        usable = await self._usable(request)
        named = {route.name: route for route in usable if not route.name.endswith("*")}
        return Response(to_json(RoutedModelList("list", await self._models(named))))

    async def one(self, request: Request) -> Response:
        wanted = request.path.removeprefix(MODELS_PREFIX)
        usable = {route.name: route for route in await self._usable(request)}
        route = routes.named(self.config.current, self.config.settings, wanted)
        if route is None or route.name not in usable:
            raise ModelNotFound(wanted)
        (model,) = await self._models({wanted: route})
        return Response(to_json(model))

    async def _usable(self, request: Request) -> list[Route]:
        key = await self.key_auth.verify(request, Scope.CHAT)
        found = routes.listed(self.config.current, self.config.settings)
        if await self.whisper.missing():
            found = [route for route in found if route.name != routes.TRANSCRIPTION_ROUTE]
        allowed = await self.key_auth.in_time(store.routes_of_key(self.db, key.id))
        return found if allowed is None else [route for route in found if route.name in allowed]

    async def _models(self, named: dict[str, Route]) -> list[RoutedModel]:
        """The models of these names."""
        said = self.config.settings.context_lengths
        lengths = await self.context_lengths.of(self.config.current, said, named)
        return [
            RoutedModel(
                id=name,
                object="model",
                created=MODELS_CREATED,
                owned_by=self.config.settings.owner,
                kind=route.kind,
                units=route.units,
                context_length=lengths.get(name, UNSET),
            )
            for name, route in named.items()
        ]


class RelayApi:
    """Handlers of the endpoints that a channel answers."""

    def __init__(
        self, key_auth: KeyAuth, relay: Relay, planner: RelayPlanner, stored: StoredResponses
    ) -> None:
        self._key_auth = key_auth
        self._relay = relay
        self._stored = stored
        self.chat_completions = self._handler(partial(planner.plan, CHAT))
        self.completions = self._handler(partial(planner.plan, COMPLETIONS))
        self.embeddings = self._handler(partial(planner.plan, EMBEDDINGS))
        self.responses = self._handler(partial(responses.plan, planner, stored))

    async def stored_response(self, request: Request) -> Response:
        account_id, response_id = await self._one(request)
        return Response(await self._stored.one(account_id, response_id))

    async def delete_response(self, request: Request) -> Response:
        account_id, response_id = await self._one(request)
        await self._stored.delete(account_id, response_id)
        return Response(to_json(DeletedResponse(response_id, "response", deleted=True)))

    async def _one(self, request: Request) -> tuple[int, str]:
        """The account and the id of the response."""
        key = await self._key_auth.verify(request, Scope.CHAT)
        return key.account_id, request.path.removeprefix(RESPONSES_PREFIX)

    def _handler(self, plan: Plan) -> Handler:
        async def handle(request: Request) -> Response | ResponseStream:
            caller, body = await self._key_auth.caller_and_body(request, Scope.CHAT)
            return await self._relay.answer(caller, partial(plan, caller, body), request)

        return handle


@dataclass(eq=False)
class OpenAIAudioApi:
    """Handlers of speech and of recordings, which are in the spool folder until they are transcribed."""

    key_auth: KeyAuth
    v1: V1Api
    settings: Settings
    streamed: StreamedSpeech
    transcriber: Transcriber
    spool: Spool
    space: FreeSpace

    def __post_init__(self) -> None:
        upload_max_bytes = self.settings.upload_max_bytes
        self._spooled = BodyBudget(SPOOLED_MAX * upload_max_bytes, upload_max_bytes)

    def routes(self) -> Routes:
        """The handlers by exact path."""
        return {
            "/openai/v1/audio/speech": {"POST": self.speak},
            "/openai/v1/audio/voices": {"GET": self.voices},
            "/openai/v1/audio/transcriptions": {"POST": partial(self.transcribe, translate=False)},
            "/openai/v1/audio/translations": {"POST": partial(self.transcribe, translate=True)},
        }

    async def speak(self, request: Request) -> ResponseStream:
        caller, body = await self.key_auth.caller_and_body(request, Scope.TTS)
        stream = request.stream()
        response = SoundResponse(stream, partial(headers_with_channel, caller.details))
        await self.streamed.speak(caller, body, response, request.disconnected)
        return stream

    async def voices(self, request: Request) -> Response:
        public, cloned = await self.v1.usable_voices(request)
        usable = named([*public, *cloned], self.v1.config.settings.openai_voices)
        return Response(to_json(AudioVoices(usable)))

    async def transcribe(self, request: Request, *, translate: bool) -> Response:
        """Transcribes a recording, or translates it to English."""
        caller = await self.key_auth.verified_caller(request, Scope.CHAT)
        account_id, file_max_bytes = caller.details.account_id, self.settings.upload_max_bytes
        size_bytes = min(request.declared_bytes or file_max_bytes, file_max_bytes)
        form = Form(self.spool, self.transcriber.disk, file_max_bytes)
        try:
            if self.space.low:
                raise DiskFull(NO_SPACE)
            self._spooled.take(account_id, size_bytes)
        except MynaError as refusal:  # the body is not read
            return structs.replace(envelope(refusal, request.path), close=True)
        try:
            async with form:
                try:
                    await form.read(request)
                except MynaError as refusal:  # the rest of the body is not read
                    return structs.replace(envelope(refusal, request.path), close=True)
                asked = transcripts.read(form.fields, form.file, translate=translate)
                caller = self.key_auth.with_idempotency_key(request, caller, form.fingerprint)
                answer = await self.transcriber.answer(caller, asked, request.limits.budget, request)
                headers = headers_with_channel(caller.details)
                return Response(answer, headers=headers, media_type=asked.media_type)
        finally:
            self._spooled.release(account_id, size_bytes)
