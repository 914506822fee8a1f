"""Use case: text to speech. Chooses a voice, charges, speaks on a channel or a node, keeps or refunds."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from msgspec import Struct

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.billing.ledger import Call, ChargeOrder, Ledger
from myna.channels.channels import Channels, SpeechChannel
from myna.channels.circuits import ChannelFull
from myna.channels.routes import SPEECH_ROUTE
from myna.config import ConfigCache
from myna.engines.interface import (
    CallerDisconnected,
    Client,
    EngineBusy,
    EngineFailed,
    EngineTimedOut,
    NoConnection,
    NothingSpoken,
    ServerBusy,
    ServerUnusable,
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
    StreamFailed,
    UpstreamFailed,
)
from myna.farm.tasks import Tasks
from myna.lib.telemetry import metrics, traces
from myna.settings import Settings
from myna.speech.delivery import Delivery
from myna.speech.plan import CheckedSpeech, Planner, SpeechPlan, read_speed
from myna.store.batch import AUDIO_PLACEHOLDER, TASK_PLACEHOLDER, Audio, Replayed, TaskStatus
from myna.store.files.named_files import AudioStore
from myna.store.queries.tasks import TaskRow
from myna.wire.body import decode, ignored, to_json_text
from myna.wire.failures import (
    BUSY,
    FAILED,
    FULL,
    MEANINGS,
    NO_ERROR,
    REFUSED,
    SLOW,
    Meaning,
    error_of,
)
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
UNFIT = (NothingSpoken, SoundTooLong, UnsupportedUtterance)
"""Failures that the text causes on any channel."""
_MEANINGS = ((UtteranceRefused, REFUSED), (ServerBusy, BUSY), (NoConnection, FULL), (EngineTimedOut, SLOW))
SENTENCES = {FULL.name: ALL_FULL, FAILED.name: ALL_FAILED}
STATUS_TEXTS = {
    "zh": ("排队中", "处理中", "已完成", "失败"),
    "en": ("queued", "processing", "completed", "failed"),
}
FAILED_TASK = {
    "zh": "{failed}：{why}，已退还所扣点数",
    "en": "{failed}: {why}; the units were refunded",
}
"""A task fails in the transaction that refunds its call, so every failed task was refunded."""
WHY = {
    "no compute node finished it": ("没有计算节点完成合成", "no compute node finished it"),
    "not done in time": ("未能按时完成", "it was not done in time"),
    "left open": ("服务中断", "the service was interrupted"),
    "the voice was deleted": ("音色已删除", "the voice was deleted"),
    "the caller stopped waiting": ("请求已取消", "the request was cancelled"),
    "the caller had gone": ("请求已取消", "the request was cancelled"),  # stored by earlier versions
    "CancelledError": ("请求已取消", "the request was cancelled"),
    "UpstreamFailed": ("语音渠道失败", "the speech channels failed"),
    "RequestRefused": ("语音渠道失败", "the speech channels failed"),
}
"""Chinese and English text by stored reason, which is for the operator: it may be a message of a node or the
name of an exception."""
OTHERWISE = ("无法合成", "the speech could not be made")
_PLACEHOLDER_IDS = 2**52
"""Above every task id."""


class SpokenSound(Struct, frozen=True):
    """The sound of a call: the id of its task, and the name of its audio. `by_node`: a compute node speaks
    it. `broken`: its engine broke off, and the sound so far was kept."""

    task_id: int
    audio: str
    by_node: bool = False
    broken: bool = False


class SpokenPlan(Struct, frozen=True, dict=True):
    """A request for speech, what it costs on its route, and what makes its response."""

    speech: SpeechPlan
    answer: Callable[[SpokenSound], str]
    units: int
    route: str = SPEECH_ROUTE

    @cached_property
    def draft(self) -> str:
        """See `draft`. Cached, so that the stored response and the sent response are the same."""
        return draft(self.answer)

    @property
    def order(self) -> ChargeOrder:
        """What to charge."""
        return ChargeOrder(
            pays=Scope.TTS,
            units=self.units,
            seconds=self.speech.seconds,
            task=self.speech.task,
            draft=self.draft if self.speech.by_node else None,
            route=self.route,
        )

    def filled(self, task_id: int, audio: str = "") -> str:
        """The response of the draft."""
        return self.draft.replace(TASK_PLACEHOLDER, str(task_id)).replace(AUDIO_PLACEHOLDER, audio)


def draft(answer: Callable[[SpokenSound], str]) -> str:
    """The response with placeholders for the id of the task and the name of its audio. It is stored with the
    charge; the transaction that completes the task fills it in and stores the response for retries of the
    request. A placeholder is not valid in JSON, so random values are encoded first and then replaced."""
    task_id, name = _PLACEHOLDER_IDS + secrets.randbelow(_PLACEHOLDER_IDS), secrets.token_hex(32)
    text = answer(SpokenSound(task_id, name, by_node=True))
    return text.replace(str(task_id), TASK_PLACEHOLDER).replace(name, AUDIO_PLACEHOLDER)


@dataclass(frozen=True, slots=True)
class _Work:
    """A text that channels speak for a call. Its sound goes to the client of the `delivery`, if there is one,
    before the call is kept."""

    call: Call
    plan: SpeechPlan
    answer: Callable[[SpokenSound], str]
    client: Client
    delivery: Delivery | None


@dataclass(eq=False)
class Synthesizer:
    """Answers speech requests for one process."""

    settings: Settings
    ledger: Ledger
    config: ConfigCache
    channels: Channels
    tasks: Tasks
    planner: Planner
    audio: AudioStore

    async def speak(self, caller: UnverifiedCaller, body: bytes, disconnected: Disconnected) -> str:
        """Returns the JSON of a SpeechDone or a SpeechOrdered. Raises MynaError."""
        with Slot() as slot:
            outcome = await self.ledger.charge_plan(caller, lambda: self._plan(caller, body, slot))
            if isinstance(outcome, Replayed):
                return outcome.answer
            charged, planned = outcome
            async with charged as call:
                spoken = await self.deliver(call, planned, disconnected)
        return planned.filled(call.task_id) if spoken is None else spoken

    async def _plan(self, caller: UnverifiedCaller, body: bytes, slot: Slot) -> SpokenPlan:
        async with self.planner.requiring_channel():
            fields, request = decode(body, SpeechRequest)
            caller.details.ignored = ignored(fields, SpeechRequest)
            settings = self.config.settings
            checked = CheckedSpeech(
                text=request.text,
                voice_id=request.voice_id,
                speed=read_speed(request.speed),
                channel_s=self.settings.call_deadline_s,
                node_s=float(settings.task_deadline_s),
            )
            plan = await self.planner.plan(caller, checked, slot)
        chars, tip, units = len(request.text), TIPS[settings.language], settings.tts_units

        def answer(sound: SpokenSound) -> str:
            if sound.by_node:
                return to_json_text(SpeechOrdered(ok=1, mode="async", id=sound.task_id, tip=tip, cost=units))
            url = self.url(sound.audio)
            return to_json_text(SpeechDone(ok=1, mode="sync", audio_url=url, chars=chars, cost=units))

        return SpokenPlan(plan, answer, units)

    async def deliver(
        self,
        call: Call,
        planned: SpokenPlan,
        disconnected: Disconnected,
        delivery: Delivery | None = None,
    ) -> str | None:
        """Speaks, keeps the call with the audio, and returns the response. Returns None if a node will speak:
        the call then ends with its task. A text that waits when the client disconnects is not spoken.
        Releases the slot of the plan."""
        plan = planned.speech
        if not plan.by_node:
            failures: list[EngineFailed] = []
            with plan.slot:  # released before the refund: a client that sees it may send another text
                plan = await self.planner.with_readings(plan, call.account_id)
                client = Client(
                    queue_key=call.account_id,
                    sound_s=plan.sound_s,
                    disconnected=disconnected,
                    unspoken=partial(metrics.not_spoken, call.details),
                    relay=delivery.send if delivery else None,
                )
                work = _Work(call, plan, planned.answer, client, delivery)
                for channel in plan.choice.channels:
                    if channel.full:  # it refused the text, or has no slot for it
                        continue
                    try:
                        return await self._speak_on(channel, work)
                    except CallerDisconnected:
                        raise ClientDisconnected from None
                    except EngineFailed as failure:
                        failures.append(failure.without_frames())
                    if delivery is not None and delivery.begun:
                        raise StreamFailed(BROKEN_OFF, kept=False)
                    if (
                        isinstance(failures[-1], EngineTimedOut)
                        and call.seconds_left < self.settings.fair_try_s
                    ):
                        break  # the next one would have less time for the same work
            if not plan.choice.nodes or isinstance(error_for(failures), InvalidRequest):
                raise error_for(failures)
            stored = planned.draft if call.repeatable else None
            try:
                queued = await self.tasks.queue_for_nodes(
                    call.account_id, call.id, plan.request.node_s, stored
                )
            except DatabaseUnavailable:  # in doubt: the refund finds out whether a node has kept the call
                raise error_for(failures) from None
            if not queued:
                raise CallRefunded
        call.hand_over()
        call.details.asks(NODES)
        self.tasks.notify_nodes()
        self.planner.queued(call.account_id, plan)
        return None

    async def ended(self, call: Call, plan: SpeechPlan) -> str:
        """Waits for the task of this call and returns the name of its audio. Raises UpstreamFailed if the
        task failed, CommitInDoubt if its end is unknown: the task continues without this process."""
        try:
            task = await self.tasks.wait_for_end(call.task_id, plan.request.node_s)
        except (asyncio.CancelledError, Exception) as error:
            raise CommitInDoubt from error
        if task is None:
            raise CommitInDoubt
        if task.status != TaskStatus.COMPLETED:
            raise UpstreamFailed(NOT_SPOKEN)
        return task.audio

    def url(self, name: str) -> str:
        """The absolute URL of a stored audio file; empty for an empty name."""
        return f"{self.settings.base_url}/uploads/{name}" if name else ""

    async def _speak_on(self, channel: SpeechChannel, work: _Work) -> str:
        """Speaks on one channel, keeps the call, and returns the response. Raises EngineFailed."""
        call, delivery = work.call, work.delivery
        name, path = self.audio.new()
        seconds = call.seconds_left
        if channel.engine.admission is not None and delivery is None:
            # A process that hangs looks like one with a long text; the sound of a streamed one goes on.
            seconds = min(seconds, self.settings.upstream_idle_s)
        spoken = await self._try(channel, work, path, seconds)
        broken = delivery is not None and delivery.failure is not None
        answer = work.answer(SpokenSound(call.task_id, name, broken=broken))
        try:
            if delivery is not None and not delivery.begun:
                await delivery.send_file(path)
            await self.audio.keep(name)
            audio = Audio(name, spoken.size_bytes, spoken.sha256)
            await call.keep(answer, audio=audio, reason=StreamFailed.__name__ if broken else "")
        except CommitInDoubt:  # if the call is kept, its audio must stay
            raise
        except BaseException:
            await self.audio.discard(name)
            raise
        return answer

    async def _try(self, channel: SpeechChannel, work: _Work, path: Path, seconds: float) -> SpeechResult:
        """Raises EngineFailed. Failures that the request causes don't count against the channel's circuit."""
        call, plan = work.call, work.plan
        call.details.asks(channel.name)
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
                    spoken = await channel.engine.speak(utterance, path, seconds, work.client)
        except ChannelFull:
            failure = NoConnection("The channel has as many requests open as it may have.")
            self._count(channel, work, failure, seconds)
            raise failure from None
        except (CallerDisconnected, *UNFIT, UtteranceRefused):
            raise
        except EngineFailed as failure:
            self._count(channel, work, failure, seconds)
            raise
        if work.delivery is not None and work.delivery.failure is not None:
            self._count(channel, work, work.delivery.failure, seconds)
        else:
            self.channels.circuits.succeeded(channel.name)
        return spoken

    def _count(self, channel: SpeechChannel, work: _Work, failure: EngineFailed, seconds: float) -> None:
        """Counts a failure of the channel. A timeout doesn't count against it if it had too little time, or
        less time than the text may sound, so that it had to be faster than speech."""
        had_s = min(seconds, self.settings.upstream_idle_s)
        too_little = had_s < self.settings.fair_try_s or had_s < work.plan.sound_s
        if not isinstance(failure, EngineBusy) and not (isinstance(failure, EngineTimedOut) and too_little):
            self.channels.circuits.failed(channel.name, str(failure), work.call.account_id)
        metrics.UPSTREAM_FAILURES.labels(channel.name, type(failure).__name__).inc()
        log.warning("speech channel %r failed: %s", channel.name, failure)


def error_for(failures: Sequence[EngineFailed]) -> MynaError:
    """The error if no channel spoke: InvalidRequest if every failure is about the text; else that of the
    most informative failure."""
    unfit = [failure for failure in failures if isinstance(failure, UNFIT)]
    if unfit and len(unfit) == len(failures):
        too_long = any(isinstance(failure, SoundTooLong) for failure in unfit)
        return InvalidRequest(TOO_LONG if too_long else NOTHING_SPOKEN, field="text")
    meaning = min(map(_meaning, failures), key=MEANINGS.index, default=FAILED)
    waits = [failure.retry_after_s for failure in failures if isinstance(failure, ServerBusy)]
    refused = next((failure for failure in failures if isinstance(failure, UtteranceRefused)), None)
    public_error = refused.server_error if refused else NO_ERROR
    return error_of(meaning, public_error=public_error, waits=waits, sentence=SENTENCES.get(meaning.name, ""))


def _meaning(failure: EngineFailed) -> Meaning:
    if isinstance(failure, ServerUnusable):
        return failure.meaning
    return next((meaning for kind, meaning in _MEANINGS if isinstance(failure, kind)), FAILED)


def status_text(row: TaskRow, language: str) -> str:
    """The status of a speech task for users. `language` is `zh` or `en`. The text of a failed task never
    contains the stored reason."""
    text = STATUS_TEXTS[language][row.status]
    if row.status == TaskStatus.FAILED:
        chinese, english = WHY.get(row.reason, OTHERWISE)
        return FAILED_TASK[language].format(failed=text, why=chinese if language == "zh" else english)
    if row.status == TaskStatus.PROCESSING and row.progress:
        return f"{text} {row.progress}%"
    return text
