"""Engines for the tests of a file: starting one takes a second, so a file shares it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pytest
import soundfile

from myna.engines.espeak.engine import Espeak
from myna.engines.interface import Client, EngineLimits, SoundParts, SpeechResult, Utterance
from myna.engines.kokoro.engine import Kokoro, KokoroConfig
from myna.engines.media.media import Inspector
from myna.engines.openai.api import request_headers
from myna.engines.openai.engine import OpenAISpeech
from myna.engines.pool.child_handle import Child, PendingJob
from myna.engines.pool.child_main import JobDone, JobFailed
from myna.engines.pool.pool import Pool
from myna.http.client import HttpClient
from myna.lib.files import DiskExecutor, wait_shielded
from myna.lib.sandbox import AllowedPaths
from tests.engines.process_child import Command, Word
from tests.engines.speech_upstream import SpeechUpstream
from tests.rig.waiting import until

KEY = "sk-very-secret"
DAMAGED = r"^The file breaks off before its end, or is damaged; send it whole, or export it again\.$"
HELLO = Utterance("你好，世界。", "zf_xiaoxiao", 1.25)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def cleanup_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a failed job are removed when it ends, also where a loaded machine takes a second for it."""
    monkeypatch.setattr("myna.lib.files.wait_shielded", partial(wait_shielded, timeout_s=60))


def kokoro(model: Path, processes: int = 1, queue_max: int = 4, deadline_s: float = 60) -> Kokoro:
    """The embedded neural voice, which is not started yet."""
    limits = EngineLimits(processes=processes, queue_max=queue_max, job_deadline_s=deadline_s)
    return KokoroConfig(str(model)).build(limits, Path())


class Starts(Protocol):
    """An engine or a pool."""

    async def start(self, files: AllowedPaths | None = None) -> None: ...

    async def close(self) -> None: ...


Started = TypeVar("Started", bound=Starts)


@asynccontextmanager
async def started(engine: Started, **files: Sequence[Path]) -> AsyncIterator[Started]:
    """Starts the engine, which may then only `reads` and `writes` these, and closes it after the block."""
    await engine.start(AllowedPaths.of(**files) if files else None)
    try:
        yield engine
    finally:
        await engine.close()


@pytest.fixture(scope="module")
async def espeak() -> AsyncIterator[Espeak]:
    async with started(Espeak(EngineLimits(processes=2, queue_max=400, job_deadline_s=60))) as engine:
        yield engine


@pytest.fixture(scope="module")
async def inspector() -> AsyncIterator[Inspector]:
    inspector = Inspector(job_deadline_s=300, deadline_s=300)
    yield inspector
    await inspector.close()


@pytest.fixture
async def upstream() -> AsyncIterator[SpeechUpstream]:
    server = SpeechUpstream()
    yield server
    await server.close()


@pytest.fixture
async def outbound() -> AsyncIterator[HttpClient]:
    client = HttpClient(connections_max=4)
    yield client
    await client.close()


def speech_server(outbound: HttpClient, url: str, key: str = KEY, **changes: Any) -> OpenAISpeech:
    """The engine of a speech server. `changes` are other parameters of `OpenAISpeech`."""
    given = {"disk": DiskExecutor(), "model": "kokoro", "answer_max_bytes": 200_000, **changes}
    return OpenAISpeech(outbound, url=url, key=key, headers=partial(request_headers, key), **given)


@pytest.fixture
def disk() -> DiskExecutor:
    return DiskExecutor()


@pytest.fixture
def engine(outbound: HttpClient, upstream: SpeechUpstream, disk: DiskExecutor) -> OpenAISpeech:
    return speech_server(outbound, upstream.base + "/", disk=disk)


def put(folder: Path, data: bytes) -> Path:
    """A file that was uploaded."""
    path = folder / "upload"
    path.write_bytes(data)
    return path


def mean_hz(path: Path) -> float:
    """The mean pitch of a sound."""
    samples, rate_hz = soundfile.read(path)
    power = np.abs(np.fft.rfft(samples)) ** 2
    return float((np.fft.rfftfreq(len(samples), 1 / rate_hz) * power).sum() / power.sum())


def level(path: Path, hz: float) -> float:
    """The share of the sound that is a tone of this pitch."""
    samples, rate_hz = soundfile.read(path, dtype="float32")
    return float(abs(samples @ np.exp(-2j * np.pi * hz / rate_hz * np.arange(len(samples))))) / len(samples)


async def speak(
    engine: OpenAISpeech, folder: Path, text: str | None = None, relayed: list[bytes] | None = None
) -> SpeechResult:
    """Writes `folder / "a.mp3"`. With a list, the parts are appended to it."""
    utterance = HELLO if text is None else Utterance(text, "nova", 1.0)

    async def relay(parts: SoundParts) -> SoundParts:
        async with aclosing(parts):
            async for part in parts:
                assert relayed is not None
                relayed.append(part.mp3)
                yield part

    client = Client() if relayed is None else Client(relay=relay)
    return await engine.speak(utterance, folder / "a.mp3", 60, client)


def names(folder: Path) -> list[str]:
    """The names in the folder, in order."""
    return sorted(path.name for path in folder.iterdir())


def child_pool(
    child: str = "process_child",
    processes: int = 1,
    queue_max: int = 9,
    job_deadline_s: float = 60,
    **more: Any,
) -> Pool[Word]:
    """A pool of a program of this folder, which is not started yet."""
    limits = EngineLimits(processes=processes, queue_max=queue_max, job_deadline_s=job_deadline_s)
    return Pool(f"tests.engines.{child}", Word, limits, **more)


async def busy(pool: Pool[Word], queue_key: str | None = None) -> "asyncio.Task[Word]":
    """A job that the child has reported as started and that hangs."""
    jobs: list[PendingJob] = []
    run = Child.run

    async def noted(child: Child, job: PendingJob) -> JobDone | JobFailed | None:
        jobs.append(job)
        return await run(child, job)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Child, "run", noted)
        task = asyncio.create_task(pool.run(Command("hang"), 60, Client(queue_key)))
        await until(lambda: bool(jobs) and jobs[-1].started)
    return task
