"""The files of a folder decide the family of its model; the error of an incomplete one names the missing."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from myna.engines.interface import EngineVoice
from myna.engines.sherpa.config import SherpaConfig
from myna.engines.sherpa.models import inspect
from myna.errors import ConfigError

VITS = ("model.onnx", "tokens.txt", "lexicon.txt")
PIPER = ("en_US-amy-low.onnx", "en_US-amy-low.onnx.json", "tokens.txt")
MATCHA = ("model-steps-3.onnx", "vocos-22khz-univ.onnx", "tokens.txt", "lexicon.txt")
KOKORO = (
    "model.int8.onnx",
    "voices.bin",
    "tokens.txt",
    "lexicon-us-en.txt",
    "lexicon-gb-en.txt",
    "lexicon-zh.txt",
)
ZIPVOICE = ("encoder.int8.onnx", "decoder.int8.onnx", "vocos_24khz.onnx", "tokens.txt", "lexicon.txt")
POCKET = (
    "lm_flow.int8.onnx",
    "lm_main.int8.onnx",
    "encoder.onnx",
    "decoder.int8.onnx",
    "text_conditioner.onnx",
    "vocab.json",
    "token_scores.json",
)


def _folder(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("世 sh i4\n" if name in ("lexicon.txt", "lexicon-zh.txt") else "world w\n")
    return folder


@pytest.mark.parametrize(
    ("names", "facts"),
    [
        (VITS, ("vits", False, (), "zh-CN")),
        (PIPER, ("vits", True, (), "")),
        (("model.onnx", "tokens.txt"), ("vits", False, (), "")),
        (MATCHA, ("matcha", False, (), "zh-CN")),
        (KOKORO, ("kokoro", False, (), "zh-CN")),
        (("model.onnx", "voices.bin", "tokens.txt", "lexicon-en-us.txt"), ("kokoro", False, (), "en-US")),
        (ZIPVOICE, ("zipvoice", False, ("zh",), "zh-CN")),
        ((*ZIPVOICE, "lexicon-en-us.txt"), ("zipvoice", False, ("zh", "en"), "zh-CN")),
        (POCKET, ("pocket", False, ("en",), "")),
    ],
)
def test_the_family_of_a_model_follows_from_its_files(
    tmp_path: Path, names: tuple[str, ...], facts: tuple[str, bool, tuple[str, ...], str]
) -> None:
    model = inspect(_folder(tmp_path / "model", *names))
    assert (model.family, model.phonemes, model.clones, model.language) == facts
    assert {name for used in model.files.values() for name in used} <= set(names)
    assert model.folder == str(tmp_path / "model")


def test_a_model_with_espeak_data_and_no_lexicon_takes_phonemes(tmp_path: Path) -> None:
    bare = _folder(tmp_path / "bare", "model.onnx", "voices.bin", "tokens.txt")
    (bare / "espeak-ng-data").mkdir()
    assert inspect(bare).phonemes
    (bare / "lexicon-en-us.txt").write_text("world w\n")
    assert not inspect(bare).phonemes


def test_the_smallest_precision_and_the_american_lexicon_are_preferred(tmp_path: Path) -> None:
    kokoro = inspect(_folder(tmp_path / "kokoro", *KOKORO, "model.onnx"))
    assert kokoro.files["model"] == ("model.int8.onnx",)
    assert kokoro.files["lexicon"] == ("lexicon-us-en.txt", "lexicon-zh.txt")


VOCODER = "voco*.onnx or hifigan*.onnx or *vocoder*.onnx"
MISSING = [
    *((names, "tokens.txt", "tokens.txt") for names in (VITS, MATCHA, KOKORO, ZIPVOICE)),
    (MATCHA, "vocos-22khz-univ.onnx", VOCODER),
    (KOKORO, "model.int8.onnx", "its model, a file *.onnx"),
    (ZIPVOICE, "encoder.int8.onnx", "encoder*.onnx"),
    (ZIPVOICE, "decoder.int8.onnx", "decoder*.onnx"),
    (ZIPVOICE, "vocos_24khz.onnx", VOCODER),
    (ZIPVOICE, "lexicon.txt", "lexicon.txt"),
    *((POCKET, name, name.split(".")[0] + "*.onnx") for name in POCKET if name.endswith(".onnx")),
    *((POCKET, name, name) for name in POCKET if name.endswith(".json")),
]


@pytest.mark.parametrize(("names", "missing", "said"), MISSING)
def test_the_error_of_an_incomplete_folder_names_what_is_missing(
    tmp_path: Path, names: tuple[str, ...], missing: str, said: str
) -> None:
    folder = _folder(tmp_path / "model", *(name for name in names if name != missing))
    with pytest.raises(ConfigError) as error:
        inspect(folder)
    assert str(error.value) == f"{folder} lacks {said}."


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (None, "There is no folder"),
        (("notes.txt",), "no model in it"),
        (("one.onnx", "two.onnx", "tokens.txt"), "several models in it, one.onnx and two.onnx: leave one"),
    ],
)
def test_a_folder_without_a_model_is_refused_with_the_reason(
    tmp_path: Path, names: tuple[str, ...] | None, said: str
) -> None:
    if names is not None:
        _folder(tmp_path / "model", *names)
    with pytest.raises(ConfigError, match=said):
        inspect(tmp_path / "model")


def _entry(text: str) -> SherpaConfig:
    (table,) = tomllib.loads(text)["engine"]
    return msgspec.convert(table, SherpaConfig)


def test_an_entry_of_node_toml_becomes_a_model_with_its_voices(tmp_path: Path) -> None:
    _folder(tmp_path / "vits-zh", *VITS)
    entry = _entry("""
        [[engine]]
        kind = "sherpa"
        folder = "vits-zh"
        threads = 3
        provider = "cuda"
        [[engine.voice]]
        id = "zh-tiny-1"
        speaker = 1
        name = "小禾"
        gender = "female"
        language = "zh-CN"
    """)
    model = entry.model(tmp_path)
    assert (model.threads, model.provider) == (3, "cuda") and model.folder == str(tmp_path / "vits-zh")
    (voice,) = model.voices
    assert (voice.voice, voice.speaker) == (
        EngineVoice(voice_id="zh-tiny-1", name="小禾", gender="female", language="zh-CN"),
        1,
    )


@pytest.mark.parametrize(
    "line",
    [
        "threads = 0",
        'provider = "abacus"',
        "thread = 1",
        "[[engine.voice]]",
        '[[engine.voice]]\nid="a b"\nname="a"\nlanguage="zh"',
    ],
)
def test_an_invalid_entry_is_refused(line: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        _entry(f'[[engine]]\nkind = "sherpa"\nfolder = "x"\n{line}')


def test_voices_for_a_model_that_only_clones_are_refused(tmp_path: Path) -> None:
    _folder(tmp_path / "model", *ZIPVOICE)
    entry = _entry(
        '[[engine]]\nkind = "sherpa"\nfolder = "model"\n[[engine.voice]]\nid="a"\nname="a"\nlanguage="zh-CN"'
    )
    with pytest.raises(ConfigError, match="no built-in voices"):
        entry.model(tmp_path)
