"""Use case: a transcription or a translation. Route, charge, channel or the embedded Whisper, keep or refund.

The embedded Whisper is offered where its model and its library are installed, and started at its first use.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.billing.ledger import Call, ChargeOrder, Ledger
from myna.channels import routes
from myna.channels.channels import PARROT, Channel
from myna.channels.routes import Route, RouteKind
from myna.config import ConfigCache
from myna.engines.interface import EngineBusy, EngineFailed, LanguageUnknown, SampleRefused
from myna.engines.media.job import Transcript, TranscriptionJob
from myna.engines.media.media import Whisper, whisper_is_installed
from myna.engines.models.published import WHISPER, installed
from myna.engines.pool.child_main import path_bytes
from myna.errors import InvalidRequest, ModelNotFound, Overloaded, UpstreamFailed
from myna.gateway.failover import ChannelClient, FailedAttempt, from_error
from myna.gateway.relay.relay import Client, unless_left
from myna.gateway.transcripts import TranscriptFormat, TranscriptionRequest, encoded, events
from myna.http.client import ClientResponse
from myna.http.request import BodyBudget
from myna.lib.files import DiskExecutor
from myna.store.batch import Replayed
from myna.wire.failures import reports_error
from myna.wire.lenient import UNREADABLE

log = logging.getLogger(__name__)

EMBEDDED: Final = "whisper"
"""The channel field of calls that the embedded model answers."""
NOT_TRANSCRIBED: Final = "The recording could not be transcribed; the units were refunded, try again later."
FULL: Final = "As many recordings wait to be transcribed as may; nothing was charged, try again later."
FULL_BY_NOW: Final = (
    "As many recordings wait to be transcribed as may; the units were refunded, try again later."
)
NO_LIBRARY: Final = "Myna's extra 'hear' is not installed: install it and restart the service"
NO_MODEL: Final = f"its model is missing: run 'myna models get {WHISPER.name}'"
NOT_OFFERED: Final = "model: {model} is not offered on this site; ask its operator, or use another model."
THREADS_MAX: Final = 4
_ESCAPES: Final = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
_JSON: Final = (TranscriptFormat.JSON, TranscriptFormat.VERBOSE_JSON)
_MARKUP: Final = ("text/html", "application/xhtml", "application/xml")


class _Text(msgspec.Struct):
    text: str


_text = msgspec.json.Decoder(_Text)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


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
    return b'"%b"' % name.translate(_ESCAPES).encode(errors="replace")


def _media_type(given: str) -> bytes:
    plain = given.isascii() and given.isprintable() and bool(given)
    return given.encode() if plain else b"application/octet-stream"


def _validated(answer: ClientResponse, kind: TranscriptFormat, channel: Channel) -> bytes:
    """The body, if it is a transcript in this format. Raises FailedAttempt."""
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type.startswith(_MARKUP) or not answer.body:
        raise FailedAttempt("NoTranscript", "the answer is no transcript")
    if _is_error(answer.body):
        raise from_error("NoTranscript", "the answer reports an error", answer.body, channel)
    try:
        if kind in _JSON:
            _text.decode(answer.body)
        else:
            answer.body.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FailedAttempt("NoTranscript", "the answer is no transcript", f": {error}") from error
    return answer.body


def _is_error(body: bytes) -> bool:
    """Whether an answer with the status 200 is an error in JSON, in place of a transcript in any format."""
    try:
        return reports_error(_members.decode(body))
    except UNREADABLE:
        return False


class EmbeddedWhisper:
    """The model of this process, in the data folder. It reads recordings in `recordings`."""

    def __init__(self, data_folder: Path, recordings: Path, *, cores: int, deadline_s: float) -> None:
        self._data_folder = data_folder
        self._recordings = recordings
        self._threads = min(cores, THREADS_MAX)
        self._deadline_s = deadline_s
        self._whisper: Whisper | None = None
        self._logged = ""

    async def require(self, model: str) -> None:
        """Raises ModelNotFound, with a message for the caller, if it can't transcribe; the log says once how
        the operator can offer it. Raises Overloaded if the queue is full."""
        if missing := await self.missing():
            if missing != self._logged:
                log.warning("a caller asked for %s, which is not offered: %s", model, missing)
            self._logged = missing
            raise ModelNotFound(model, NOT_OFFERED.format(model=model))
        if self._whisper is not None and self._whisper.full():
            raise Overloaded(FULL)

    async def missing(self) -> str:
        """The missing part, as the end of a sentence for the operator; empty if it can transcribe."""
        if not whisper_is_installed():
            return NO_LIBRARY
        if self._whisper is None:
            folder = await asyncio.to_thread(installed, self._data_folder, WHISPER.name)
            if folder is None:
                return NO_MODEL
            self._whisper = Whisper(
                folder, self._recordings, threads=self._threads, job_deadline_s=self._deadline_s
            )
        return ""

    async def transcribe(
        self,
        request: TranscriptionRequest,
        account_id: int,
        deadline_s: float,
        disconnected: Callable[[], Awaitable[None]],
    ) -> Transcript:
        """Raises InvalidRequest for a recording that can't be read, UpstreamFailed for other failures."""
        if self._whisper is None:
            raise UpstreamFailed(NOT_TRANSCRIBED)
        job = TranscriptionJob(
            source=path_bytes(request.upload.path),
            translate=request.translate,
            language=request.language,
            prompt=request.prompt or None,
            temperature=request.temperature,
            words=request.words,
            script=request.script,
        )
        try:
            return await self._whisper.transcribe(job, deadline_s, account_id, disconnected)
        except (LanguageUnknown, SampleRefused) as refusal:
            field = "language" if isinstance(refusal, LanguageUnknown) else "file"
            raise InvalidRequest(f"{refusal} The units were refunded.", field=field) from refusal
        except EngineBusy:
            raise Overloaded(FULL_BY_NOW) from None
        except EngineFailed as failure:
            raise UpstreamFailed(NOT_TRANSCRIBED) from failure

    async def close(self) -> None:
        """Ends the child process."""
        if self._whisper is not None:
            await self._whisper.close()


