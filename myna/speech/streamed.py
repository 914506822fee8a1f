"""Use case: text to speech for OpenAI's clients. The response is the sound itself, sent while it is made.

Every text is a record, as one of POST /v1/tts is; see `delivery.py` for who pays.
"""

import asyncio
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec import Struct

from myna.accounts.keys import UnverifiedCaller
from myna.billing.ledger import Call, Ledger
from myna.channels import routes
from myna.channels.channels import Channels
from myna.channels.routes import Route, RouteKind
from myna.config import ConfigCache
from myna.engines.audio.encoders import FORMATS
from myna.engines.interface import EngineFailed, EngineVoice
from myna.engines.pool.admission import Slot
from myna.engines.text.signs import speakable
from myna.errors import (
    CommitInDoubt,
    InvalidRequest,
    MynaError,
    NotFound,
    StreamFailed,
    UpstreamFailed,
)
from myna.farm.nodes import NO_NODES, Capacity
from myna.settings import Settings
from myna.speech import catalogue as voices
from myna.speech.delivery import Delivery, DeliveryTools, Shape, SoundResponse, Style
from myna.speech.plan import CheckedSpeech, Planner
from myna.speech.synthesize import BROKEN_OFF, Disconnected, SpokenPlan, SpokenSound, Synthesizer
from myna.store.batch import Replayed
from myna.store.files.named_files import AudioStore
from myna.wire import openai
from myna.wire.body import decode, ignored, to_json_text
from myna.wire.openai import AudioVoice, OpenAISpeechRequest, VoiceById

NOT_INSTALLED = (
    "{format} needs Myna's extra '{extra}', which is not installed here; use another format, such as mp3."
)
NO_SUCH_LANGUAGE = "no voice here speaks this language; GET /audio/voices lists the existing ones."
NO_SUCH_VOICE = "there is no such voice; GET /audio/voices lists the existing ones."
T = TypeVar("T")
DELETED = "The sound of the first call with this Idempotency-Key was deleted; use a new key."
NOT_SENT = "The text was spoken and is among the records, but the sound can't be converted; try mp3."
MARKS_S = 0.3
"""The silence for a text of marks alone."""
_LANGUAGES = """
a en-us, b en-gb, e es, f fr, h hi, i it, j ja, p pt, z zh, cmn zh, chinese zh, mandarin zh, cantonese yue,
english en, french fr, german de, hindi hi, italian it, japanese ja, korean ko, portuguese pt, russian ru,
spanish es
"""
_CODES = dict(pair.split() for pair in _LANGUAGES.split(","))
"""Languages by Kokoro's letters, by the code of Mandarin alone, and by the names that some clients send."""
_FIELDS = {"text": "input", "voice_id": "voice"}
"""The names of fields in errors of /v1, and in requests here."""


class StoredSound(Struct, frozen=True):
    """The stored response of a call: the name of its audio, an mp3, and whether the speech broke off."""

    audio: str
    broken: bool = False


