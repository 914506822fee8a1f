"""Use case: text to speech. Voice, charge, a site channel that speaks, keep or refund."""

import logging
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from myna import metrics, voices
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
from myna.errors import AnswerUnknown, InvalidRequest, MynaError, Overloaded, UpstreamFailed
from myna.keys import Scope
from myna.ledger import Call, Caller, Ledger, Order
from myna.settings import Settings
from myna.site import Site
from myna.store.audio import AudioStore
from myna.store.batch import Audio, NewTask, Replayed, TaskStatus
from myna.wire.body import decode
from myna.wire.encode import to_json
from myna.wire.v1 import SpeechDone, SpeechRequest

log = logging.getLogger(__name__)

_SPEED = re.compile(r"[0-9]{1,4}(\.[0-9]{1,12})?")
SPEED_MIN, SPEED_MAX = 0.25, 4.0
NOTHING_SPOKEN = "text: holds nothing that this voice can speak; the units were refunded."
ALL_FAILED = "No speech channel could speak this; the units were refunded, try again later."


class SpeechPlan(Struct, frozen=True):
    """What will be spoken, by which voice, and who can do it."""

    text: str
    speed: float
    choice: voices.Choice

    @property
    def task(self) -> NewTask:
        """The record of the job: at work from the start, without a lease."""
        return NewTask(self.text, self.choice.voice.voice_id, self.speed, TaskStatus.PROCESSING)


class Delivered(Struct, frozen=True):
    """A finished job: the audio's absolute address and the voice."""

    url: str
    voice_id: str


class Synthesizer:
    """Answers speech requests for one process."""

    def __init__(
        self, settings: Settings, ledger: Ledger, site: Site, channels: Channels, audio: AudioStore
    ) -> None:
        self._settings, self._ledger, self._site = settings, ledger, site
        self._channels, self._audio = channels, audio

    async def speak(self, caller: Caller, body: bytes) -> str:
        """The JSON of a SpeechDone. Raises what `errors.py` draws."""
        admitted = await self._ledger.admit(caller, lambda: self._decide(body))
        if isinstance(admitted, Replayed):
            return admitted.answer
        call, plan = admitted

        def answer(delivered: Delivered) -> str:
            return to_json(SpeechDone(1, "sync", delivered.url, len(plan.text), call.units))

        async with call:
            return await self.deliver(caller, call, plan, answer)

    def _decide(self, body: bytes) -> Order[SpeechPlan]:
        """Whether anything can speak comes before what the body says."""
        voices.need_a_channel(self._channels, self._site.config)
        _, request = decode(body, SpeechRequest)
        plan = self.plan(request.text, request.voice_id, read_speed(request.speed))
        seconds = self._settings.call_deadline_s
        return Order(Scope.TTS, self._site.settings.tts_units, seconds, plan, plan.task)

    def plan(self, text: str, voice_id: str | None, speed: float) -> SpeechPlan:
        """Checks the text and finds a voice with a channel that is up and takes one more."""
        check_text(text, self._site.settings.tts_max_chars)
        choice = voices.choose(self._channels, self._site.config, voice_id)
        if all(channel.full for channel in choice.channels):
            raise Overloaded
        return SpeechPlan(text, speed, choice)

    async def deliver(
        self, caller: Caller, call: Call, plan: SpeechPlan, answer: Callable[[Delivered], str]
    ) -> str:
        """Speaks and keeps the call with the audio; returns what `answer` makes of it."""
        utterance = Utterance(plan.text, plan.choice.voice.voice_id, plan.speed)
        failures: list[EngineFailed] = []
        for channel in plan.choice.channels:
            name, path = self._audio.new(channel.engine.suffix)
            try:
                seconds = min(call.seconds_left, self._settings.upstream_timeout_s)
                spoken = await self._try(channel, utterance, path, seconds)
            except EngineFailed as failure:
                failures.append(failure)
                continue
            text = answer(Delivered(self.url(name), utterance.voice_id))
            audio = Audio(name, spoken.size_bytes, spoken.sha256)
            try:
                await call.keep(text, stored=caller.reservation is not None, audio=audio)
            except AnswerUnknown:  # it may be kept, and then it wants its audio
                raise
            except BaseException:
                self._audio.delete(name)
                raise
            return text
        raise verdict(failures)

    def url(self, name: str) -> str:
        """The absolute address of a stored audio file; empty where there is none."""
        return f"{self._settings.base_url}/uploads/{name}" if name else ""

    async def _try(self, channel: SpeechChannel, utterance: Utterance, path: Path, seconds: float) -> Spoken:
        """Raises EngineFailed. What is the caller's doing isn't counted against the channel."""
        if seconds <= 0:
            raise EngineTimedOut("No time is left for another channel.")
        try:
            spoken = await channel.engine.speak(utterance, path, seconds)
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


def check_text(text: str, chars_max: int) -> None:
    """Raises InvalidRequest for a text that can't be spoken or is too long."""
    if not text.strip():
        raise InvalidRequest("text: must not be blank.")
    if len(text) > chars_max:
        raise InvalidRequest(f"text: has {len(text)} characters; at most {chars_max} are allowed.")
    if "\0" in text:
        raise InvalidRequest("text: must not hold the character U+0000.")
    if not any(unicodedata.category(char)[0] in "LN" for char in text):
        raise InvalidRequest("text: holds nothing that can be spoken, neither a letter nor a digit.")


def read_speed(text: str | None) -> float:
    """The speed as a factor; `None` and an empty string are 1. Raises InvalidRequest."""
    if not text:
        return 1.0
    if not _SPEED.fullmatch(text) or not SPEED_MIN <= float(text) <= SPEED_MAX:
        raise InvalidRequest(f"speed: must be a decimal string from {SPEED_MIN} to {SPEED_MAX}.")
    return float(text)
