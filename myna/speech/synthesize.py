"""Use case: text to speech. Voice, charge, a site channel or a compute node that speaks, keep or refund."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from myna import metrics
from myna.channels import Channels, SpeechChannel
from myna.engines.spoken import (
    EngineBusy,
    EngineFailed,
    EngineTimedOut,
    NothingSpoken,
    Spoken,
    UnfitUtterance,
    Utterance,
    UtteranceRefused,
)
from myna.errors import (
    AnswerUnknown,
    CallLost,
    DatabaseAway,
    InvalidRequest,
    MynaError,
    NoSpeechChannel,
    UpstreamFailed,
)
from myna.keys import Scope
from myna.ledger import Call, Caller, Ledger, Order
from myna.settings import Settings
from myna.site import Site, SiteSettings
from myna.speech.draft import draft, filled
from myna.speech.plan import Planner, SpeechPlan, Wish, read_speed
from myna.store.audio import AudioStore
from myna.store.batch import Audio, Replayed, TaskStatus
from myna.tasks import Tasks
from myna.wire.body import decode
from myna.wire.encode import to_json
from myna.wire.v1 import SpeechDone, SpeechOrdered, SpeechRequest

log = logging.getLogger(__name__)
P = TypeVar("P")

NOTHING_SPOKEN = "text: holds nothing that this voice can speak; the units were refunded."
ALL_FAILED = "No speech channel could speak this; the units were refunded, try again later."
NOT_SPOKEN = "No compute node could speak this in time; the units were refunded, try again later."
TIPS = {
    "zh": "已排队：请每 2 到 3 秒以此 id 查询 GET /task，直到 status = 2。",
    "en": "Queued: ask GET /task with this id every 2 to 3 seconds until status = 2.",
}


class Delivered(Struct, frozen=True):
    """A finished job: the audio's absolute address and the task."""

    url: str
    task_id: int


class Answers:
    """What the caller is told: by `spoken` where the site spoke at once; where a node does, by what `ordered`
    makes of the task's id and its audio's name, see `draft.py`."""

    def __init__(self, spoken: Callable[[Delivered], str], ordered: Callable[[int, str], str]) -> None:
        self.spoken, self._ordered = spoken, ordered

    @cached_property
    def draft(self) -> str:
        """Made once: what is stored and what is answered are the same."""
        return draft(self._ordered)