@dataclass(eq=False)
class StreamedSpeech:
    """Answers speech requests of OpenAI's shape for one process."""

    settings: Settings
    ledger: Ledger
    config: ConfigCache
    channels: Channels
    capacity: Capacity
    planner: Planner
    synthesizer: Synthesizer
    audio: AudioStore
    tools: DeliveryTools

    async def speak(
        self, caller: UnverifiedCaller, body: bytes, response: SoundResponse, disconnected: Disconnected
    ) -> None:
        """Sends the sound. Raises MynaError, also after the response has started; it is not ended then."""
        try:
            await self._speak(caller, body, response, disconnected)
        except InvalidRequest as error:
            field, wrong = _FIELDS.get(error.field, error.field), error.wrong
            wrong = NO_SUCH_VOICE if wrong == voices.NO_SUCH_VOICE else wrong
            raise InvalidRequest(wrong, field=field, **error.values) from error.__cause__

    async def _speak(
        self, caller: UnverifiedCaller, body: bytes, response: SoundResponse, disconnected: Disconnected
    ) -> None:
        async with self.planner.requiring_channel():
            fields, request = decode(body, OpenAISpeechRequest, empty_is_absent=True)
        caller.details.ignored = ignored(fields, OpenAISpeechRequest)
        if request.input.strip() and not speakable(request.input):
            await self._send_silence(caller, request, response)
            return
        with Slot() as slot:
            outcome = await self.ledger.charge_plan(caller, lambda: self._plan(caller, request, slot))
            if isinstance(outcome, Replayed):
                slot.close()
                await self._replay(outcome.answer, caller.details.account_id, request, response)
                return
            call, planned = outcome
            keep_broken = self.config.settings.broken_stream == "keep"
            async with Delivery(response, _style(request), self.tools, keep_broken=keep_broken) as delivery:
                await self._deliver(call, planned, delivery, disconnected)
                try:
                    await delivery.send_rest()
                except asyncio.CancelledError as stop:  # the call is kept: a 500 reads as a refund
                    raise CommitInDoubt from stop
                if delivery.failure is not None:
                    raise StreamFailed(BROKEN_OFF, kept=True) from delivery.failure
                delivery.end()

    async def _send_silence(
        self, caller: UnverifiedCaller, request: OpenAISpeechRequest, response: SoundResponse
    ) -> None:
        """Sends a short silence for a text of marks alone, such as the "..." that apps send between the
        sentences of a chat. Nothing is charged or recorded. Raises Unauthorized, ModelNotFound."""
        await self.ledger.account_of(caller)
        self._checked_route(request)
        async with Delivery(response, _style(request), self.tools) as delivery:
            await delivery.send_silence(MARKS_S)
            await delivery.send_rest()
            delivery.end()

    async def _deliver(
        self, charged: Call, planned: SpokenPlan, delivery: Delivery, disconnected: Disconnected
    ) -> None:
        """Speaks the text and keeps the call."""
        try:
            async with charged as call:
                spoken = await self.synthesizer.deliver(call, planned, disconnected, delivery)
        except asyncio.CancelledError:  # the process stops, and the refund is committed
            delivery.abandoned = True
            raise
        if spoken is None:
            name = await self.synthesizer.ended(call, planned.speech)
            try:
                await self._send_stored(delivery, name, call.account_id)
            except (MynaError, asyncio.CancelledError) as failure:
                # The node's completion has kept the call: a 500 reads as a refund.
                raise CommitInDoubt from failure

    async def _replay(
        self, answer: str, account_id: int, request: OpenAISpeechRequest, response: SoundResponse
    ) -> None:
        """Sends the stored sound again."""
        stored = msgspec.json.decode(answer, type=StoredSound)
        async with Delivery(response, _style(request), self.tools) as delivery:
            await self._send_stored(delivery, stored.audio, account_id)
            await delivery.send_rest()
            if stored.broken:
                raise StreamFailed(BROKEN_OFF, kept=True)
            delivery.end()

    async def _send_stored(self, delivery: Delivery, name: str, account_id: int) -> None:
        """Raises NotFound if the audio was deleted, UpstreamFailed if it can't be converted,
        StorageUnavailable."""
        try:
            async with self.audio.local(name) as path:
                await delivery.send_mp3(path, account_id)
        except FileNotFoundError:
            raise NotFound(DELETED) from None
        except (EngineFailed, OSError) as failure:
            raise UpstreamFailed(NOT_SENT) from failure

    async def _plan(self, caller: UnverifiedCaller, request: OpenAISpeechRequest, slot: Slot) -> SpokenPlan:
        async with self.planner.requiring_channel():
            route, settings = self._checked_route(request), self.config.settings
            voice_id, language = await self._voice(request, route)
            checked = CheckedSpeech(
                text=request.input,
                voice_id=voice_id,
                language=language,
                speed=1.0 if request.speed is None else request.speed,
                channel_s=self.settings.stream_deadline_s,
                node_s=self.settings.chat_speech_wait_s,
                route=route,
                streams=True,
                chars_max=max(settings.openai_speech_max_chars, settings.tts_max_chars),
            )
            plan = await self.planner.plan(caller, checked, slot)
        return SpokenPlan(plan, _stored, route.units, route.name)

    def _checked_route(self, request: OpenAISpeechRequest) -> Route:
        """The route of the request, whose format is there. Raises InvalidRequest, ModelNotFound."""
        name = _style(request).format
        if not FORMATS[name].available:
            extra = FORMATS[name].extra
            raise InvalidRequest(NOT_INSTALLED, field="response_format", format=name, extra=extra)
        return routes.find(self.config.current, self.config.settings, request.model, RouteKind.SPEECH)

    async def _voice(self, request: OpenAISpeechRequest, route: Route) -> tuple[str | None, str]:
        """The voice's id, None for the default voice, and the language of the text if the request names it.
        Without a voice it is the first one of that language. Raises InvalidRequest."""
        name = request.voice.id if isinstance(request.voice, VoiceById) else request.voice
        wanted = _either(request.language, request.lang_code, "")
        if not name and not wanted:
            return None, ""
        config = await self.config.with_nodes()
        nodes = NO_NODES if route.channels else await self.capacity.nodes(config)
        usable = voices.usable(self.channels, config, nodes, route)
        speaks = _of_language(wanted, usable) if wanted else None
        if wanted and speaks is None:
            raise InvalidRequest(NO_SUCH_LANGUAGE, field="language")
        language = speaks.language if speaks else ""
        if not name and speaks:
            return speaks.voice_id, language
        listed = {found.voice_id: found.name for found in usable}
        mapping = openai.voice_mapping(self.config.settings.openai_voices)
        return openai.voice_id_of(name or "", mapping, listed) or None, language


