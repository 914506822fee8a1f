"""The child program that speaks with a neural model, run by `pool/child_main.py`.

sherpa-onnx may end the process over a bad model, and a large model takes long to load. This module relies on
the behaviour of sherpa-onnx 2.0: a failure gives no samples and a line on stderr; an unknown speaker is
replaced by the first; a result's samples are a list, those of the callback an array; and its output while it
speaks contains the text.

Piper's voices are used as they are published, NAME.onnx with NAME.onnx.json. sherpa-onnx reads the symbols of
a model from tokens.txt and its properties from the metadata in the model: both are made here from the JSON,
in files without a name.
"""

import contextlib
import functools
import os
import wave
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import regex

from myna.engines.audio.loudness import Sound, levelled
from myna.engines.audio.stretch import Stretch
from myna.engines.interface import (
    EngineFailed,
    EngineUnavailable,
    NothingSpoken,
    SpeechResult,
    UnsupportedUtterance,
    UtteranceRefused,
)
from myna.engines.pool.child_main import RunningJob, Work, silence_libraries
from myna.engines.sherpa.job import Describe, JobAnswer, ModelInfo, SherpaModel, SpeakJob
from myna.engines.sound import Sink, is_audible, make_sound, pcm_of
from myna.engines.text.reading import pieces, readable
from myna.lib.sandbox import unnamed_file

_PAUSE_S: Final = 0.25  # between sentences, at speed 1
_STEPS: Final = {"zipvoice": 4}  # the step count of the distilled model
_FIXED_SPEED: Final = ("pocket",)  # families whose speed can't be set
_REFERENCES_MAX: Final = 16
_SAMPLE_BYTES: Final = 2
_WORD: Final = regex.compile(r"\p{Script=Han}|[^\W_]+(?:['’][^\W_]+)*")
_SILENT_SENTENCE: Final = "This voice has no sound for a sentence of the text."
# onnx.proto: ModelProto.metadata_props, and the key and value of its entries.
_METADATA_TAG: Final = b"\x72"
_KEY_TAG: Final = b"\x0a"
_VALUE_TAG: Final = b"\x12"


class LoadedModel:
    """A loaded model. Raises EngineUnavailable; sherpa-onnx may end the process instead."""

    def __init__(self, model: SherpaModel) -> None:
        self._model = model
        self._sherpa = _library()
        # Files are given as comma-separated lists, and the folder's path may have a comma.
        os.chdir(model.folder)
        files = {role: ",".join(names) for role, names in model.files.items()}
        if model.family == "vits" and "tokens" not in files:
            with _piper_files(Path(files["model"])) as made:
                self._tts = self._loaded(made)
        else:
            self._tts = self._loaded(files)
        self._words = _words_in(map(Path, model.files.get("lexicon", ())))
        self.info = ModelInfo(max(1, self._tts.num_speakers), self._tts.sample_rate, self._tts.lang)

    def _loaded(self, files: dict[str, str]) -> Any:
        model = self._model
        family = getattr(self._sherpa, f"OfflineTts{model.family.title()}ModelConfig")(**files)
        config = self._sherpa.OfflineTtsConfig(
            model=self._sherpa.OfflineTtsModelConfig(
                **{model.family: family}, num_threads=model.threads, provider=model.provider
            )
        )
        if not config.validate():
            raise EngineUnavailable("The model's files are not valid; the engine's stderr says why.")
        return self._sherpa.OfflineTts(config)

    def speak(self, job: SpeakJob, running: RunningJob) -> SpeechResult:
        """Makes the job's sound. Raises EngineFailed or OSError."""
        into = functools.partial(self._speak_into, job, running)
        return make_sound(job, self.info.rate_hz, running.part, into)

    def _settings(self, job: SpeakJob) -> Any:
        """Raises UnsupportedUtterance for an unknown speaker."""
        if job.reference is None and not 0 <= job.speaker < self.info.speakers:
            raise UnsupportedUtterance("The model does not have this speaker.")
        settings = self._sherpa.GenerationConfig()
        settings.sid = job.speaker if job.reference is None else 0
        settings.speed = 1.0 if self._model.family in _FIXED_SPEED else job.speed
        settings.num_steps = _STEPS.get(self._model.family, settings.num_steps)
        if job.reference is not None:
            path = os.fsdecode(job.reference.wav)
            samples, rate_hz = _reference_samples(path, Path(path).stat().st_mtime_ns)
            settings.reference_audio = samples
            settings.reference_sample_rate = rate_hz
            settings.reference_text = readable(job.reference.transcript, job.language)
        return settings

    def _speak_into(self, job: SpeakJob, running: RunningJob, sink: Sink) -> None:
        """Raises NothingSpoken if all of the sound is silent, before the sink was called; UtteranceRefused if
        a piece has no sound, before it was called if the lexicon tells."""
        settings = self._settings(job)
        texts = pieces(job.text, job.language) if job.phonemes is None else job.phonemes
        spoken = [
            not self._words or any(word in self._words for word in _WORD.findall(text.lower()))
            for text in texts
        ]
        if any(spoken) and not all(spoken):
            raise UtteranceRefused(_SILENT_SENTENCE)
        stretch = Stretch(self.info.rate_hz, 1 / job.speed if self._model.family in _FIXED_SPEED else 1)
        pause = bytes(2 * round(_PAUSE_S / settings.speed * self.info.rate_hz))
        total, done, missing, audible, unsent = sum(map(len, texts)), 0, False, False, b""
        for text in texts if any(spoken) else ():
            samples = self._generate(text, settings, phonemes=job.phonemes is not None)
            missing = missing or not len(samples)
            audible = audible or is_audible(pcm_of(samples))
            if missing and audible:
                raise UtteranceRefused(_SILENT_SENTENCE)
            pcm = pcm_of(levelled(samples, self.info.rate_hz))
            unsent += pcm if done == 0 else pause + pcm
            if audible:
                sink(stretch.feed(unsent))
                unsent = b""
            done += len(text)
            running.progress(done / total)
        if not audible:
            raise NothingSpoken("This voice has no sound for the text.")
        sink(stretch.flush())

    def _generate(self, text: str, settings: Any, *, phonemes: bool) -> Sound:
        """The sound of one piece, empty if the model has none for it."""
        settings.phoneme_codepoints = [[ord(char) for char in text]] if phonemes else []
        blocks: list[Sound] = []

        def receive(samples: Sound, _fraction: float) -> int:
            blocks.append(samples.copy())
            return 1  # continue

        self._tts.generate("" if phonemes else text, settings, receive)
        return np.concatenate([*blocks, np.empty(0, np.float32)])