class Synthesizer:
    """Answers speech requests for one process."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        site: Site,
        channels: Channels,
        tasks: Tasks,
        planner: Planner,
        audio: AudioStore,
    ) -> None:
        self._settings, self._ledger, self._site = settings, ledger, site
        self._channels, self._tasks, self._planner, self._audio = channels, tasks, planner, audio

    async def speak(self, caller: Caller, body: bytes) -> str:
        """The JSON of a SpeechDone or a SpeechOrdered. Raises what `errors.py` draws."""
        admitted = await self._ledger.admit(caller, lambda: self._decide(caller, body))
        if isinstance(admitted, Replayed):
            return admitted.answer
        call, (plan, answers) = admitted
        async with call:
            spoken = await self.deliver(caller, call, plan, answers)
        return filled(answers.draft, call.task_id) if spoken is None else spoken

    async def _decide(self, caller: Caller, body: bytes) -> Order[tuple[SpeechPlan, Answers]]:
        """Where nothing at all can speak, that is told before what is wrong with the body."""
        try:
            return await self._wanted(caller, body)
        except (InvalidRequest, NoSpeechChannel):
            await self._planner.need_a_channel()
            raise

    async def _wanted(self, caller: Caller, body: bytes) -> Order[tuple[SpeechPlan, Answers]]:
        _, request = decode(body, SpeechRequest)
        site, settings = self._site.settings, self._settings
        speed = read_speed(request.speed)
        wish = Wish(
            request.text, request.voice_id, speed, settings.call_deadline_s, float(site.task_deadline_s)
        )
        plan = await self._planner.plan(caller, wish)
        answers = _answers(wish, site)
        return self.order(plan, (plan, answers), answers)

    def order(self, plan: SpeechPlan, how: P, answers: Answers) -> Order[P]:
        """The plan's price and its task."""
        units, stored = self._site.settings.tts_units, answers.draft if plan.by_node else None
        return Order(Scope.TTS, units, plan.seconds, how, plan.task, stored)

    async def deliver(self, caller: Caller, call: Call, plan: SpeechPlan, answers: Answers) -> str | None:
        """Speaks and keeps the call with the audio; returns the answer. None where a node will speak: then
        the call ends with its task."""
        if not plan.by_node:
            failures: list[EngineFailed] = []
            for channel in plan.choice.channels:
                spoken = await self._by(channel, caller, call, plan, answers, failures)
                if spoken is not None:
                    return spoken
            failure = verdict(failures)
            if not plan.choice.nodes or not isinstance(failure, UpstreamFailed):
                raise failure
            stored = answers.draft if caller.reservation else None
            try:
                left = await self._tasks.take_over(call.account_id, call.id, plan.wish.node_s, stored)
            except DatabaseAway:  # which would say that nothing was charged
                raise failure from None
            if not left:
                raise CallLost
        call.leave()
        self._tasks.ordered()
        self._planner.queued(call.account_id, plan)
        return None

    async def ended(self, call: Call, plan: SpeechPlan) -> str:
        """The name of the audio that a node spoke for this call. Raises UpstreamFailed where none could in
        time, AnswerUnknown where the process ends first or nobody can say."""
        try:
            task = await self._tasks.ended(call.task_id, plan.wish.node_s)
        except asyncio.CancelledError:
            raise AnswerUnknown from None
        if task is None:
            raise AnswerUnknown
        if task.status != TaskStatus.COMPLETED:
            raise UpstreamFailed(NOT_SPOKEN)
        return task.audio

    async def _by(
        self,
        channel: SpeechChannel,
        caller: Caller,
        call: Call,
        plan: SpeechPlan,
        answers: Answers,
        failures: list[EngineFailed],
    ) -> str | None:
        """The answer, kept with the audio of this channel; None, and why among the failures."""
        utterance = Utterance(plan.wish.text, plan.voice_id, plan.wish.speed)
        name, path = self._audio.new(channel.engine.suffix)
        try:
            seconds = min(call.seconds_left, self._settings.upstream_timeout_s)
            spoken = await self._try(channel, utterance, path, seconds, call.account_id)
        except EngineFailed as failure:
            failures.append(failure)
            return None
        text = answers.spoken(Delivered(self.url(name), call.task_id))
        audio = Audio(name, spoken.size_bytes, spoken.sha256)
        try:
            await call.keep(text, stored=caller.reservation is not None, audio=audio)
        except AnswerUnknown:  # it may be kept, and then it wants its audio
            raise
        except BaseException:
            await self._audio.discard(name)
            raise
        return text

    def url(self, name: str) -> str:
        """The absolute address of a stored audio file; empty where there is none."""
        return f"{self._settings.base_url}/uploads/{name}" if name else ""

    async def _try(
        self, channel: SpeechChannel, utterance: Utterance, path: Path, seconds: float, account_id: int
    ) -> Spoken:
        """Raises EngineFailed. What is the caller's doing isn't counted against the channel."""
        if seconds <= 0:
            raise EngineTimedOut("No time is left for another channel.")
        try:
            spoken = await channel.engine.speak(utterance, path, seconds, turn=account_id)
        except (NothingSpoken, UnfitUtterance, UtteranceRefused):
            raise
        except EngineFailed as failure:
            if not isinstance(failure, EngineBusy):
                self._channels.rests.failed(channel.name)
            metrics.UPSTREAM_FAILURES.labels(channel.name, type(failure).__name__).inc()
            log.warning("speech channel %r failed: %s", channel.name, failure)
            raise
        self._channels.rests.succeeded(channel.name)
        return spoken


def verdict(failures: Sequence[EngineFailed]) -> MynaError:
    """What the caller is told when no channel spoke: that they failed, unless all say that the text makes no
    sound."""
    mute = [failure for failure in failures if isinstance(failure, NothingSpoken | UnfitUtterance)]
    return (
        InvalidRequest(NOTHING_SPOKEN) if mute and len(mute) == len(failures) else UpstreamFailed(ALL_FAILED)
    )


def _answers(wish: Wish, site: SiteSettings) -> Answers:
    """What POST /tts answers."""
    chars, tip, units = len(wish.text), TIPS[site.language], site.tts_units
    return Answers(
        spoken=lambda delivered: to_json(SpeechDone(1, "sync", delivered.url, chars, units)),
        ordered=lambda task_id, _: to_json(SpeechOrdered(1, "async", task_id, tip, units)),
    )
