"""An engine that does not start is tried again while another one speaks, and says why it does not."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from myna.engines.interface import EngineUnavailable
from myna.engines.registry import ESPEAK, KOKORO
from myna.lib.telemetry import metrics
from myna.settings import Settings
from myna.speech import site_engines
from myna.speech.site_engines import SiteEngines, speech_engines
from tests.store.stalls import until

pytestmark = pytest.mark.anyio


class FailingEngine:
    """Starts after so many failures."""

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self._started = False

    async def start(self, files: Any = None) -> None:
        if self._failures:
            self._failures -= 1
            raise EngineUnavailable("no memory for the model")
        self._started = True

    def up(self) -> bool:
        return self._started

    async def close(self) -> None:
        self._started = False


@pytest.fixture
async def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SiteEngines]:
    monkeypatch.setattr(site_engines, "RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(site_engines, "WATCH_S", 0.01)
    metrics.ENGINE_UP.labels(KOKORO).set(0)  # another test of this process may have set it
    both: Any = {KOKORO: FailingEngine(3), ESPEAK: FailingEngine(0)}
    made = SiteEngines(Settings(data=str(tmp_path)), both, tmp_path)
    yield made
    await made.close()


async def test_an_engine_that_does_not_start_is_tried_again(engines: SiteEngines) -> None:
    await engines.start()
    assert engines.down == {KOKORO: "no memory for the model"}

    async def is_up() -> bool:
        return REGISTRY.get_sample_value("myna_engine_up", {"engine": KOKORO}) == 1

    await until(is_up, "the engine has started")
    assert engines.down == {}


async def test_an_engine_of_another_process_that_has_started_is_not_down(
    engines: SiteEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_engines, "RETRY_FIRST_S", 60)
    await engines.start()
    assert KOKORO in engines.down
    monkeypatch.setattr(FailingEngine, "up", lambda self: True)

    async def is_up() -> bool:
        return engines.down == {}

    await until(is_up, "the engine is up")


async def test_the_engine_that_was_asked_for_must_start(tmp_path: Path) -> None:
    only: Any = {KOKORO: FailingEngine(1)}
    with pytest.raises(EngineUnavailable, match="no memory"):
        await SiteEngines(Settings(data=str(tmp_path), speech="kokoro"), only, tmp_path).start()


@pytest.mark.parametrize("processes", [1, 3])
async def test_the_processes_of_a_voice_can_be_set(tmp_path: Path, processes: int) -> None:
    settings = Settings(data=str(tmp_path), speech="espeak", speech_processes=processes)
    engines = speech_engines(settings, {})
    running = SiteEngines(settings, engines, tmp_path)
    await running.start()
    assert len(engines[ESPEAK].pids()) == processes
    await running.close()
