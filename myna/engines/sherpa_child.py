"""The program that speaks with a neural model: `python -m myna.engines.sherpa_child <parent's pid>`.

sherpa-onnx can end its process over a model it doesn't like, and a large one takes long to load. Facts about
sherpa-onnx 2.0 this stands on: a failure gives no samples and a line on stderr, an unknown speaker is spoken
by the first one, the samples of a result are a list but those of the callback an array, and what it prints
while it speaks has the text in it.
"""

import functools
import os
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from myna.engines import reading
from myna.engines.child import Tell, Work, serve
from myna.engines.sherpa_job import Answer, Describe, Facts, Say, SherpaModel
from myna.engines.sherpa_sound import Samples, Tempo, is_audible, pcm_of, silence
from myna.engines.sherpa_text import is_chinese, pieces, readable
from myna.engines.sherpa_words import Words
from myna.engines.spoken import (
    EngineDown,
    EngineFailed,
    NothingSpoken,
    Spoken,
    UnfitUtterance,
    UtteranceRefused,
)
from myna.sound.mp3 import Mp3File

_PAUSE_S: Final = 0.25  # between sentences, at speed 1
_STEPS: Final = {"zipvoice": 4}  # what the distilled model was made for
_PACELESS: Final = ("pocket",)  # families whose speed can't be set
_REFERENCES_MAX: Final = 16
_SIXTEEN_BITS: Final = 2


class Model:
    """A loaded model. Raises EngineDown; sherpa-onnx may end the process instead."""

    def __init__(self, model: SherpaModel) -> None:
        self._model = model
        self._sherpa = _library()
        os.chdir(model.folder)  # so that nothing in its path can be taken for a list's comma
        files = {role: ",".join(names) for role, names in model.files.items()}
        family = getattr(self._sherpa, f"OfflineTts{model.family.title()}ModelConfig")(**files)
        config = self._sherpa.OfflineTtsConfig(
            model=self._sherpa.OfflineTtsModelConfig(
                **{model.family: family}, num_threads=model.threads, provider=model.provider
            )
        )
        if not config.validate():
            raise EngineDown("The model's files are not as they should be; the engine's stderr says why.")
        self._tts = self._sherpa.OfflineTts(config)
        self._words = Words(tuple(map(Path, model.files.get("lexicon", ()))))
        self.facts = Facts(max(1, self._tts.num_speakers), self._tts.sample_rate, self._tts.lang)

    def speak(self, job: Say, tell: Tell) -> Spoken:
        """The job's audio at its target. Raises EngineFailed or OSError; then nothing stays behind."""
        settings = self._settings(job)
        texts = pieces(job.text, job.language) if job.phonemes is None else job.phonemes
        part, target = Path(os.fsdecode(job.part)), Path(os.fsdecode(job.target))
        with Mp3File(part, target, self.facts.rate_hz) as file:
            self._speak_into(file.write, texts, settings, job, tell)
            finished = file.finish()
        return Spoken(finished.seconds, finished.size_bytes, finished.sha256)

    def _settings(self, job: Say) -> Any:
        settings = self._sherpa.GenerationConfig()
        settings.sid = self._speaker(job)
        settings.speed = 1.0 if self._model.family in _PACELESS else job.speed
        settings.num_steps = _STEPS.get(self._model.family, settings.num_steps)
        if job.manner is not None:
            path = os.fsdecode(job.manner.wav)
            samples, rate_hz = _reference(path, Path(path).stat().st_mtime_ns)
            settings.reference_audio, settings.reference_sample_rate = samples, rate_hz
            settings.reference_text = readable(job.manner.transcript, job.language)
        return settings

    def _speaker(self, job: Say) -> int:
        if job.manner is not None:
            return 0
        if not 0 <= job.speaker < self.facts.speakers:
            raise UnfitUtterance("The model has no such speaker.")
        return job.speaker

    def _speak_into(
        self, write: Callable[[bytes], None], texts: list[str], settings: Any, job: Say, tell: Tell
    ) -> None:
        """Raises NothingSpoken when none of it can be heard, UtteranceRefused when a part is missing."""
        tempo = Tempo(self.facts.rate_hz, job.speed) if self._model.family in _PACELESS else None
        paced = write if tempo is None else lambda pcm: write(tempo.feed(pcm))
        total, done, silent, audible = sum(map(len, texts)), 0, 0, False
        for text in texts:
            if done > 0:
                paced(silence(_PAUSE_S / settings.speed, self.facts.rate_hz))
            pcm = self._said(text, settings, phonemes=job.phonemes is not None)
            silent += not pcm
            audible = audible or is_audible(pcm)
            paced(pcm)
            done += len(text)
            tell(done / total)
        if not audible:
            raise NothingSpoken("The text has nothing in it that this voice can say.")
        if silent:
            raise UtteranceRefused("The text has a sentence in it that this voice can't say.")
        if tempo is not None:
            write(tempo.flush())

    def _said(self, text: str, settings: Any, *, phonemes: bool) -> bytes:
        """One piece as PCM, empty where the model has no sound for it."""
        if not self._words.any_in(text):
            return b""
        settings.phoneme_codepoints = [[ord(char) for char in text]] if phonemes else []
        said: list[bytes] = []

        def hear(samples: Samples, _fraction: float) -> int:
            said.append(pcm_of(samples))
            return 1  # go on

        self._tts.generate("" if phonemes else text, settings, hear)
        return b"".join(said)


def _library() -> Any:
    """sherpa-onnx, which is an extra."""
    try:
        import sherpa_onnx
    except ModuleNotFoundError as error:
        raise EngineDown("Neural voices need sherpa-onnx: install Myna with its extra 'neural'.") from error
    return sherpa_onnx


@functools.lru_cache(_REFERENCES_MAX)
def _reference(path: str, _changed_ns: int) -> tuple[Samples, int]:
    """A reference's samples and how many are a second, kept for the next sentence in this voice."""
    try:
        with wave.open(path, "rb") as file:
            fits = file.getnchannels() == 1 and file.getsampwidth() == _SIXTEEN_BITS and file.getnframes() > 0
            pcm, rate_hz = file.readframes(file.getnframes()), file.getframerate()
    except (wave.Error, EOFError) as error:
        raise EngineFailed("The reference is no wav.") from error
    if not fits:
        raise EngineFailed("The reference must be a mono wav of 16 bits.")
    return np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768), rate_hz


def _quiet() -> None:
    """What C++ prints is heard no more; Python's traces still are."""
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _warm(setup: bytes) -> Work:
    """Loads the model and gives the work."""
    model = msgspec.msgpack.decode(setup, type=SherpaModel)
    loaded = Model(model)
    languages = [*model.clones, *(voice.voice.language for voice in model.voices)]
    if any(map(is_chinese, languages)):
        reading.warm()
    decoder: msgspec.msgpack.Decoder[Describe | Say] = msgspec.msgpack.Decoder(Describe | Say)
    _quiet()

    def work(packed: bytes, tell: Tell) -> Answer:
        job = decoder.decode(packed)
        return Answer(loaded.facts, loaded.speak(job, tell) if isinstance(job, Say) else None)

    return work


if __name__ == "__main__":
    serve(_warm)
