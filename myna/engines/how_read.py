"""How voices read texts: the words and the phonemes that they say, without the sound."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, Final, Protocol

import msgspec

from myna.engines.espeak.engine import VOICES as ESPEAK_VOICES
from myna.engines.interface import EngineVoice
from myna.engines.jobs import Phonemes, PhonemesJob
from myna.engines.kokoro.job import TextJob, TextPieces
from myna.engines.kokoro.voices import VOICES as KOKORO_VOICES
from myna.engines.pool.pool import Pool
from myna.errors import CommandError, Overloaded
from myna.lib.sandbox import AllowedPaths

_ON_KOKORO: Final = {voice.voice_id: voice for voice in KOKORO_VOICES}
_ON_ESPEAK: Final = {voice.voice_id: voice for voice in ESPEAK_VOICES}
VOICES: Final = {**_ON_KOKORO, **_ON_ESPEAK}
"""Those whose way of reading is known, by id; the first one is the default."""
BUSY: Final = "Another text is being read; try again."
_JOB_S: Final = 60.0
_waiting = asyncio.Lock()


class Reading(msgspec.Struct, frozen=True):
    """A text in words and in phonemes: those of Kokoro's model, or the IPA of espeak-ng."""

    text: str
    reading: str
    phonemes: str


class _Reader(Protocol):
    pool: Pool[Any]

    async def read(self, text: str) -> Reading: ...


async def readings(texts: Iterable[str], voice_id: str) -> AsyncGenerator[Reading, None]:
    """The texts one after another as the voice reads them, one of `VOICES`; starts the program that converts
    them. Raises EngineFailed."""
    voice = VOICES[voice_id]
    reader: _Reader = _OfKokoro(voice) if voice_id in _ON_KOKORO else _OfEspeak(voice)
    try:
        await reader.pool.start(AllowedPaths())
        for text in texts:
            yield await reader.read(text)
    finally:
        await reader.pool.close()


async def reading(text: str, voice_id: str) -> Reading:
    """One text as the voice reads it, for a person who waits: one at a time in this process. Raises
    CommandError for a voice whose way of reading is not known, Overloaded, EngineFailed."""
    if voice_id not in VOICES:
        raise CommandError("How this voice reads is not known, only how those of Kokoro and espeak-ng do.")
    if _waiting.locked():
        raise Overloaded(BUSY)
    async with _waiting, aclosing(readings((text,), voice_id)) as found:
        return await anext(found)


class _OfKokoro:
    def __init__(self, voice: EngineVoice) -> None:
        self._language = voice.language
        self.pool = Pool(
            "myna.engines.kokoro.text.pieces", TextPieces, processes=1, queue_max=1, job_deadline_s=_JOB_S
        )

    async def read(self, text: str) -> Reading:
        read = await self.pool.run(TextJob(text, self._language), _JOB_S)
        return Reading(text, read.reading, " ".join(piece.phonemes for piece in read.pieces))


class _OfEspeak:
    def __init__(self, voice: EngineVoice) -> None:
        self._language = voice.language
        self._han_language = "zh-CN" if voice.language.startswith("en") else voice.language
        self.pool = Pool(
            "myna.engines.espeak.phonemizer", Phonemes, processes=1, queue_max=1, job_deadline_s=_JOB_S
        )

    async def read(self, text: str) -> Reading:
        read = await self.pool.run(PhonemesJob(text, self._language, self._han_language), _JOB_S)
        return Reading(text, read.reading, " ".join(read.pieces))
