"""Speech servers and a stalled or failing disk: when calls end, and which files are left."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from myna.engines.interface import EngineBusy, EngineTimedOut, UtteranceRefused
from myna.engines.openai.engine import OpenAISpeech
from myna.files.disk_threads import QUEUE_MAX, THREADS, DiskExecutor
from tests.engines.conftest import HELLO, names, speak, until
from tests.engines.speech_upstream import SpeechUpstream
from tests.http_client.faulty_server import answer
from tests.rig.clocks import LoopClock
from tests.rig.disks import StalledDisk

pytestmark = pytest.mark.anyio

LONG_S = 600.0


async def _idle(disk: DiskExecutor) -> None:
    """Waits until every thread has finished its jobs."""
    everybody = threading.Barrier(THREADS)
    await asyncio.gather(*(disk.run(everybody.wait) for _ in range(THREADS)))
    await disk.run_metadata(lambda: None)


async def test_a_stalled_disk_is_a_timeout(
    engine: OpenAISpeech, disk: DiskExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It blocks nothing else, and leaves no file when it responds again."""
    asked, moves = threading.Event(), threading.Event()

    def block_forever(_: int) -> None:
        asked.set()
        assert moves.wait(LONG_S)

    monkeypatch.setattr("myna.files.atomic_file.os.fsync", block_forever)
    clock = LoopClock()
    call = asyncio.create_task(engine.speak(HELLO, tmp_path / "a.mp3", LONG_S))
    await until(asked.is_set)
    clock.move(LONG_S)

    with pytest.raises(EngineTimedOut, match=r"^The disk took too long to store the audio\.$"):
        await call

    assert await asyncio.to_thread(lambda: "at once") == "at once"
    moves.set()
    await _idle(disk)
    assert names(tmp_path) == []


async def test_a_full_disk_queue_refuses_calls(
    engine: OpenAISpeech, disk: DiskExecutor, upstream: SpeechUpstream, tmp_path: Path
) -> None:
    moves = threading.Event()
    blocked = [asyncio.ensure_future(disk.run(moves.wait)) for _ in range(THREADS + QUEUE_MAX)]
    await until(disk.full)
    with pytest.raises(EngineBusy):
        await speak(engine, tmp_path)
    assert upstream.requests == [] and names(tmp_path) == []
    moves.set()
    await asyncio.gather(*blocked)
    assert (await speak(engine, tmp_path)).seconds > 0


async def test_a_stalled_disk_does_not_delay_other_failures(
    engine: OpenAISpeech, disk: DiskExecutor, upstream: SpeechUpstream, tmp_path: Path
) -> None:
    moves = threading.Event()
    blocked = [asyncio.ensure_future(disk.run(moves.wait)) for _ in range(2 * THREADS)]
    upstream.speech = answer(b"", "422 Unprocessable Content")
    with pytest.raises(UtteranceRefused):
        await speak(engine, tmp_path)
    assert names(tmp_path) == []
    moves.set()
    await asyncio.gather(*blocked)


async def test_a_stalled_open_blocks_nothing_else(
    engine: OpenAISpeech,
    disk: DiskExecutor,
    upstream: SpeechUpstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stalled, really = StalledDisk(), Path.open

    def block_forever(path: Path, *args: Any, **kwargs: Any) -> object:
        return really(stalled.block(path), *args, **kwargs)

    monkeypatch.setattr("pathlib.Path.open", block_forever)
    clock = LoopClock()
    call = asyncio.create_task(engine.speak(HELLO, tmp_path / "a.mp3", LONG_S))
    await until(lambda: bool(stalled.calls))
    clock.move(LONG_S)
    await until(lambda: disk._metadata.queued == 1)
    clock.move(LONG_S)
    with pytest.raises(EngineTimedOut, match=r"^The disk took too long to store the audio\.$"):
        await call
    assert upstream.requests == []
    stalled.resume()
    await _idle(disk)
    assert len(stalled.calls) == 1 and names(tmp_path) == []
