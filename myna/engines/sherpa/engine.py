"""Neural voices: models of sherpa-onnx, which is an extra, each in a child process.

Only the children load sherpa-onnx (`sherpa/child.py`) and, for models that take phonemes, espeak-ng
(`espeak/phonemizer.py`).
"""

import asyncio
import re
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from myna.engines.interface import (
    NO_CLIENT,
    Client,
    EngineFailed,
    EngineLimits,
    EngineUnavailable,
    EngineVoice,
    SpeechResult,
    UnsupportedUtterance,
    Utterance,
)
from myna.engines.jobs import Phonemes, PhonemesJob
from myna.engines.pool.child_handle import TakePart
from myna.engines.pool.child_main import path_bytes
from myna.engines.pool.engine import JobEngine
from myna.engines.pool.pool import Pool
from myna.engines.sherpa.job import (
    CLONERS,
    Describe,
    JobAnswer,
    ModelInfo,
    Provider,
    ReferenceWav,
    SherpaModel,
    SherpaVoice,
    SpeakJob,
)
from myna.engines.sherpa.models import inspect
from myna.engines.voices import VoiceConfig, check_voices
from myna.errors import ConfigError
from myna.lib.sandbox import AllowedPaths

START_DEADLINE_S: Final = 600.0  # a large model on a slow disk
DEFAULT_VOICES_MAX: Final = 100
_DESCRIBE_S: Final = 60.0
_PHONEMES_S: Final = 30.0
_CODES: Final = {"cmn": "zh-CN", "yue": "zh-HK", "": "und"}  # espeak-ng's codes that are not BCP-47
_TRIAL_WORD: Final = "a"
_PACE: Final = 0.3
"""Seconds of work for a second of sound until a model is measured."""
THREADS_MAX: Final = 64


class Sherpa(JobEngine[SpeakJob]):
    """Speaks with one process that has loaded the model. The parts of a sentence come when it is spoken."""

    def __init__(self, model: SherpaModel, limits: EngineLimits) -> None:
        limits = structs.replace(limits, processes=1)
        pool = Pool(
            "myna.engines.sherpa.child",
            JobAnswer,
            limits,
            setup=model,
            start_deadline_s=START_DEADLINE_S,
            retries=True,
        )
        super().__init__(pool, limits, _PACE)
        self.label = f"{model.family} {model.folder}"
        self.info = ModelInfo(speakers=0, rate_hz=0, language="")  # until `start` has loaded the model
        self._model = model
        self._voices = {voice.voice.voice_id: voice for voice in model.voices}
        if model.phonemes:
            phoneme_limits = structs.replace(limits, job_deadline_s=_PHONEMES_S)
            self._phonemizer = Pool("myna.engines.espeak.phonemizer", Phonemes, phoneme_limits, retries=True)
            self._pools.append(self._phonemizer)

    async def _start(self, files: AllowedPaths | None) -> None:
        """Loads the model and checks its voices."""
        await super()._start(_with_model(files, self._model))
        try:
            self.info = (await self._pool.run(Describe(), _DESCRIBE_S)).info
            self._check_voices()
            if self._model.phonemes:
                await self._start_phonemizer()
        except EngineFailed as failure:
            raise EngineUnavailable(str(failure)) from failure

    @property
    def voices(self) -> tuple[EngineVoice, ...]:
        """Those of `model`. Without any, default voices are known after `start`."""
        return tuple(voice.voice for voice in self._voices.values())

    @property
    def clones(self) -> tuple[str, ...]:
        return self._model.clones

    def _job(self, utterance: Utterance) -> SpeakJob:
        """The job, without its phonemes and its file."""
        utterance.check_speed()
        speaker, language = self._speaker_of(utterance)
        reference = utterance.reference
        return SpeakJob(
            text=utterance.flat,
            phonemes=None,
            language=language,
            speaker=speaker,
            speed=utterance.speed,
            sound_max_s=utterance.sound_max_s,
            reference=ReferenceWav(path_bytes(reference.wav), reference.transcript) if reference else None,
        )

    async def _run(
        self, job: SpeakJob, deadline_s: float, client: Client, take_part: TakePart | None = None
    ) -> SpeechResult:
        ends_at = asyncio.get_running_loop().time() + deadline_s
        if self._model.phonemes:
            phonemes = await self._phonemes(job.text, job.language, deadline_s, client)
            job = structs.replace(job, phonemes=phonemes)
        left_s = ends_at - asyncio.get_running_loop().time()
        answer: JobAnswer = await self._pool.run(job, left_s, client, take_part)
        if answer.speech is None:
            raise EngineFailed("The engine's process did not speak.")
        return answer.speech

    def _speaker_of(self, utterance: Utterance) -> tuple[int, str]:
        """The speaker number and the language of the text."""
        if (reference := utterance.reference) is not None:
            if reference.language.lower().partition("-")[0] not in self._model.clones:
                raise UnsupportedUtterance("This engine can't clone a voice of that language.")
            return 0, "zh" if "zh" in self._model.clones else reference.language
        voice = self._voices.get(utterance.voice_id)
        if voice is None:
            raise UnsupportedUtterance("This engine does not have this voice.")
        return voice.speaker, voice.voice.language

    async def _phonemes(self, text: str, language: str, deadline_s: float, client: Client) -> list[str]:
        job = PhonemesJob(text, self.info.language or language)
        return (await self._phonemizer.run(job, deadline_s, Client(client.queue_key))).pieces

    def _check_voices(self) -> None:
        """Checks the speaker of each voice. Without voices, each speaker gets a default voice."""
        if self._model.family in CLONERS:
            return
        if not self._voices:
            self._voices = _default_voices(self._model, self.info)
        for voice in self._voices.values():
            if voice.speaker >= self.info.speakers:
                raise EngineUnavailable(
                    f"The voice {voice.voice.voice_id} is speaker {voice.speaker} of a model that has"
                    f" {self.info.speakers}, counted from 0."
                )

    async def _start_phonemizer(self) -> None:
        """Also tries each language, since espeak-ng does not have all."""
        await self._phonemizer.start(AllowedPaths())
        for language in {voice.language for voice in self.voices}:
            await self._phonemes(_TRIAL_WORD, language, _PHONEMES_S, NO_CLIENT)


