"""Use case: a transcription or a translation. Route, charge, channel or Whisper, keep or refund."""

import asyncio
import secrets
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack
from typing import Any, Final

import msgspec
from msgspec import Struct

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.billing.ledger import Call, ChargeOrder, Ledger
from myna.channels import routes
from myna.channels.channels import PARROT, Channel, Channels
from myna.channels.routes import Route, RouteKind
from myna.config import ConfigCache
from myna.errors import ClientDisconnected
from myna.gateway.chat.failover import FailedAttempt, answer_of, first_answer
from myna.gateway.transcription.embedded import EmbeddedWhisper
from myna.gateway.transcription.request import TranscriptFormat, TranscriptionRequest, encoded, events
from myna.http.client import ClientResponse, HttpClient
from myna.http.request import BodyBudget
from myna.lib.files import DiskExecutor
from myna.settings import Settings
from myna.speech.synthesize import Disconnected
from myna.store.batch import Replayed

_JSON: Final = (TranscriptFormat.JSON, TranscriptFormat.VERBOSE_JSON)
_MARKUP: Final = ("text/html", "application/xhtml", "application/xml")


class _Text(msgspec.Struct):
    text: str


_text = msgspec.json.Decoder(_Text)


async def ask(
    http_client: HttpClient,
    channel: Channel,
    request: TranscriptionRequest,
    model: str,
    recording: bytes,
    *,
    model_is_callers: bool,
    deadline_s: float,
    answer_max_bytes: int,
) -> bytes:
    """The body of the channel's answer, in the request's format. Raises FailedAttempt."""
    media_type, body = form_of(request, model, recording)
    answer = await answer_of(
        http_client,
        channel,
        "/audio/translations" if request.translate else "/audio/transcriptions",
        body,
        headers=channel.headers("*/*") | {"content-type": media_type},
        deadline_s=deadline_s,
        answer_max_bytes=answer_max_bytes,
        model_is_callers=model_is_callers,
    )
    return _checked(answer, request.format)


def form_of(request: TranscriptionRequest, model: str, recording: bytes) -> tuple[str, bytes]:
    """The content type and the body of the form for a channel: the caller's fields, with this model. A
    language is a code, as OpenAI documents it, and the answer is asked for as a whole."""
    boundary = secrets.token_hex(16)
    ours = {"model": model, "language": request.language or "", "stream": ""}
    fields = [*ours.items(), *((name, value) for name, value in request.fields if name not in ours)]
    parts = [
        b"--%b\r\nContent-Disposition: form-data; name=%b\r\n\r\n%b\r\n"
        % (boundary.encode(), _quoted(name), value.encode())
        for name, value in fields
        if value or name not in ours
    ]
    upload = request.upload
    head = b"--%b\r\nContent-Disposition: form-data; name=" % boundary.encode()
    head += b'"file"; filename=%b\r\n' % _quoted(upload.name or "recording")
    head += b"Content-Type: %b\r\n\r\n" % _media_type(upload.media_type)
    body = b"".join([*parts, head, recording, b"\r\n--%b--\r\n" % boundary.encode()])
    return f"multipart/form-data; boundary={boundary}", body


def _quoted(name: str) -> bytes:
    """A name in a header, as browsers encode it (HTML, 4.10.22.8): quotes and line ends become escapes."""
    escaped = "".join(_escapes(name))
    return b'"%b"' % escaped.encode(errors="replace")


def _escapes(name: str) -> Iterator[str]:
    for character in name:
        yield {'"': "%22", "\r": "%0D", "\n": "%0A"}.get(character, character)


def _media_type(given: str) -> bytes:
    plain = given.isascii() and given.isprintable() and bool(given)
    return given.encode() if plain else b"application/octet-stream"


def _checked(answer: ClientResponse, kind: TranscriptFormat) -> bytes:
    """The body, if it is a transcript in this format. Raises FailedAttempt."""
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type.startswith(_MARKUP) or not answer.body:
        raise FailedAttempt("NoTranscript", "the answer is no transcript")
    try:
        if kind in _JSON:
            _text.decode(answer.body)
        else:
            answer.body.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FailedAttempt("NoTranscript", "the answer is no transcript", f": {error}") from error
    return answer.body


