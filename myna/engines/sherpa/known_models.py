"""Models that are known to work, for `myna models`. Myna downloads none of them."""

from typing import Final

import msgspec

_RELEASES: Final = "https://github.com/k2-fsa/sherpa-onnx/releases/download/"
_VOICES: Final = f"{_RELEASES}tts-models/"
_VOCODERS: Final = f"{_RELEASES}vocoder-models/"
_ENGLISH_WORDS: Final = f"{_VOICES}lexicon-en-us.txt"


class KnownModel(msgspec.Struct, frozen=True):
    """A model, its URL, and the URLs of files that belong in its folder. `size_mb` is the approximate size of
    its archive."""

    name: str
    kind: str
    size_mb: int
    licence: str
    languages: tuple[str, ...]
    url: str
    beside: tuple[str, ...] = ()


def _known(
    name: str, kind: str, size_mb: int, licence: str, languages: str, beside: tuple[str, ...] = ()
) -> KnownModel:
    return KnownModel(
        name=name,
        kind=kind,
        size_mb=size_mb,
        licence=licence,
        languages=tuple(languages.split()),
        url=f"{_VOICES}{name}.tar.bz2",
        beside=beside,
    )


KNOWN: Final = (
    _known("vits-icefall-zh-aishell3", "174 voices", 32, "Apache-2.0", "zh"),
    _known("kokoro-int8-multi-lang-v1_1", "103 voices", 147, "Apache-2.0", "zh en"),
    _known("kokoro-int8-en-v0_19", "11 voices", 103, "Apache-2.0", "en"),
    _known(
        "matcha-icefall-zh-baker",
        "1 voice",
        75,
        "trained on data for non-commercial use",
        "zh",
        (f"{_VOCODERS}vocos-22khz-univ.onnx",),
    ),
    _known(
        "sherpa-onnx-zipvoice-distill-int8-zh-en-emilia",
        "clones",
        148,
        "Apache-2.0",
        "zh en",
        (f"{_VOCODERS}vocos_24khz.onnx", _ENGLISH_WORDS),
    ),
    _known("sherpa-onnx-pocket-tts-int8-2026-01-26", "clones", 98, "CC-BY-4.0", "en"),
)
