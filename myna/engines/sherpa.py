"""Neural voices: models of sherpa-onnx, which is an extra, each in a process of its own.

Neither sherpa-onnx nor espeak-ng, which knows how words sound for some of the models, is loaded here;
`sherpa_child.py` and `phonemes_child.py` are the programs that do.
"""

import asyncio
import os
import re
from collections.abc import Callable, Hashable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from myna.engines.lasting import Lasting
from myna.engines.process import Pool
from myna.engines.sherpa_job import (
    CLONERS,
    Answer,
    Describe,
    Facts,
    Manner,
    Phonemes,
    PhonemesJob,
    Say,
    SherpaModel,
    SherpaVoice,
)
from myna.engines.spoken import (
    SPEED_MAX,
    SPEED_MIN,
    EngineDown,
    EngineFailed,
    Reference,
    Spoken,
    UnfitUtterance,
    Utterance,
    Voice,
)

__all__ = ["Facts", "Reference", "Sherpa", "SherpaModel", "SherpaVoice"]

START_DEADLINE_S: Final = 600.0  # a large model on a slow disk
MADE_UP_VOICES_MAX: Final = 100
_DESCRIBE_S: Final = 60.0
_PHONEMES_S: Final = 30.0
_CODES: Final = {"cmn": "zh-CN", "yue": "zh-HK", "": "und"}  # espeak-ng's, where they aren't BCP-47
_TRIAL_WORD: Final = "a"


