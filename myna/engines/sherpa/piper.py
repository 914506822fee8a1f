"""Piper's voices as they are published: NAME.onnx with NAME.onnx.json.

sherpa-onnx reads the symbols of a model from tokens.txt and its properties from the metadata in the model.
Both are made here from the JSON, in files without a name.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from myna.engines.interface import EngineUnavailable
from myna.lib.sandbox import unnamed_file

# onnx.proto: ModelProto.metadata_props, and the key and value of its entries.
_METADATA_TAG: Final = b"\x72"
_KEY_TAG: Final = b"\x0a"
_VALUE_TAG: Final = b"\x12"


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
def files(model: Path) -> Iterator[dict[str, str]]:
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
