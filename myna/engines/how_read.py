"""How voices read texts: the words and the phonemes that they say, without the sound."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, Final

import msgspec

from myna.engines.espeak.engine import VOICES as ESPEAK_VOICES
from myna.engines.interface import EngineLimits
from myna.engines.jobs import Phonemes, PhonemesJob
from myna.engines.kokoro.job import TextJob, TextPieces
from myna.engines.kokoro.voices import VOICES as KOKORO_VOICES
from myna.engines.pool.pool import Pool
from myna.errors import CommandError, Overloaded
from myna.lib.sandbox import AllowedPaths

VOICES: Final = {voice.voice_id: voice for voice in (*KOKORO_VOICES, *ESPEAK_VOICES)}
"""Those whose way of reading is known, by id; the first one is the default."""
BUSY: Final = "Another text is being read; try again."
_JOB_S: Final = 60.0
_waiting = asyncio.Lock()


class Reading(msgspec.Struct, frozen=True):
    """A text in words and in phonemes: those of Kokoro's model, or the IPA of espeak-ng."""

    text: str
    reading: str
    phonemes: str


async def readings(texts: Iterable[str], voice_id: str) -> AsyncGenerator[Reading, None]:
    """The texts one after another as the voice reads them, one of `VOICES`; starts the program that converts
    them. Raises EngineFailed."""
    voice = VOICES[voice_id]
    module, result, read = _KOKORO if voice in KOKORO_VOICES else _ESPEAK
    limits = EngineLimits(processes=1, queue_max=1, job_deadline_s=_JOB_S)
    pool: Pool[Any] = Pool(module, result, limits)
    try:
        await pool.start(AllowedPaths())
        for text in texts:
            yield await read(pool, text, voice.language)
    finally:
        await pool.close()


async def reading(text: str, voice_id: str) -> Reading:
    """One text as the voice reads it, for a person who waits: one at a time in this process. Raises
    CommandError for a voice whose way of reading is not known, Overloaded, EngineFailed."""
    if voice_id not in VOICES:
        raise CommandError("How this voice reads is not known, only how those of Kokoro and espeak-ng do.")
    if _waiting.locked():
        raise Overloaded(BUSY)
    async with _waiting, aclosing(readings((text,), voice_id)) as found:
        return await anext(found)


async def _read_for_kokoro(pool: Pool[TextPieces], text: str, language: str) -> Reading:
    found = await pool.run(TextJob(text, language), _JOB_S)
    return Reading(text, found.reading, " ".join(piece.phonemes for piece in found.pieces))


async def _read_for_espeak(pool: Pool[Phonemes], text: str, language: str) -> Reading:
    han_language = "zh-CN" if language.startswith("en") else language
    found = await pool.run(PhonemesJob(text, language, han_language), _JOB_S)
    return Reading(text, found.reading, " ".join(found.pieces))


_KOKORO: Final = ("myna.engines.kokoro.text.pieces", TextPieces, _read_for_kokoro)
_ESPEAK: Final = ("myna.engines.espeak.phonemizer", Phonemes, _read_for_espeak)
"""A program, its result, and how it reads."""
