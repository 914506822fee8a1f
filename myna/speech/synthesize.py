"""Use case: text to speech. Chooses a voice, charges, speaks on a channel or a node, keeps or refunds."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.billing.ledger import Call, ChargeOrder, Ledger
from myna.channels.channels import Channels, SpeechChannel
from myna.channels.circuits import ChannelFull
from myna.channels.routes import SPEECH_ROUTE
from myna.config import ConfigCache, SiteSettings
from myna.engines.interface import (
    CallerDisconnected,
    Client,
    EngineBusy,
    EngineFailed,
    EngineTimedOut,
    NoConnection,
    NothingSpoken,
    ServerBusy,
    SoundParts,
    SoundTooLong,
    SpeechResult,
    UnsupportedUtterance,
    Utterance,
    UtteranceRefused,
)
from myna.engines.pool.admission import Slot
from myna.errors import (
    CallRefunded,
    ClientDisconnected,
    CommitInDoubt,
    DatabaseUnavailable,
    InvalidRequest,
    MynaError,
    NoSpeechChannel,
    StreamFailed,
    UpstreamFailed,
)
from myna.farm.tasks import Tasks
from myna.lib.telemetry import metrics, traces
from myna.settings import Settings
from myna.speech.draft import draft, filled
from myna.speech.plan import CheckedSpeech, Planner, SpeechPlan, read_speed
from myna.store.batch import Audio, Replayed, TaskStatus
from myna.store.files.named_files import AudioStore
from myna.wire.body import decode, ignored, to_json_text
from myna.wire.failures import BUSY, FAILED, FULL, REFUSED, SLOW, error_of
from myna.wire.v1 import SpeechDone, SpeechOrdered, SpeechRequest

log = logging.getLogger(__name__)
Disconnected = Callable[[], Awaitable[None]]
"""Returns when the client has disconnected."""

NOTHING_SPOKEN = "holds nothing that this voice can speak; the units were refunded."
TOO_LONG = "makes more sound than one text may; the units were refunded, send less text at a time."
BROKEN_OFF = "the speech broke off"
ALL_FULL = (
    "Every speech channel has as many requests open as it may have; the units were refunded, try again."
)
ALL_FAILED = "No speech channel could speak this; the units were refunded, try again later."
NOT_SPOKEN = "No compute node could speak this in time; the units were refunded, try again later."
NODES = "node"
"""The channel field of the access log for calls that compute nodes speak."""
TIPS = {
    "zh": "已排队：请每 2 到 3 秒以此 id 查询 GET /task，直到 status = 2。",
    "en": "Queued: ask GET /task with this id every 2 to 3 seconds until status = 2.",
}
_UNFIT = NothingSpoken | SoundTooLong | UnsupportedUtterance
"""Failures that the text causes on any channel."""
_MEANINGS = ((UtteranceRefused, REFUSED), (ServerBusy, BUSY), (NoConnection, FULL), (EngineTimedOut, SLOW))
"""Of failures; the first tells the caller most."""
SENTENCES = {FULL.name: ALL_FULL, FAILED.name: ALL_FAILED}


class Answers:
    """Makes the response: `spoken` of the absolute URL of audio that a channel made, its task's id, and if
    it broke off; `ordered` of the id and the audio name of a task for a node, see `draft.py`."""

    def __init__(self, spoken: Callable[[str, int, bool], str], ordered: Callable[[int, str], str]) -> None:
        self.spoken = spoken
        self._ordered = ordered

    @cached_property
    def draft(self) -> str:
        """Cached, so that the stored response and the sent response are the same."""
        return draft(self._ordered)


class SpokenPlan(Struct, frozen=True):
    """A request for speech, its responses, and what it costs."""

    speech: SpeechPlan
    answers: Answers
    order: ChargeOrder


class Listener(Protocol):
    """Takes the sound of a text before its call is kept."""

    @property
    def begun(self) -> bool:
        """Whether it has heard sound: no other channel can begin the text again then."""

    @property
    def failure(self) -> EngineFailed | None:
        """Why the engine broke off, if the sound so far is kept."""

    def hear(self, parts: SoundParts) -> SoundParts:
        """The sound of an engine that returns it part by part. Yields what is stored."""

    async def take(self, path: Path) -> None:
        """The finished file, if it has heard no sound that it can send. Raises MynaError."""


class Synthesizer:
    """Answers speech requests for one process."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        config: ConfigCache,
        channels: Channels,
        tasks: Tasks,
        planner: Planner,
        audio: AudioStore,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._config = config
        self._channels = channels
        self._tasks = tasks
        self._planner = planner
        self._audio = audio

    async def speak(self, caller: UnverifiedCaller, body: bytes, disconnected: Disconnected) -> str:
        """Returns the JSON of a SpeechDone or a SpeechOrdered. Raises MynaError."""
        with Slot() as slot:
            outcome = await self._ledger.charge_plan(caller, lambda: self._plan(caller, body, slot))
            if isinstance(outcome, Replayed):
                return outcome.answer
            charged, to_speak = outcome
            async with charged as call:
                spoken = await self.deliver(call, to_speak.speech, to_speak.answers, disconnected)
        return filled(to_speak.answers.draft, call.task_id) if spoken is None else spoken

    async def _plan(self, caller: UnverifiedCaller, body: bytes, slot: Slot) -> SpokenPlan:
        """Raises the 503 of a service without any speech channel before the 400 of a bad body."""
        try:
            fields, request = decode(body, SpeechRequest)
            caller.details.ignored = ignored(fields, SpeechRequest)
            settings = self._config.settings
            checked = CheckedSpeech(
                text=request.text,
                voice_id=request.voice_id,
                speed=read_speed(request.speed),
                channel_s=self._settings.call_deadline_s,
                node_s=float(settings.task_deadline_s),
            )
            plan = await self._planner.plan(caller, checked, slot)
        except (InvalidRequest, NoSpeechChannel):
            await self._planner.require_channel()
            raise
        answers = _answers(checked, settings)
        return SpokenPlan(plan, answers, self.order(plan, answers))

    def order(self, plan: SpeechPlan, answers: Answers, route: str = SPEECH_ROUTE) -> ChargeOrder:
        """What to charge for this plan on a route."""
        return ChargeOrder(
            pays=Scope.TTS,
            units=self._config.settings.tts_units,
            seconds=plan.seconds,
            task=plan.task,
            draft=answers.draft if plan.by_node else None,
            route=route,
        )

    async def deliver(
        self,
        call: Call,
        plan: SpeechPlan,
        answers: Answers,
        disconnected: Disconnected,
        listener: Listener | None = None,
    ) -> str | None:
        """Speaks, keeps the call with the audio, and returns the response. Returns None if a node will speak:
        the call then ends with its task. A text that waits when the client disconnects is not spoken. The
        sound of a channel passes by the `listener`. Releases the slot of the plan."""
        if not plan.by_node:
            failures: list[EngineFailed] = []
            with plan.slot:  # released before the refund: a client that sees it may send another text
                plan = await self._planner.with_readings(plan, call.account_id)
                for channel in plan.choice.channels:
                    if channel.full:  # it refused the text, or has no slot for it
                        continue
                    client = Client(
                        queue_key=call.account_id,
                        sound_s=plan.sound_s,
                        disconnected=disconnected,
                        unspoken=partial(metrics.not_spoken, call.details),
                        hear=self._ear_of(listener) if listener else None,
                    )
                    spoken = await self._speak_on(channel, call, plan, answers, failures, client, listener)
                    if spoken is not None:
                        return spoken
                    if listener is not None and listener.begun:
                        raise StreamFailed(BROKEN_OFF, kept=False)
                    if (
                        isinstance(failures[-1], EngineTimedOut)
                        and call.seconds_left < self._settings.fair_try_s
                    ):
                        break  # the next one would have less time for the same work
            if not plan.choice.nodes or isinstance(error_for(failures), InvalidRequest):
                raise error_for(failures)
            stored = answers.draft if call.repeatable else None
            try:
                queued = await self._tasks.queue_for_nodes(
                    call.account_id, call.id, plan.request.node_s, stored
                )
            except DatabaseUnavailable:  # in doubt: the refund finds out whether a node has kept the call
                raise error_for(failures) from None
            if not queued:
                raise CallRefunded
        call.hand_over()
        call.channel = NODES
        self._tasks.notify_nodes()
        self._planner.queued(call.account_id, plan)
        return None

    async def ended(self, call: Call, plan: SpeechPlan) -> str:
        """Waits for the task of this call and returns the name of its audio. Raises UpstreamFailed if the
        task failed, CommitInDoubt if its end is unknown: the task continues without this process."""
        try:
            task = await self._tasks.wait_for_end(call.task_id, plan.request.node_s)
        except (asyncio.CancelledError, Exception) as error:
            raise CommitInDoubt from error
        if task is None:
            raise CommitInDoubt
        if task.status != TaskStatus.COMPLETED:
            raise UpstreamFailed(NOT_SPOKEN)
        return task.audio

    async def _speak_on(
        self,
        channel: SpeechChannel,
        call: Call,
        plan: SpeechPlan,
        answers: Answers,
        failures: list[EngineFailed],
        client: Client,
        listener: Listener | None,
    ) -> str | None:
        """Speaks on one channel and keeps the call. Returns None after adding to `failures` if it fails."""
        name, path = self._audio.new()
        try:
            seconds = call.seconds_left
            if channel.engine.admission is not None and listener is None:
                # A process that hangs looks like one with a long text; a streamed one is heard to go on.
                seconds = min(seconds, self._settings.upstream_idle_s)
            spoken = await self._try(channel, call, plan, path, seconds, client, listener)
        except CallerDisconnected:
            raise ClientDisconnected from None
        except EngineFailed as failure:
            failures.append(failure.with_traceback(None))  # whose frames have the list: a reference cycle
            return None
        broken = listener is not None and listener.failure is not None
        text = answers.spoken(self.url(name), call.task_id, broken)
        audio = Audio(name, spoken.size_bytes, spoken.sha256)
        try:
            if listener is not None and not listener.begun:
                await listener.take(path)
            await self._audio.keep(name)
            await call.keep(text, audio=audio, reason=StreamFailed.__name__ if broken else "")
        except CommitInDoubt:  # if the call is kept, its audio must stay
            raise
        except BaseException:
            await self._audio.discard(name)
            raise
        return text

    def _ear_of(self, listener: Listener) -> Callable[[SoundParts], SoundParts]:
        idle_s = self._settings.upstream_idle_s
        return lambda parts: listener.hear(unless_silent(parts, idle_s))

    def url(self, name: str) -> str:
        """The absolute URL of a stored audio file; empty for an empty name."""
        return f"{self._settings.base_url}/uploads/{name}" if name else ""

    async def _try(
        self,
        channel: SpeechChannel,
        call: Call,
        plan: SpeechPlan,
        path: Path,
        seconds: float,
        client: Client,
        listener: Listener | None,
    ) -> SpeechResult:
        """Raises EngineFailed. Failures that the request causes don't count against the channel's circuit."""
        call.channel = channel.name
        if seconds <= 0:
            raise EngineTimedOut("No time is left for another channel.")
        utterance = Utterance(
            text=plan.text,
            voice_id=channel.engine_voice_id(plan.voice_id),
            speed=plan.request.speed,
            language=plan.request.language,
            sound_max_s=float(plan.sound_max_s),
        )
        try:
            with (
                traces.attempt("speech", channel.name, "", "", call.details) if traces.tracer else traces.OFF
            ):
                async with channel.place(call.account_id):
                    spoken = await channel.engine.speak(utterance, path, seconds, client)
        except ChannelFull:
            failure = NoConnection("The channel has as many requests open as it may have.")
            self._count(channel, call.account_id, failure, plan, seconds)
            raise failure from None
        except (CallerDisconnected, NothingSpoken, SoundTooLong, UnsupportedUtterance, UtteranceRefused):
            raise
        except EngineFailed as failure:
            self._count(channel, call.account_id, failure, plan, seconds)
            raise
        if listener is not None and listener.failure is not None:
            self._count(channel, call.account_id, listener.failure, plan, seconds)
        else:
            self._channels.circuits.succeeded(channel.name)
        return spoken

    def _count(
        self,
        channel: SpeechChannel,
        account_id: int,
        failure: EngineFailed,
        plan: SpeechPlan,
        seconds: float,
    ) -> None:
        """Counts a failure of the channel."""
        if not isinstance(failure, EngineBusy) and not self._explained(failure, plan, seconds):
            self._channels.circuits.failed(channel.name, str(failure), account_id)
        metrics.UPSTREAM_FAILURES.labels(channel.name, type(failure).__name__).inc()
        log.warning("speech channel %r failed: %s", channel.name, failure)

    def _explained(self, failure: EngineFailed, plan: SpeechPlan, seconds: float) -> bool:
        """Whether a timeout doesn't count against the channel: it had too little time, or less time than the
        text may sound, so that it had to be faster than speech."""
        had_s = min(seconds, self._settings.upstream_idle_s)
        too_little = had_s < self._settings.fair_try_s or had_s < plan.sound_s
        return isinstance(failure, EngineTimedOut) and too_little


