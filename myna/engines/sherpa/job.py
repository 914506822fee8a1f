"""The jobs of the neural engine's children. A module that all of these processes import."""

from typing import Literal

import msgspec

from myna.engines.interface import EngineVoice, SpeechResult
from myna.engines.jobs import SpeechJob

Family = Literal["vits", "matcha", "kokoro", "zipvoice", "pocket"]
CLONERS = ("zipvoice", "pocket")
"""Families without built-in voices: they clone the voice of a reference."""


class SherpaVoice(msgspec.Struct, frozen=True):
    """A voice and its speaker number in the model."""

    voice: EngineVoice
    speaker: int


Provider = Literal["cpu", "cuda", "coreml", "directml"]
"""An execution provider of sherpa-onnx. Its standard wheels have only `cpu`."""


class SherpaModel(msgspec.Struct, frozen=True):
    """A model on this machine, see `models.py`.

    `files` maps fields of sherpa-onnx's configuration of the family to file names in `folder`. With
    `phonemes` the model takes phonemes instead of text. `language` is that of its lexicon, like zh-CN, or
    empty. If `voices` is empty, each speaker gets a default voice. `clones` are the languages, like zh, in
    which it can clone a voice.
    """

    family: Family
    folder: str
    files: dict[str, tuple[str, ...]]
    phonemes: bool
    language: str
    threads: int
    provider: Provider
    voices: tuple[SherpaVoice, ...]
    clones: tuple[str, ...]


class Describe(msgspec.Struct, frozen=True, tag="describe"):
    """Requests only the model's info."""


class ReferenceWav(msgspec.Struct, frozen=True):
    """A voice to clone: the path of a wav, encoded by `os.fsencode`, and its transcript."""

    wav: bytes
    transcript: str


class SpeakJob(SpeechJob, frozen=True, tag="speak"):
    """Speak `text`.

    `phonemes` are the text's pieces for a model that takes phonemes, else None. `language` is a BCP-47 code.
    `speaker` is ignored with a `reference`. `speed` is 0.25 to 4.
    """

    text: str
    phonemes: list[str] | None
    language: str
    speaker: int
    speed: float
    reference: ReferenceWav | None


class ModelInfo(msgspec.Struct, frozen=True):
    """Properties of the loaded model; `language` is an espeak-ng code like en-us, or empty."""

    speakers: int
    rate_hz: int
    language: str


class JobAnswer(msgspec.Struct, frozen=True):
    """`speech` is set for a SpeakJob."""

    info: ModelInfo
    speech: SpeechResult | None = None
