"""Every kind of engine behaves alike, on the site and on a node."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import soundfile

from demo import tiny_voices
from myna.engines.interface import (
    Engine,
    EngineFailed,
    EngineLimits,
    UnsupportedUtterance,
    Utterance,
    VoiceReference,
)
from myna.engines.registry import DEFAULT_SPEECH, ESPEAK, KINDS, KOKORO, EngineConfig, site_engines
from myna.errors import ConfigError
from myna.node.benchmark import check
from tests.engines.conftest import names, started
from tests.engines.speech_upstream import SpeechUpstream
from tests.http_client.faulty_server import answer

LIMITS = EngineLimits(processes=1, queue_max=4, job_deadline_s=60)
TEXT = "你好，世界。"


def built(table: dict[str, Any], folder: Path = Path()) -> Engine:
    config: EngineConfig = msgspec.convert(table, EngineConfig)
    return config.build(LIMITS, folder)


@pytest.fixture(params=KINDS)
async def table(request: pytest.FixtureRequest, tmp_path: Path, upstream: SpeechUpstream) -> dict[str, Any]:
    """A table of node.toml for each kind."""
    upstream.voices = answer(b'{"voices": ["af_bella", "am_adam"]}')
    keys = {
        "espeak": {},
        "kokoro": {"folder": str(tiny_voices.neural(tmp_path / "kokoro", ["zf_xiaobei", "af_heart"]))},
        "sherpa": {"folder": str(tiny_voices.vits(tmp_path / "model"))},
        "openai": {"url": upstream.base},
    }
    return {"kind": request.param, **keys[request.param]}


@pytest.fixture
async def engine(table: dict[str, Any], tmp_path: Path) -> AsyncIterator[Engine]:
    async with started(built(table), writes=(tmp_path,)) as engine:
        yield engine


async def test_it_speaks_an_mp3_in_its_first_voice(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "said" / "a.mp3"
    spoken = await engine.speak(Utterance(TEXT, engine.voices[0].voice_id, 1.0), path, 60)
    assert engine.up() and not engine.full() and engine.label
    data = path.read_bytes()
    assert (len(data), hashlib.sha256(data).digest()) == (spoken.size_bytes, spoken.sha256)
    assert names(tmp_path / "said") == ["a.mp3"]
    assert soundfile.info(path).channels == 1
    assert soundfile.info(path).duration == pytest.approx(spoken.seconds, abs=0.1)


async def test_a_reference_is_refused_without_clones(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    reference = VoiceReference(tmp_path / "voice.wav", TEXT, "zh")
    assert engine.clones == ()
    with pytest.raises(UnsupportedUtterance):
        await engine.speak(Utterance(TEXT, engine.voices[0].voice_id, 1.0, reference=reference), path, 60)
    assert not path.exists()


async def test_a_closed_engine_fails(engine: Engine, tmp_path: Path) -> None:
    await engine.close()
    await engine.close()
    with pytest.raises(EngineFailed):
        await engine.speak(Utterance(TEXT, engine.voices[0].voice_id, 1.0), tmp_path / "a.mp3", 60)


async def test_a_node_checks_it(table: dict[str, Any], tmp_path: Path) -> None:
    (row,) = await check([built(table)], tmp_path)
    assert (row["ok"], row["error"], row["voice"]) == (True, "", row["voices"][0])  # type: ignore[index]


async def test_a_server_speaks_in_the_voices_that_are_named(upstream: SpeechUpstream) -> None:
    upstream.voices = answer(b'{"voices": ["af_bella", "am_adam"]}')
    engine = built({"kind": "openai", "url": upstream.base, "voices": ["am_adam"]})
    await engine.start()
    assert [voice.voice_id for voice in engine.voices] == ["am_adam"]
    await engine.close()
    engine = built({"kind": "openai", "url": upstream.base, "voices": ["nobody"]})
    with pytest.raises(EngineFailed, match="has no voice 'nobody'"):
        await engine.start()
    await engine.close()


async def test_the_key_of_a_server_is_read_from_the_environment(
    upstream: SpeechUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"kind": "openai", "url": upstream.base, "key_env": "SPEECH_KEY"}
    with pytest.raises(ConfigError, match="SPEECH_KEY is not set"):
        built(table)
    monkeypatch.setenv("SPEECH_KEY", "sk-1")
    engine = built(table)
    await engine.start()
    await engine.close()
    assert upstream.requests[0].header("authorization") == "Bearer sk-1"


def labels(speech: str, data: Path) -> dict[str, str]:
    return {name: engine.label for name, engine in site_engines(speech, data, LIMITS).items()}


def test_the_setting_of_the_site_names_its_engines(tmp_path: Path) -> None:
    folder = tiny_voices.vits(tmp_path / "model")
    assert labels("none", tmp_path) == labels("HTTP://127.0.0.1/v1", tmp_path) == {}
    assert labels("espeak", tmp_path) == {"espeak": "espeak"}
    assert labels(f"sherpa:{folder}", tmp_path) == {DEFAULT_SPEECH: f"vits {folder}"}


def test_by_default_kokoro_speaks_if_it_is_installed_and_espeak_is_the_fallback(tmp_path: Path) -> None:
    assert labels("auto", tmp_path) == {"espeak": "espeak"}
    tiny_voices.neural(tmp_path / "models" / "kokoro", ["zf_xiaobei"])
    assert labels("auto", tmp_path) == {KOKORO: "kokoro", ESPEAK: "espeak"}
    assert list(labels("auto", tmp_path)) == [KOKORO, ESPEAK]
    assert labels("kokoro", tmp_path) == {KOKORO: "kokoro"}


@pytest.mark.parametrize(
    ("speech", "message"),
    [
        ("festival:/voices", "'festival' is not an engine that speaks from a folder; there are"),
        ("openai:/voices", "'openai' is not an engine that speaks from a folder; there are"),
        ("sherpa:/nowhere", "folder: there is no /nowhere"),
        ("kokoro", r"folder: there is no model\.onnx in .*; get the model: myna models get kokoro"),
    ],
)
def test_a_setting_that_names_no_engine_is_refused(speech: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^MYNA_SPEECH: {message}"):
        site_engines(speech, tmp_path, LIMITS)


def test_a_model_that_only_clones_is_refused_as_the_setting_of_the_site(tmp_path: Path) -> None:
    folder = tiny_voices.zipvoice(tmp_path / "model")
    with pytest.raises(ConfigError, match=r"^MYNA_SPEECH: this model only clones voices"):
        site_engines(f"sherpa:{folder}", tmp_path, LIMITS)