def _stored(sound: SpokenSound) -> str:
    """What is stored for a retry."""
    return to_json_text(StoredSound(sound.audio, sound.broken))


def named(usable: list[EngineVoice], mapping: str) -> list[AudioVoice]:
    """The usable voices, and after them the names of the mapping whose voice is one of them."""
    by_id = {voice.voice_id: voice for voice in usable}
    found = [_described(voice.voice_id, voice) for voice in usable]
    found += [
        _described(name, by_id[voice_id])
        for name, voice_id in openai.voice_mapping(mapping).items()
        if voice_id in by_id and name not in by_id
    ]
    return found


def _described(voice_id: str, voice: EngineVoice) -> AudioVoice:
    return AudioVoice(id=voice_id, name=voice.name, gender=voice.gender, language=voice.language)


def _style(request: OpenAISpeechRequest) -> Style:
    timed = bool(request.timestamps or request.return_timestamps)
    shape: Shape = "sound"
    if request.stream_format == "sse":
        shape = "events"
    elif timed:
        shape = "lines" if request.stream else "object"
    return Style(
        format=request.response_format or "mp3",
        shape=shape,
        timed=timed,
        chars=len(request.input),
        volume=_either(request.volume, request.volume_multiplier, 1.0),
    )


def _of_language(wanted: str, usable: list[EngineVoice]) -> EngineVoice | None:
    """The first voice of a language, in its variant if there is one. `wanted` is a tag such as zh-CN or
    cmn-CN, or one of `_CODES`."""
    language, *variant = wanted.lower().replace("_", "-").split("-")
    code = "-".join((_CODES.get(language, language), *variant))
    first = code.partition("-")[0]
    fitting = [voice for voice in usable if voice.language.lower().partition("-")[0] == first]
    same = [voice for voice in fitting if voice.language.lower() == code]
    return next(iter([*same, *fitting]), None)


def _either(one: T | None, other: T | None, default: T) -> T:
    """A field that has two names."""
    return next((value for value in (one, other) if value is not None), default)