class TranscriptionPlan(Struct, frozen=True):
    """The route, the channels to try in order, none for the embedded model, and what the call costs."""

    route: Route
    channels: list[Channel]
    embedded: bool
    order: ChargeOrder


@dataclass(frozen=True, slots=True, eq=False)
class Transcriber:
    """Answers requests for transcripts for one process."""

    channel_client: ChannelClient
    ledger: Ledger
    config: ConfigCache
    whisper: EmbeddedWhisper
    disk: DiskExecutor

    async def answer(
        self,
        caller: UnverifiedCaller,
        request: TranscriptionRequest,
        memory: BodyBudget,
        client: Client,
    ) -> bytes:
        """The transcript in the request's format. A recording for a channel is read into memory, and counts
        against `memory` until the answer; the request ends when the client disconnects, unless the call has
        an idempotency key. Raises MynaError."""
        with ExitStack() as taken:

            async def planned() -> TranscriptionPlan:
                plan = await self._plan(request.model)
                taken.close()  # by an earlier plan
                if not plan.embedded:
                    size_bytes = request.upload.size_bytes
                    account_id = caller.details.account_id
                    memory.take(account_id, size_bytes)  # before the charge, since it may refuse
                    taken.callback(memory.release, account_id, size_bytes)
                return plan

            outcome = await self.ledger.charge_plan(caller, planned)
            if isinstance(outcome, Replayed):
                return outcome.answer.encode()
            charged, plan = outcome
            async with charged as call:
                if plan.embedded:
                    call.details.asks(EMBEDDED)
                    transcript = await self.whisper.transcribe(
                        request, call.account_id, call.seconds_left, client.disconnected
                    )
                    answer = encoded(
                        transcript, request.format, translated=request.translate, words=request.words
                    )
                else:
                    work = self._relay(call, request, plan)
                    answer = await (work if call.repeatable else unless_left(client.stream(), work))
                if request.stream:
                    answer = events(answer)
                await call.keep(answer.decode())
            return answer

    async def _plan(self, model: str) -> TranscriptionPlan:
        config = self.config.current
        route = routes.find(config, self.config.settings, model, RouteKind.TRANSCRIPTION)
        embedded = route.name == routes.TRANSCRIPTION_ROUTE
        if embedded:
            await self.whisper.require(model)
        found = [] if embedded else self.channel_client.channels.of_route(config, route)
        order = ChargeOrder(
            pays=Scope.CHAT,
            units=route.units,
            seconds=self.channel_client.settings.call_deadline_s,
            route=route.name,
        )
        return TranscriptionPlan(route, [one for one in found if one.url != PARROT], embedded, order)

    async def _relay(self, call: Call, request: TranscriptionRequest, plan: TranscriptionPlan) -> bytes:
        """The answer of the first channel that gives one."""
        recording = await self.disk.run(request.upload.path.read_bytes)

        async def attempt(channel: Channel, left_s: float) -> bytes:
            model = routes.model_for(plan.route, channel.model, request.model)
            media_type, body = form_of(request, model, recording)
            answer = await self.channel_client.answer_of(
                channel,
                "/audio/translations" if request.translate else "/audio/transcriptions",
                body,
                headers=channel.headers("*/*") | {"content-type": media_type},
                deadline_s=left_s,
                model_is_callers=routes.model_is_callers(plan.route),
            )
            return _validated(answer, request.format, channel)

        return await self.channel_client.first_answer(
            plan.channels, attempt, asker=call, kind=plan.route.kind
        )