async def unless_silent(parts: SoundParts, idle_s: float) -> SoundParts:
    """The parts. Raises EngineTimedOut if the next one takes longer than `idle_s` seconds."""
    async with aclosing(parts):
        while True:
            try:
                async with asyncio.timeout(idle_s):
                    part = await anext(parts)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise EngineTimedOut("The engine sent no sound for too long.") from error
            yield part


def error_for(failures: Sequence[EngineFailed]) -> MynaError:
    """The error if no channel spoke: InvalidRequest if every failure is about the text; else that of the
    failure that tells the caller most, in whatever order they came."""
    unfit = [failure for failure in failures if isinstance(failure, _UNFIT)]
    if unfit and len(unfit) == len(failures):
        too_long = any(isinstance(failure, SoundTooLong) for failure in unfit)
        return InvalidRequest(TOO_LONG if too_long else NOTHING_SPOKEN, field="text")
    meaning = next(
        (meaning for kind, meaning in _MEANINGS if any(isinstance(failure, kind) for failure in failures)),
        FAILED,
    )
    waits = [failure.retry_after_s for failure in failures if isinstance(failure, ServerBusy)]
    return error_of(meaning, waits=waits, sentence=SENTENCES.get(meaning.name, ""))


def _answers(request: CheckedSpeech, settings: SiteSettings) -> Answers:
    """The responses of POST /tts."""
    chars, tip, units = len(request.text), TIPS[settings.language], settings.tts_units
    return Answers(
        spoken=lambda url, *_: to_json_text(
            SpeechDone(ok=1, mode="sync", audio_url=url, chars=chars, cost=units)
        ),
        ordered=lambda task_id, _: to_json_text(
            SpeechOrdered(ok=1, mode="async", id=task_id, tip=tip, cost=units)
        ),
    )
