"""A node in the process of the test: its loops run against a FarmSite, and its engine speaks when it may."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from myna.engines.interface import NO_CLIENT, Client, EngineUnavailable, EngineVoice, SpeechResult, Utterance
from myna.http.client import HttpClient
from myna.lib.sandbox import AllowedPaths
from myna.node.engines import Engines
from myna.node.main import NodeProgram, StopSignals
from myna.node.server_client import OutageLog, ServerClient
from myna.node.work import References, Work
from tests.rig.farm_site import FarmSite
from tests.rig.waiting import until


def voice(voice_id: str = "zh-female-1") -> EngineVoice:
    return EngineVoice(voice_id, "小禾", "female", "zh-CN")


class FakeEngine:
    """Writes each text as its audio. While it is held, it finishes no job; `broken` is why it can't start."""

    blends = False
    admission = None

    def __init__(
        self, *voices: EngineVoice, label: str = "fake", clones: tuple[str, ...] = (), broken: str = ""
    ) -> None:
        self.label = label
        self.voices = voices
        self.clones = clones
        self.broken = broken
        self.spoken: list[Utterance] = []
        self.at_work = self.cancelled = 0
        self._free = asyncio.Event()
        self._free.set()

    def hold(self) -> None:
        self._free.clear()

    def resume(self) -> None:
        self._free.set()

    def up(self) -> bool:
        return True

    def full(self) -> bool:
        return False

    async def start(self, files: AllowedPaths | None = None) -> None:
        if self.broken:
            raise EngineUnavailable(self.broken)

    async def close(self) -> None:
        """There is nothing to close."""

    async def speak(
        self, utterance: Utterance, path: Path, deadline_s: float, client: Client = NO_CLIENT
    ) -> SpeechResult:
        self.at_work += 1
        try:
            await self._free.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.at_work -= 1
        audio = utterance.text.encode()
        write(path, audio)
        self.spoken.append(utterance)
        return SpeechResult(1.0, len(audio), hashlib.sha256(audio).digest())


class LocalNode:
    """A running node. `running` is its main loop."""

    def __init__(self, folder: Path, engine: FakeEngine, signals: StopSignals, running: asyncio.Task[None]):
        self.folder = folder
        self.engine = engine
        self.signals = signals
        self.running = running

    def files(self, folder: str) -> list[str]:
        return names(self.folder / folder)


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def happens(condition: Callable[[], bool], what: str) -> None:
    """Waits until the condition is true."""

    async def true() -> bool:
        return condition()

    await until(true, what)


@contextlib.asynccontextmanager
async def local_node(
    site: FarmSite, folder: Path, *, slots: int = 1, grace_s: float = 0.0, clones: tuple[str, ...] = ()
) -> AsyncIterator[LocalNode]:
    """A node that has said hello and asks for jobs. It is stopped at once at the end, if it still runs."""
    outbound = HttpClient(connections_max=slots + 3)
    engine = FakeEngine(voice(), clones=clones)
    engines = Engines([engine])
    server = ServerClient(site.url, site.credential, outbound)
    outages = OutageLog()
    work = Work(server, engines, References(folder / "references"), outages, folder / "work")
    program = NodeProgram(
        server=server,
        engines=engines,
        work=work,
        outages=outages,
        slots=slots,
        chars_per_s=1,
        refused_retry_s=0.1,
    )
    signals, polls = StopSignals(), len(site.leases)
    running = asyncio.create_task(program.run(signals, grace_s))
    await happens(lambda: running.done() or len(site.leases) > polls, "the node asks for jobs")
    try:
        yield LocalNode(folder, engine, signals, running)
    finally:
        signals.receive()
        signals.receive()
        await asyncio.gather(running, return_exceptions=True)
        await outbound.close()
