"""Detects sherpa-onnx models in folders, as they are downloaded and unpacked, by their files.

vits       one model, tokens.txt, and lexicon.txt, or espeak-ng-data/ or *.onnx.json, or none of them; or a
           voice of Piper as published, NAME.onnx and NAME.onnx.json
matcha     an acoustic model, tokens.txt, a vocoder, and lexicon.txt or espeak-ng-data/
kokoro     one model, tokens.txt, voices.bin, and lexicon*.txt or espeak-ng-data/
zipvoice   encoder, decoder, vocoder, tokens.txt, lexicon.txt
pocket     lm_main, lm_flow, encoder, decoder, text_conditioner, vocab.json, token_scores.json

Of the same model in two precisions the smaller, `.int8.onnx`, is used. A lexicon is used if there is one.
espeak-ng-data/ only shows that the model takes phonemes: Myna uses the espeak-ng that it ships.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import regex

from myna.engines.sherpa.job import CLONERS, Family, SherpaModel
from myna.errors import ConfigError

_VOCODERS: Final = ("voco*.onnx", "hifigan*.onnx", "*vocoder*.onnx")
_OTHER_MODELS: Final = (*_VOCODERS, "lm_*.onnx", "encoder*.onnx", "decoder*.onnx", "text_*.onnx")
_HAN: Final = regex.compile(r"\p{Script=Han}")
_ENGLISH: Final = ("lexicon-en*.txt", "lexicon-us-en.txt", "lexicon-gb-en.txt")
_MODEL: Final = ()
"""The only model file that is not a vocoder or another part."""
_TOKENS: Final = ("tokens.txt",)
_FILES: Final[dict[Family, dict[str, tuple[str, ...]]]] = {
    "vits": {"model": _MODEL, "tokens": _TOKENS},
    "matcha": {"acoustic_model": _MODEL, "vocoder": _VOCODERS, "tokens": _TOKENS},
    "kokoro": {"model": _MODEL, "voices": ("voices.bin",), "tokens": _TOKENS},
    "zipvoice": {
        "encoder": ("encoder*.onnx",),
        "decoder": ("decoder*.onnx",),
        "vocoder": _VOCODERS,
        "tokens": _TOKENS,
        "lexicon": ("lexicon.txt",),
    },
    "pocket": {
        "lm_flow": ("lm_flow*.onnx",),
        "lm_main": ("lm_main*.onnx",),
        "encoder": ("encoder*.onnx",),
        "decoder": ("decoder*.onnx",),
        "text_conditioner": ("text_conditioner*.onnx",),
        "vocab_json": ("vocab.json",),
        "token_scores_json": ("token_scores.json",),
    },
}
"""The patterns of the files that a family needs."""
_RELEASES: Final = "https://github.com/k2-fsa/sherpa-onnx/releases/download/"


def inspect(folder: Path) -> SherpaModel:
    """The model in the folder, on the CPU with two threads and without voices. Raises ConfigError."""
    if not folder.is_dir():
        raise ConfigError(f"There is no folder {folder}.")
    family = _family(folder)
    files = _files(family, folder)
    # Other models without a lexicon take characters.
    with_espeak = (folder / "espeak-ng-data").is_dir() or bool(_names(folder, "*.onnx.json"))
    return SherpaModel(
        family=family,
        folder=str(folder.absolute()),
        files=files,
        phonemes=with_espeak and family not in CLONERS and "lexicon" not in files,
        language=_language(folder, files.get("lexicon", ())),
        threads=2,
        provider="cpu",
        voices=(),
        clones=_clones(family, folder),
    )


def _family(folder: Path) -> Family:
    if _names(folder, "lm_*.onnx"):
        return "pocket"
    if (folder / "voices.bin").is_file():
        return "kokoro"
    if _names(folder, "encoder*.onnx") or _names(folder, "decoder*.onnx"):
        return "zipvoice"
    if _names(folder, "model-steps-*.onnx") or _names(folder, *_VOCODERS):
        return "matcha"
    if _names(folder, "*.onnx"):
        return "vits"
    raise ConfigError(f"{folder} has no model in it: there is no file *.onnx.")


def _clones(family: Family, folder: Path) -> tuple[str, ...]:
    if family == "pocket":
        return ("en",)
    if family == "zipvoice":
        return ("zh", "en") if _names(folder, *_ENGLISH) else ("zh",)
    return ()


def _files(family: Family, folder: Path) -> dict[str, tuple[str, ...]]:
    if family == "vits" and not (folder / "tokens.txt").is_file():
        (model,) = _model(folder)
        if (folder / f"{model}.json").is_file():
            return {"model": (model,)}
    files = {
        role: _one(folder, *patterns) if patterns else _model(folder)
        for role, patterns in _FILES[family].items()
    }
    if family == "zipvoice":
        return files | {"lexicon": files["lexicon"] + _names(folder, "lexicon-*.txt")}
    return files if family == "pocket" else files | _lexicon(folder, several=family != "vits")


def _model(folder: Path) -> tuple[str, ...]:
    others = set(_names(folder, *_OTHER_MODELS))
    models = [name for name in _names(folder, "*.onnx") if name not in others]
    if not models:
        raise ConfigError(f"{folder} lacks its model, a file *.onnx.")
    if len({name.replace(".int8.onnx", ".onnx") for name in models}) > 1:
        raise ConfigError(f"{folder} has several models in it, {' and '.join(models)}: leave one.")
    return (_smallest(models),)


def _lexicon(folder: Path, *, several: bool) -> dict[str, tuple[str, ...]]:
    """The lexicon files. Of American and British English only the American one is used."""
    names = _names(folder, "lexicon*.txt")
    if "lexicon-us-en.txt" in names and "lexicon-gb-en.txt" in names:
        names = tuple(name for name in names if name != "lexicon-gb-en.txt")
    if not names:
        return {}
    used = names if several else (("lexicon.txt",) if "lexicon.txt" in names else names[:1])
    return {"lexicon": used}


def _language(folder: Path, lexicon: tuple[str, ...]) -> str:
    """Chinese if the lexicon has a Han character, else English; empty without a lexicon."""
    if any(_HAN.search((folder / name).read_text("utf-8", "replace")) for name in lexicon):
        return "zh-CN"
    return "en-US" if lexicon else ""


def _one(folder: Path, *patterns: str) -> tuple[str, ...]:
    names = _names(folder, *patterns)
    if not names:
        raise ConfigError(f"{folder} lacks {' or '.join(patterns)}.")
    return (_smallest(names),)


def _smallest(names: Sequence[str]) -> str:
    return min(names, key=lambda name: (not name.endswith(".int8.onnx"), name))


def _names(folder: Path, *patterns: str) -> tuple[str, ...]:
    found = {path.name for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return tuple(sorted(found))


class KnownModel(msgspec.Struct, frozen=True):
    """A model of the releases of sherpa-onnx. `size_mb` is the approximate size of its archive; `beside` are
    the URLs of files that belong in its folder."""

    name: str
    kind: str
    size_mb: int
    licence: str
    languages: tuple[str, ...]
    beside: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"{_RELEASES}tts-models/{self.name}.tar.bz2"


KNOWN: Final = (
    KnownModel("vits-icefall-zh-aishell3", "174 voices", 32, "Apache-2.0", ("zh",)),
    KnownModel("kokoro-int8-multi-lang-v1_1", "103 voices", 147, "Apache-2.0", ("zh", "en")),
    KnownModel("kokoro-int8-en-v0_19", "11 voices", 103, "Apache-2.0", ("en",)),
    KnownModel(
        "matcha-icefall-zh-baker",
        "1 voice",
        75,
        "trained on data for non-commercial use",
        ("zh",),
        (f"{_RELEASES}vocoder-models/vocos-22khz-univ.onnx",),
    ),
    KnownModel(
        "sherpa-onnx-zipvoice-distill-int8-zh-en-emilia",
        "clones",
        148,
        "Apache-2.0",
        ("zh", "en"),
        (f"{_RELEASES}vocoder-models/vocos_24khz.onnx", f"{_RELEASES}tts-models/lexicon-en-us.txt"),
    ),
    KnownModel("sherpa-onnx-pocket-tts-int8-2026-01-26", "clones", 98, "CC-BY-4.0", ("en",)),
)
