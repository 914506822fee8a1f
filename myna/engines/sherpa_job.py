"""What the neural engine and its children say to each other; none of them can load another's libraries."""

from typing import Literal

import msgspec

from myna.engines.spoken import Spoken, Voice

Family = Literal["vits", "matcha", "kokoro", "zipvoice", "pocket"]
CLONERS = ("zipvoice", "pocket")
"""Families without voices of their own: they speak in the voice of a reference."""


class SherpaVoice(msgspec.Struct, frozen=True):
    """A voice and the number that the model knows it by."""

    voice: Voice
    speaker: int


Provider = Literal["cpu", "cuda", "coreml", "directml"]
"""What computes, in sherpa-onnx's words. Its ordinary wheels know `cpu` alone."""


class SherpaModel(msgspec.Struct, frozen=True):
    """A model on this machine, see `sherpa_models.py`.

    `files` has the names in `folder` by what sherpa-onnx's configuration of the family calls them. The model
    takes `phonemes` instead of text where it knows no words; `language` is that of the words it knows, like
    zh-CN, or empty. `voices` may be empty: then a voice is made up for each speaker. `clones` are languages,
    like zh, that it can speak in the voice of a reference.
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
    """Asks for the facts and nothing else."""


class Manner(msgspec.Struct, frozen=True):
    """A voice to speak in: a wav by its path as `os.fsencode` gives it, and what is said in it."""

    wav: bytes
    transcript: str


class Say(msgspec.Struct, frozen=True, tag="say"):
    """Say `text` into `target` by way of `part`, in one folder; both absolute, as `os.fsencode` gives them.

    `phonemes` are the text's pieces for a model that takes them, else None. `language` is a BCP-47 code.
    `speaker` doesn't matter with a `manner`. `speed` is 0.25 to 4.
    """

    text: str
    phonemes: list[str] | None
    language: str
    speaker: int
    speed: float
    manner: Manner | None
    part: bytes
    target: bytes


class Facts(msgspec.Struct, frozen=True):
    """What the loaded model says of itself; `language` is an espeak-ng code like en-us, or empty."""

    speakers: int
    rate_hz: int
    language: str


class Answer(msgspec.Struct, frozen=True):
    """`spoken` is there for a Say."""

    facts: Facts
    spoken: Spoken | None = None


class PhonemesJob(msgspec.Struct, frozen=True):
    """Asks how the text sounds in the language, an espeak-ng or BCP-47 code."""

    text: str
    language: str


class Phonemes(msgspec.Struct, frozen=True):
    """The text's pieces in IPA, with the punctuation that they had."""

    pieces: list[str]
