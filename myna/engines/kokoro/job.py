"""The jobs of Kokoro's children, and their results. A module that all of the processes import."""

from typing import Literal

import msgspec

from myna.engines.interface import STREAM_RATE_HZ, WordTime

MODEL_FILE = "model.onnx"
VOICES_FOLDER = "voices"
"""In the folder of a model. A voice `NAME` is the file `NAME.bin`."""
RATE_HZ = STREAM_RATE_HZ
Provider = Literal["cpu", "cuda", "coreml"]
"""An execution provider of onnxruntime. Its standard wheels have `cpu`, on macOS also `coreml`."""


class KokoroModel(msgspec.Struct, frozen=True):
    """A model on this machine: its folder, encoded by `os.fsencode`, and how to compute. `signed`: the
    processor has VNNI."""

    folder: bytes
    threads: int
    provider: Provider
    signed: bool = False


class SpokenWord(msgspec.Struct, frozen=True):
    """A word of a text, with the marks and spaces after it, and which symbols of a piece say it."""

    text: str
    begin: int
    end: int


class Piece(msgspec.Struct, frozen=True):
    """Phonemes that are spoken in one run of the model, all of its vocabulary, and the words that they say.

    `mixed` is true in a text in which a Mandarin voice speaks English words. `pause_s` is the silence after
    this piece.
    """

    phonemes: str
    mixed: bool
    pause_s: float
    words: list[SpokenWord] = []


class StyleShare(msgspec.Struct, frozen=True):
    """A part of a style: the name of one of the model's voices, and its shares, 0 to 1, of the sound and of
    the prosody (length and pitch)."""

    voice: str
    sound: float
    prosody: float


class TextJob(msgspec.Struct, frozen=True):
    """Convert `text` to phonemes for a voice of this language, such as zh-CN. `begin_early`: the first piece
    is short, since someone waits for its sound."""

    text: str
    language: str
    begin_early: bool = False


class TextPieces(msgspec.Struct, frozen=True):
    """The text in the order in which it is spoken, and how many letters and signs of which scripts are not
    spoken. `reading` is the text in words."""

    pieces: list[Piece]
    unspoken: dict[str, int]
    reading: str


class PieceJob(msgspec.Struct, frozen=True):
    """Speak `phonemes`, symbols of the model, in the sum of the styles' shares. `speed` is 0.25 to 4. The
    times of `words` are wanted. `mixed` as in a Piece."""

    phonemes: str
    style: list[StyleShare]
    speed: float
    words: list[SpokenWord] = []
    mixed: bool = False


class PieceSound(msgspec.Struct, frozen=True):
    """Mono PCM of 16 bits at RATE_HZ, without silence at its ends, and how long the process worked on it. The
    times of the words are missing if the model does not tell them."""

    pcm: bytes
    work_s: float
    words: list[WordTime] = []
