"""A sentence of each engine: whether it speaks, and how fast."""

import asyncio
import contextlib
import io
import secrets
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from myna.engines.espeak import VOICES, Espeak
from myna.engines.spoken import EngineFailed, Reference, Utterance
from myna.node.engines import Engine

TRIAL_MAX_S: Final = 120.0
SENTENCES: Final = {
    "zh-HK": "今日天氣好好，我哋一齊去公園散步啦。",
    "yue": "今日天氣好好，我哋一齊去公園散步啦。",
    "zh": "今天天气很好，我们一起去公园散步吧。",
    "en": "The weather is lovely today, so let us take a walk in the park.",
}
"""By language, with its region or without; others get the English one."""


class Trial(Struct, frozen=True):
    """How long the engine took over so many characters, and how long it is to listen to. `voice_id` is whose
    voice that was, empty where the engine only clones."""

    voice_id: str
    chars: int
    took_s: float
    audio_s: float

    @property
    def chars_per_s(self) -> float:
        return self.chars / self.took_s

    @property
    def speed(self) -> float:
        """How many times as fast as one can listen."""
        return self.audio_s / self.took_s


async def trial(engine: Engine, folder: Path) -> Trial:
    """A sentence in the engine's first voice; one that only clones is given espeak-ng to speak like.

    Raises EngineFailed, naming the engine. Nothing is left in the folder.
    """
    async with contextlib.AsyncExitStack() as clear:
        path, wav = (folder / f"{secrets.token_hex(16)}.{suffix}" for suffix in ("mp3", "wav"))
        clear.callback(path.unlink, missing_ok=True)
        clear.callback(wav.unlink, missing_ok=True)
        if engine.voices:
            voice_id, language = engine.voices[0].voice_id, engine.voices[0].language
        else:
            voice_id, language = "", engine.clones[0]
        text = sentence(language)
        try:
            reference = None if engine.voices else await _reference(language, wav)
            started = time.monotonic()
            async with asyncio.timeout(TRIAL_MAX_S):
                spoken = await engine.speak(Utterance(text, voice_id, 1.0), path, reference, _unheard)
        except TimeoutError:
            raise EngineFailed(f"{engine.label}: a sentence took over {TRIAL_MAX_S:g} s.") from None
        except EngineFailed as failure:
            raise type(failure)(f"{engine.label}: {failure}") from failure
        except OSError as error:
            raise EngineFailed(f"{engine.label}: a sentence can't be kept: {error.strerror}.") from error
        return Trial(voice_id, len(text), time.monotonic() - started, spoken.seconds)


def sentence(language: str) -> str:
    """What to say in the language."""
    return SENTENCES.get(language) or SENTENCES.get(language.partition("-")[0]) or SENTENCES["en"]


async def _reference(language: str, wav: Path) -> Reference:
    """A recording to speak like, of the embedded voice, in that language where it has it."""
    fitting = (voice for voice in VOICES if voice.language.partition("-")[0] == language.partition("-")[0])
    voice = next(fitting, VOICES[0])
    espeak = Espeak(processes=1, queue_max=1, job_deadline_s=TRIAL_MAX_S)
    mp3 = wav.with_suffix(".mp3")
    try:
        await espeak.start()
        text = sentence(voice.language)
        await espeak.speak(Utterance(text, voice.voice_id, 1.0), mp3, TRIAL_MAX_S)
        await asyncio.to_thread(_decode, mp3, wav)
    finally:
        await espeak.close()
        mp3.unlink(missing_ok=True)
    return Reference(wav, text, language)


def _decode(mp3: Path, wav: Path) -> None:
    import soundfile  # with numpy; a node that doesn't only clone never comes here

    samples, rate_hz = soundfile.read(mp3, dtype="int16")
    file = io.BytesIO()  # libsndfile itself doesn't say why a disk takes nothing
    soundfile.write(file, samples, rate_hz, format="WAV", subtype="PCM_16")
    wav.write_bytes(file.getvalue())


def _unheard(_: float) -> None:
    """Nobody wants to know how far it is."""
