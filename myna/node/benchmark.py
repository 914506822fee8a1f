"""Speaks a sentence with an engine: for its speed, and for `node check`."""

import asyncio
import contextlib
import io
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from myna.engines.espeak.engine import Espeak
from myna.engines.interface import (
    Engine,
    EngineFailed,
    EngineLimits,
    EngineUnavailable,
    Utterance,
    VoiceReference,
)
from myna.engines.voices import sample_text
from myna.lib.sandbox import AllowedPaths
from myna.node.engines import JOB_MAX_S, start, too_many_voices

TRIAL_MAX_S: Final = 120.0


class BenchmarkResult(Struct, frozen=True):
    """The sentence's characters, the seconds it took and the seconds of its audio. `voice_id` is empty if the
    engine only clones."""

    voice_id: str
    chars: int
    took_s: float
    audio_s: float

    @property
    def chars_per_s(self) -> float:
        return self.chars / self.took_s

    @property
    def speed(self) -> float:
        """As a multiple of real time."""
        return self.audio_s / self.took_s


async def trial(engine: Engine, folder: Path, keep: Path | None = None) -> BenchmarkResult:
    """Speaks a sentence in the engine's first voice. An engine that only clones gets a reference spoken by
    espeak-ng.

    Raises EngineFailed with the engine's label. No file is left in the folder but the mp3 `keep`, if given.
    """
    with contextlib.ExitStack() as stack:
        path, wav = (folder / f"{secrets.token_hex(16)}.{suffix}" for suffix in ("mp3", "wav"))
        stack.callback(path.unlink, missing_ok=True)
        stack.callback(wav.unlink, missing_ok=True)
        if engine.voices:
            voice_id, language = engine.voices[0].voice_id, engine.voices[0].language
        else:
            voice_id, language = "", engine.clones[0]
        text = sample_text(language)
        try:
            reference = None if engine.voices else await reference_voice(language, wav)
            utterance = Utterance(text, voice_id, 1.0, reference=reference)
            started = time.monotonic()
            async with asyncio.timeout(TRIAL_MAX_S):
                spoken = await engine.speak(utterance, keep or path, JOB_MAX_S)
        except TimeoutError:
            raise EngineFailed(f"{engine.label}: a sentence took over {TRIAL_MAX_S:g} s.") from None
        except EngineFailed as failure:
            raise type(failure)(f"{engine.label}: {failure}") from failure
        except OSError as error:
            raise EngineFailed(f"{engine.label}: a sentence can't be kept: {error.strerror}.") from error
        return BenchmarkResult(
            voice_id=voice_id, chars=len(text), took_s=time.monotonic() - started, audio_s=spoken.seconds
        )


async def reference_voice(language: str, wav: Path) -> VoiceReference:
    """A reference spoken by espeak-ng to `wav`, in this language if it has a voice for it."""
    espeak = Espeak(EngineLimits(processes=1, queue_max=1, job_deadline_s=TRIAL_MAX_S))
    code = language.partition("-")[0]
    candidates = (voice for voice in espeak.voices if voice.language.partition("-")[0] == code)
    voice = next(candidates, espeak.voices[0])
    mp3 = wav.with_suffix(".mp3")
    try:
        await espeak.start(AllowedPaths.of(writes=(mp3.parent,)))
        text = sample_text(voice.language)
        await espeak.speak(Utterance(text, voice.voice_id, 1.0), mp3, TRIAL_MAX_S)
        await asyncio.to_thread(_decode, mp3, wav)
    finally:
        await espeak.close()
        mp3.unlink(missing_ok=True)
    return VoiceReference(wav, text, language)


def _decode(mp3: Path, wav: Path) -> None:
    import soundfile  # imports numpy, which only engines that clone need

    samples, rate_hz = soundfile.read(mp3, dtype="int16")
    file = io.BytesIO()  # libsndfile does not report the reason of a failed write
    soundfile.write(file, samples, rate_hz, format="WAV", subtype="PCM_16")
    wav.write_bytes(file.getvalue())


async def check(engines: Sequence[Engine], folder: Path) -> list[dict[str, object]]:
    """A row for each engine: the voice it spoke in (empty for a clone), the seconds it took, and its speed as
    a multiple of real time; for an engine that failed, the error. Only one engine runs at a time, so none
    slows another. The sentences are written to `folder` and removed."""
    return [await _row(engines[:count], folder) for count in range(1, len(engines) + 1)]


async def _row(engines: Sequence[Engine], folder: Path) -> dict[str, object]:
    """The row of the last engine. The others count towards the limit of voices."""
    engine = engines[-1]
    row: dict[str, object] = {"engine": engine.label, "ok": False, "voice": ""}
    try:
        await start(engine, AllowedPaths.of(writes=(folder,)))
        if excess := too_many_voices(engines):
            raise EngineUnavailable(f"{engine.label}: {excess}")
        result = await trial(engine, folder)
    except EngineFailed as failure:
        return {**row, "voices": [], "clones": [], "seconds": 0.0, "speed": 0.0, "error": str(failure)}
    finally:
        await engine.close()
    return {
        "engine": engine.label,
        "ok": True,
        "voice": result.voice_id,
        "voices": [voice.voice_id for voice in engine.voices],
        "clones": list(engine.clones),
        "seconds": round(result.took_s, 3),
        "speed": round(result.speed, 1),
        "error": "",
    }