EMBEDDED: Final = "whisper"
"""The channel field of calls that the embedded model answers."""


class TranscriptionPlan(Struct, frozen=True):
    """The route, and the channels to try in order; none for the embedded model."""

    route: Route
    channels: list[Channel]
    embedded: bool
    seconds: float

    @property
    def order(self) -> ChargeOrder:
        return ChargeOrder(
            pays=Scope.CHAT, units=self.route.units, seconds=self.seconds, route=self.route.name
        )


class Transcriber:
    """Answers requests for transcripts for one process."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        config: ConfigCache,
        channels: Channels,
        http_client: HttpClient,
        whisper: EmbeddedWhisper,
        disk: DiskExecutor,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._config = config
        self._channels = channels
        self._http_client = http_client
        self._whisper = whisper
        self._disk = disk

    async def answer(
        self,
        caller: UnverifiedCaller,
        request: TranscriptionRequest,
        memory: BodyBudget,
        disconnected: Disconnected,
    ) -> bytes:
        """The transcript in the request's format. A recording for a channel is read into memory, and counts
        against `memory` until the answer. Raises MynaError."""
        with ExitStack() as taken:

            async def planned() -> TranscriptionPlan:
                plan = await self._plan(request.model)
                taken.close()  # by an earlier plan
                if not plan.embedded:
                    size_bytes = request.upload.size_bytes
                    memory.take(
                        size_bytes, caller.details.account_id
                    )  # before the charge, since it may refuse
                    taken.callback(memory.release, size_bytes, caller.details.account_id)
                return plan

            outcome = await self._ledger.charge_plan(caller, planned)
            if isinstance(outcome, Replayed):
                return outcome.answer.encode()
            charged, plan = outcome
            async with charged as call:
                if plan.embedded:
                    answer = await self._hear(call, request, disconnected)
                else:
                    answer = await self._unless(disconnected, call, self._relay(call, request, plan))
                if request.stream:
                    answer = events(answer)
                await call.keep(answer.decode())
            return answer

    async def _unless(
        self, disconnected: Disconnected, call: Call, work: Coroutine[Any, Any, bytes]
    ) -> bytes:
        """The result of the work, which ends when the client disconnects, unless the call has an idempotency
        key. Raises ClientDisconnected."""
        if call.repeatable:
            return await work
        working, leaving = asyncio.create_task(work), asyncio.ensure_future(disconnected())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientDisconnected
            return await working
        finally:
            for task in (working, leaving):
                task.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)
            del working  # else its exception, whose traceback has this frame, is in a reference cycle

    async def _plan(self, model: str) -> TranscriptionPlan:
        config, settings = self._config.current, self._config.settings
        route = routes.find(config, settings, model, RouteKind.TRANSCRIPTION)
        if route.name == routes.TRANSCRIPTION_ROUTE:
            await self._whisper.require(model)
            return TranscriptionPlan(route, [], True, self._settings.call_deadline_s)
        found = [one for one in self._channels.of_route(config, route) if one.url != PARROT]
        return TranscriptionPlan(route, found, False, self._settings.call_deadline_s)

    async def _hear(self, call: Call, request: TranscriptionRequest, disconnected: Disconnected) -> bytes:
        call.channel = EMBEDDED
        transcript = await self._whisper.transcribe(request, call.account_id, call.seconds_left, disconnected)
        return encoded(transcript, request.format, translated=request.translate, words=request.words)

    async def _relay(self, call: Call, request: TranscriptionRequest, plan: TranscriptionPlan) -> bytes:
        """The answer of the first channel that gives one."""
        recording = await self._disk.run(request.upload.path.read_bytes)

        async def attempt(channel: Channel, left_s: float) -> bytes:
            return await ask(
                self._http_client,
                channel,
                request,
                routes.model_for(plan.route, channel.model, request.model),
                recording,
                model_is_callers=routes.model_is_callers(plan.route),
                deadline_s=left_s,
                answer_max_bytes=self._settings.answer_max_bytes,
            )

        return await first_answer(
            self._channels,
            plan.channels,
            attempt,
            asker=call,
            seconds=call.seconds_left,
            fair_try_s=self._settings.fair_try_s,
            kind=plan.route.kind,
        )