def _default_voices(model: SherpaModel, info: ModelInfo) -> dict[str, SherpaVoice]:
    """A voice for each speaker, up to DEFAULT_VOICES_MAX, named after the model's folder."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(model.folder).name).strip("-._")[:90] or "voice"
    first, _, region = info.language.partition("-")
    language = model.language or _CODES.get(first, f"{first}-{region.upper()}" if region else first)
    count = min(info.speakers, DEFAULT_VOICES_MAX)
    voices = {}
    for speaker in range(count):
        voice_id = stem if count == 1 else f"{stem}-{speaker}"
        voices[voice_id] = SherpaVoice(
            EngineVoice(voice_id=voice_id, name=voice_id, gender="neutral", language=language), speaker
        )
    return voices


def _with_model(files: AllowedPaths | None, model: SherpaModel) -> AllowedPaths | None:
    """Adds the model's files, and the targets of links among them. Providers other than `cpu` open devices
    and files that are not known here, so their processes are not restricted."""
    if files is None or model.provider != "cpu":
        return None
    folder = Path(model.folder)
    linked = [path.resolve() for path in folder.rglob("*") if path.is_symlink()]
    return AllowedPaths((*files.reads, *map(path_bytes, (folder, *linked))), files.writes)


class SherpaConfig(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="sherpa"):
    """A model. Without voices each speaker gets one, named after the folder."""

    folder: str
    threads: Annotated[int, Meta(ge=1, le=THREADS_MAX)] = 2
    provider: Provider = "cpu"
    voice: list[VoiceConfig] = []

    def build(self, limits: EngineLimits, folder: Path) -> Sherpa:
        check_voices(self.voice)
        if not self.folder:
            raise ConfigError("folder: is empty; name the model's folder.")
        if not (folder / self.folder).is_dir():
            raise ConfigError(
                f"folder: there is no {folder / self.folder}; unpack the model there, or name where it is."
            )
        return Sherpa(self.model(folder), limits)

    def model(self, folder: Path) -> SherpaModel:
        """The model. Raises ConfigError, which names what is missing."""
        model = inspect(folder / self.folder)
        if self.voice and model.family in CLONERS:
            raise ConfigError(f"{self.folder} has no built-in voices; it clones.")
        voices = tuple(SherpaVoice(voice.described, voice.speaker) for voice in self.voice)
        return structs.replace(model, threads=self.threads, provider=self.provider, voices=voices)
