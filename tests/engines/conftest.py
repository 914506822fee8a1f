"""Engines for the tests of a file: starting one takes a second, so a file shares it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path

import pytest

from myna.engines.espeak.engine import Espeak
from myna.engines.interface import Client, SoundParts, SpeechResult, Utterance
from myna.engines.openai.engine import OpenAISpeech
from myna.files.disk_threads import DiskExecutor, wait_shielded
from myna.http_client import HttpClient
from tests.engines.speech_upstream import SpeechUpstream
from tests.rig.waiting import SOON_S

KEY = "sk-very-secret"
HELLO = Utterance("你好，世界。", "zf_xiaoxiao", 1.25)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def cleanup_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a failed job are removed when it ends, also where a loaded machine takes a second for it."""
    monkeypatch.setattr("myna.files.disk_threads.wait_shielded", partial(wait_shielded, timeout_s=60))


@pytest.fixture(scope="module")
async def espeak() -> AsyncIterator[Espeak]:
    engine = Espeak(processes=2, queue_max=400, job_deadline_s=60)
    await engine.start()
    yield engine
    await engine.close()


async def until(condition: Callable[[], bool], deadline_s: float = SOON_S) -> None:
    """Returns once the condition is true; fails the test at the deadline."""
    ends_at = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < ends_at, "what the test waits for didn't come"
        await asyncio.sleep(0.01)


@pytest.fixture
async def upstream() -> AsyncIterator[SpeechUpstream]:
    server = SpeechUpstream()
    yield server
    await server.close()


@pytest.fixture
async def engine(upstream: SpeechUpstream) -> AsyncIterator[OpenAISpeech]:
    outbound = HttpClient(connections_max=4)
    yield OpenAISpeech(
        outbound, DiskExecutor(), url=upstream.base + "/", key=KEY, model="kokoro", answer_max_bytes=200_000
    )
    await outbound.close()


async def speak(
    engine: OpenAISpeech, folder: Path, text: str | None = None, heard: list[bytes] | None = None
) -> SpeechResult:
    """Writes `folder / "a.mp3"`. With a list, a listener appends the parts to it."""
    utterance = HELLO if text is None else Utterance(text, "nova", 1.0)

    async def hear(parts: SoundParts) -> SoundParts:
        async with aclosing(parts):
            async for part in parts:
                assert heard is not None
                heard.append(part.mp3)
                yield part

    client = Client() if heard is None else Client(hear=hear)
    return await engine.speak(utterance, folder / "a.mp3", 60, client)


def names(folder: Path) -> list[str]:
    """The names in the folder."""
    return [path.name for path in folder.iterdir()]
