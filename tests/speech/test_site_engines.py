"""The engines of a site: several workers share those of one process, which `myna serve` keeps running, and an
engine that does not start is tried again while another one speaks."""

import asyncio
import os
import select
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import soundfile
from prometheus_client import REGISTRY

from myna.engines.interface import (
    STREAM_RATE_HZ,
    CallerDisconnected,
    Client,
    EngineCrashed,
    EngineLimits,
    EngineTimedOut,
    EngineUnavailable,
    NothingSpoken,
    SoundPart,
    SoundParts,
    Utterance,
)
from myna.engines.kokoro.engine import PROCESSES_MAX, Kokoro
from myna.engines.kokoro.job import KokoroModel
from myna.engines.registry import ESPEAK, KOKORO
from myna.lib.telemetry import metrics
from myna.settings import Settings, load
from myna.speech import engine_host, shared_engines, site_engines
from myna.speech.engine_host import host_process
from myna.speech.shared_engines import SOCKET, SharedEngine
from myna.speech.site_engines import SiteEngines, speech_engines
from tests.rig import processes
from tests.rig.waiting import until

VOICE = "en-us-female-1"
LONG = "This sentence is spoken again and again. " * 2000


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of two workers, which have no engine of their own."""
    for name, value in (("DATA", str(tmp_path)), ("SPEECH", "espeak"), ("SPEECH_PROCESSES", "2")):
        monkeypatch.setenv(f"MYNA_{name}", value)
    return load(os.environ)[0]


@pytest.fixture
async def workers(settings: Settings) -> AsyncIterator[list[Any]]:
    """The engine of each of two workers."""
    with host_process() as socket:
        engines = [speech_engines(settings, {SOCKET: socket})[ESPEAK] for _ in range(2)]
        await asyncio.gather(*(engine.start() for engine in engines))
        yield engines
        await asyncio.gather(*(engine.close() for engine in engines))


def host_pid() -> int:
    (host,) = [
        pid for pid in processes.children(os.getpid()) if "engine_host" in processes.proc_file(pid, "cmdline")
    ]
    return host


def speakers() -> set[int]:
    """The processes that speak."""
    return {pid for pid in processes.children(host_pid()) if "espeak" in processes.proc_file(pid, "cmdline")}


async def test_workers_speak_by_the_same_processes(workers: list[Any], tmp_path: Path) -> None:
    folder = tmp_path / "audio"
    paths = [folder / "one.mp3", folder / "two.mp3"]
    unspoken: dict[str, int] = {}
    client = Client(unspoken=unspoken.update)
    spoken = await asyncio.gather(
        *(
            engine.speak(Utterance("Good morning \u2192 \u2605.", VOICE, 1.0), path, 60, client)
            for engine, path in zip(workers, paths, strict=True)
        )
    )
    assert [path.stat().st_size for path in paths] == [result.size_bytes for result in spoken]
    assert unspoken == {"Sign": 1}
    assert len(speakers()) == 2
    with pytest.raises(NothingSpoken):
        await workers[0].speak(Utterance("\u0378", VOICE, 1.0), paths[0], 60)


async def test_a_client_takes_the_sound_while_it_is_spoken(workers: list[Any], tmp_path: Path) -> None:
    taken: list[SoundPart] = []

    async def take(parts: SoundParts) -> SoundParts:
        async for part in parts:
            taken.append(part)
            yield part

    path = tmp_path / "audio" / "three.mp3"
    result = await workers[0].speak(Utterance(LONG[:2000], VOICE, 1.0), path, 60, Client(relay=take))
    assert len(taken) > 10
    sound, rate_hz = soundfile.read(path)
    assert rate_hz == STREAM_RATE_HZ and abs(len(sound) / rate_hz - result.seconds) < 0.2


def test_all_workers_admit_no_more_than_the_processes_that_an_engine_has() -> None:
    """Kokoro has a few processes, on whatever machine."""
    limits = EngineLimits(processes=16, queue_max=40, job_deadline_s=60)
    kokoro = Kokoro(KokoroModel(b"", 1, "cpu"), (), limits)
    engine = SharedEngine(KOKORO, kokoro, "", workers=4, files_max=4)
    assert engine.admission is not None
    assert 4 * engine.admission.processes == PROCESSES_MAX


async def test_cancelled_and_abandoned_work_ends(workers: list[Any], tmp_path: Path) -> None:
    before = speakers()
    long = Utterance(LONG, VOICE, 1.0)
    paths = [tmp_path / "audio" / f"{number}.mp3" for number in range(2)]
    running = [
        asyncio.create_task(engine.speak(long, path, 60)) for engine, path in zip(workers, paths, strict=True)
    ]

    async def both_write() -> bool:
        return len(list((tmp_path / "audio").glob(".*.part"))) == 2

    await until(both_write, "both texts are spoken")
    left = asyncio.Event()

    async def disconnected() -> None:
        await left.wait()

    waiting = asyncio.create_task(
        workers[1].speak(long, tmp_path / "audio" / "4.mp3", 60, Client(disconnected=disconnected))
    )
    left.set()
    with pytest.raises(CallerDisconnected):
        await waiting
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert not any((tmp_path / "audio").iterdir())
    assert not before & speakers()


async def test_closing_the_sound_keeps_the_process_if_the_rest_comes_soon(
    workers: list[Any], tmp_path: Path
) -> None:
    before = speakers()

    async def take(parts: SoundParts) -> SoundParts:
        async with aclosing(parts):
            async for _ in parts:
                raise CallerDisconnected("It left at the first part.")
                yield

    text = "This sentence is spoken again and again. " * 40
    with pytest.raises(CallerDisconnected):
        await workers[0].speak(
            Utterance(text, VOICE, 1.0), tmp_path / "audio" / "seven.mp3", 60, Client(relay=take)
        )
    assert speakers() == before
    assert not any((tmp_path / "audio").iterdir())


async def test_a_cancellation_as_the_result_arrives_leaves_no_file(
    workers: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audio" / "eight.mp3"
    speaking = asyncio.create_task(workers[0].speak(Utterance("Hello.", VOICE, 1.0), path, 60))
    read_frame = shared_engines.read_frame

    async def read(reader: asyncio.StreamReader) -> bytes:
        frame = await read_frame(reader)
        if path.exists():
            speaking.cancel()
        return frame

    monkeypatch.setattr(shared_engines, "read_frame", read)
    with pytest.raises(asyncio.CancelledError):
        await speaking
    assert not any((tmp_path / "audio").iterdir())


@pytest.mark.parametrize(
    "anyio_backend",
    [("asyncio", {"use_uvloop": True}), ("asyncio", {"use_uvloop": False})],
    ids=["uvloop", "asyncio"],
)
async def test_a_host_that_ends_before_it_reads_a_text_crashed(settings: Settings, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.setblocking(False)
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        engine = speech_engines(settings, {SOCKET: str(tmp_path / "socket")})[ESPEAK]
        speaking = asyncio.create_task(engine.speak(Utterance("Hello.", VOICE, 1.0), tmp_path / "9.mp3", 60))

        connection, _ = await asyncio.get_running_loop().sock_accept(listening)
        with connection:

            async def sent() -> bool:
                return bool(select.select([connection], [], [], 0)[0])

            await until(sent, "the text is sent")
        with pytest.raises(EngineCrashed):
            await speaking


async def test_a_host_that_hangs_is_not_waited_for_and_replaced(
    workers: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_engines, "GRACE_S", 0.0)
    monkeypatch.setattr(shared_engines, "KILL_WAIT_S", 0.1)
    hangs = host_pid()
    os.kill(hangs, signal.SIGSTOP)
    with pytest.raises(EngineTimedOut):
        await workers[0].speak(Utterance("Hello.", VOICE, 1.0), tmp_path / "audio" / "six.mp3", 0.3)

    async def ended() -> bool:
        return not processes.state(hangs)

    with monkeypatch.context() as soon:
        soon.setattr(engine_host, "HANG_MAX_S", 1.5)
        await until(ended, "the host that hangs is killed")

    async def up() -> bool:
        return bool(workers[0].up() and workers[1].up())

    await until(up, "the engines are up again")


async def test_a_host_that_ends_is_started_again(workers: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "audio" / "five.mp3"
    running = asyncio.create_task(workers[0].speak(Utterance(LONG, VOICE, 1.0), path, 60))

    async def writes() -> bool:
        return any((tmp_path / "audio").glob(".*.part"))

    await until(writes, "the text is spoken")
    killed = speakers()
    os.kill(host_pid(), signal.SIGKILL)
    with pytest.raises(EngineCrashed):
        await running
    with pytest.raises((EngineCrashed, EngineUnavailable)):
        await workers[0].speak(Utterance("Hello.", VOICE, 1.0), path, 60)

    async def up() -> bool:
        return bool(workers[0].up() and workers[1].up())

    async def ended() -> bool:
        return not any(processes.runs(pid) for pid in killed)  # init may be slow to reap them

    await until(up, "the engines are up again")
    await until(ended, "the speakers of the killed host have ended")
    assert not any((tmp_path / "audio").iterdir())
    await workers[1].speak(Utterance("Hello.", VOICE, 1.0), path, 60)


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