def _library() -> Any:
    """sherpa-onnx, which is an extra."""
    try:
        import sherpa_onnx
    except ModuleNotFoundError as error:
        raise EngineUnavailable(
            "Neural voices need sherpa-onnx: install Myna with its extra 'neural'."
        ) from error
    return sherpa_onnx


@functools.lru_cache(_REFERENCES_MAX)
def _reference_samples(path: str, _changed_ns: int) -> tuple[Sound, int]:
    """A reference's samples and their rate, cached for the next text in this voice."""
    try:
        with wave.open(path, "rb") as file:
            valid = (
                file.getnchannels() == 1 and file.getsampwidth() == _SAMPLE_BYTES and file.getnframes() > 0
            )
            pcm, rate_hz = file.readframes(file.getnframes()), file.getframerate()
    except (wave.Error, EOFError) as error:
        raise EngineFailed("The reference is not a wav.") from error
    if not valid:
        raise EngineFailed("The reference must be a mono wav of 16 bits.")
    return np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768), rate_hz


def _words_in(lexicons: Iterable[Path]) -> set[str]:
    """The words of lexicon files. The word of a line ends at `||`, or at the first space or tab."""
    known: set[str] = set()
    for lexicon in lexicons:
        with lexicon.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                word, separator, _ = line.partition("||")
                if not separator:
                    word = line.partition("\t")[0].split(" ", 1)[0]
                known.update(_WORD.findall(word.lower()))
    return known


class _Espeak(msgspec.Struct):
    voice: str


class _Audio(msgspec.Struct):
    sample_rate: int


class _Language(msgspec.Struct):
    name_english: str = "English"


class PiperConfig(msgspec.Struct):
    """The part of NAME.onnx.json that is used."""

    audio: _Audio
    espeak: _Espeak
    phoneme_id_map: dict[str, list[int]]
    num_speakers: int = 1
    language: _Language = msgspec.field(default_factory=_Language)


@contextlib.contextmanager
def _piper_files(model: Path) -> Iterator[dict[str, str]]:
    """The paths of the model and its tokens, for sherpa-onnx, until the end of the block. Raises
    EngineUnavailable for a JSON file that isn't Piper's."""
    try:
        config = msgspec.json.decode(model.with_name(f"{model.name}.json").read_bytes(), type=PiperConfig)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EngineUnavailable(f"{model.name}.json is not the description of a Piper voice.") from error
    symbols = ((symbol, numbers[0]) for symbol, numbers in config.phoneme_id_map.items() if numbers)
    tokens = "".join(f"{symbol} {number}\n" for symbol, number in symbols).encode()
    with (
        unnamed_file((model.read_bytes(), _metadata(config))) as model_path,
        unnamed_file((tokens,)) as tokens_path,
    ):
        yield {"model": model_path, "tokens": tokens_path}


def _metadata(config: PiperConfig) -> bytes:
    """The properties as fields of the model's protobuf message, to which they can be appended."""
    properties = {
        "model_type": "vits",
        "comment": "piper",
        "language": config.language.name_english,
        "voice": config.espeak.voice,
        "has_espeak": "1",
        "n_speakers": str(config.num_speakers),
        "sample_rate": str(config.audio.sample_rate),
    }
    entries = (_field(_KEY_TAG, key) + _field(_VALUE_TAG, value) for key, value in properties.items())
    return b"".join(_METADATA_TAG + _length(entry) + entry for entry in entries)


def _field(tag: bytes, text: str) -> bytes:
    encoded = text.encode()
    return tag + _length(encoded) + encoded


def _length(content: bytes) -> bytes:
    """The length as a protobuf varint."""
    left, encoded = len(content), b""
    while left > 0x7F:
        encoded += bytes([left & 0x7F | 0x80])
        left >>= 7
    return encoded + bytes([left])


def warm(setup: bytes) -> Work:
    """Loads the model and returns the work."""
    model = msgspec.msgpack.decode(setup, type=SherpaModel)
    loaded = LoadedModel(model)
    decoder: msgspec.msgpack.Decoder[Describe | SpeakJob] = msgspec.msgpack.Decoder(Describe | SpeakJob)
    silence_libraries()

    def work(packed: bytes, running: RunningJob) -> JobAnswer:
        job = decoder.decode(packed)
        return JobAnswer(loaded.info, loaded.speak(job, running) if isinstance(job, SpeakJob) else None)

    return work