class Sherpa:
    """Speaks with one process that holds the model; `queue_max` jobs may wait.

    A job may run `job_deadline_s` seconds, and loading the model may take `start_deadline_s`.
    """

    suffix = ".mp3"

    def __init__(
        self,
        model: SherpaModel,
        *,
        queue_max: int,
        job_deadline_s: float,
        start_deadline_s: float = START_DEADLINE_S,
    ) -> None:
        self._model = model
        self._voices = {voice.voice.voice_id: voice for voice in model.voices}
        self.facts = Facts(speakers=0, rate_hz=0, language="")  # until `start` knows them
        self._pool = Pool(
            "myna.engines.sherpa_child",
            Answer,
            processes=1,
            queue_max=queue_max,
            job_deadline_s=job_deadline_s,
            setup=model,
            start_deadline_s=start_deadline_s,
        )
        self._files = Lasting(self._pool, at_once=1)
        self._phonemizer = Pool(
            "myna.engines.phonemes_child",
            Phonemes,
            processes=1,
            queue_max=queue_max,
            job_deadline_s=_PHONEMES_S,
        )

    async def start(self) -> None:
        """The model is loaded and fits its voices. Raises EngineDown, and then nothing is left running."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            await self._pool.start()
            try:
                self.facts = (await self._pool.run(Describe(), _DESCRIBE_S)).facts
                self._check_voices()
                if self._model.phonemes:
                    await self._start_phonemizer()
            except EngineFailed as failure:
                raise EngineDown(str(failure)) from failure
            undo.pop_all()

    def up(self) -> bool:
        """It can speak now."""
        return self._pool.up() and (not self._model.phonemes or self._phonemizer.up())

    def full(self) -> bool:
        """As many jobs wait as may: the next one would be refused."""
        return self._pool.full()

    def pids(self) -> list[int]:
        """The processes, for whoever watches over them."""
        return [*self._pool.pids(), *self._phonemizer.pids()]

    @property
    def voices(self) -> tuple[Voice, ...]:
        """The model's own voices; those that are made up for its speakers are known after `start`."""
        return tuple(voice.voice for voice in self._voices.values())

    @property
    def clones(self) -> tuple[str, ...]:
        """Languages, like zh, that it can speak in the voice of a reference."""
        return self._model.clones

    async def speak(
        self,
        utterance: Utterance,
        path: Path,
        deadline_s: float,
        *,
        reference: Reference | None = None,
        progress: Callable[[float], None] | None = None,
        turn: Hashable = None,
    ) -> Spoken:
        """The utterance as an mp3 (mono, the model's rate) at `path`, on disk for good, within `deadline_s`.

        With a `reference` it is spoken in that one's voice, whatever the utterance says. `progress` hears how
        much is done, 0 to 1. Calls of different `turn` take turns. What is left behind, and when, see
        `Lasting.spoken`. Raises an error of `spoken.py`.
        """
        if not SPEED_MIN <= utterance.speed <= SPEED_MAX:
            raise UnfitUtterance(f"The speed must be from {SPEED_MIN} to {SPEED_MAX}.")
        speaker, language = self._manner_of(utterance, reference)
        text = utterance.text.encode(errors="ignore").decode()  # a lone surrogate can't be sent nor spoken
        ends_at = asyncio.get_running_loop().time() + deadline_s
        phonemes = await self._phonemes(text, language, deadline_s, turn) if self._model.phonemes else None
        left_s = ends_at - asyncio.get_running_loop().time()

        async def spoken(part: Path) -> Spoken:
            job = Say(
                text=text,
                phonemes=phonemes,
                language=language,
                speaker=speaker,
                speed=utterance.speed,
                manner=Manner(_packed(reference.wav), reference.transcript) if reference else None,
                part=_packed(part),
                target=_packed(path),
            )
            return _spoken(await self._pool.run(job, left_s, turn=turn, progress=progress))

        return await self._files.spoken(path, left_s, spoken)

    async def close(self) -> None:
        """Ends the processes; what waits or runs fails. May be called twice."""
        await self._pool.close()
        await self._phonemizer.close()

    def _manner_of(self, utterance: Utterance, reference: Reference | None) -> tuple[int, str]:
        """The speaker's number and the language to read the text in."""
        if reference is not None:
            if reference.language.lower().partition("-")[0] not in self._model.clones:
                raise UnfitUtterance("This engine can't clone a voice of that language.")
            return 0, "zh" if "zh" in self._model.clones else reference.language
        voice = self._voices.get(utterance.voice_id)
        if voice is None:
            raise UnfitUtterance("This engine has no such voice.")
        return voice.speaker, voice.voice.language

    async def _phonemes(self, text: str, language: str, deadline_s: float, turn: Hashable) -> list[str]:
        job = PhonemesJob(text, self.facts.language or language)
        return (await self._phonemizer.run(job, deadline_s, turn=turn)).pieces

    def _check_voices(self) -> None:
        """Every voice has a speaker; where no voice was named, every speaker gets one."""
        if self._model.family in CLONERS:
            return
        if not self._voices:
            self._voices = _made_up(self._model, self.facts)
        for voice in self._voices.values():
            if voice.speaker >= self.facts.speakers:
                raise EngineDown(
                    f"The voice {voice.voice.voice_id} is speaker {voice.speaker} of a model that has"
                    f" {self.facts.speakers}, counted from 0."
                )

    async def _start_phonemizer(self) -> None:
        """Also tries every language, since espeak-ng doesn't know them all."""
        await self._phonemizer.start()
        for language in {voice.language for voice in self.voices}:
            await self._phonemes(_TRIAL_WORD, language, _PHONEMES_S, None)


def _made_up(model: SherpaModel, facts: Facts) -> dict[str, SherpaVoice]:
    """A voice for each speaker, up to MADE_UP_VOICES_MAX, called after the model's folder."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(model.folder).name).strip("-._")[:90] or "voice"
    first, _, region = facts.language.partition("-")
    language = model.language or _CODES.get(first, f"{first}-{region.upper()}" if region else first)
    count = min(facts.speakers, MADE_UP_VOICES_MAX)
    voices = {}
    for speaker in range(count):
        voice_id = stem if count == 1 else f"{stem}-{speaker}"
        voices[voice_id] = SherpaVoice(Voice(voice_id, voice_id, "neutral", language), speaker)
    return voices


def _spoken(answer: Answer) -> Spoken:
    if answer.spoken is None:
        raise EngineFailed("The engine's process didn't speak.")
    return answer.spoken


def _packed(path: Path) -> bytes:
    return os.fsencode(path.absolute())
