"""Runs a node: starts its engines, works, and stops them."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final

from myna.engines.interface import EngineFailed
from myna.errors import CommandError
from myna.http.client import HttpClient
from myna.lib.sandbox import AllowedPaths
from myna.node.benchmark import trial
from myna.node.config import NodeConfig
from myna.node.credentials import Credentials
from myna.node.engines import Engines
from myna.node.main import NodeProgram, StopSignals
from myna.node.references import References
from myna.node.server_client import OutageLog, ProtocolTooOld, ServerClient
from myna.node.work import Work

CONNECT_MAX_S: Final = 10.0
OTHER_CONNECTIONS: Final = 3
"""In addition to one for each job: the long poll, the heartbeat and the last hello."""


async def run(credentials: Credentials, config: NodeConfig, folder: Path) -> None:
    """Works for the service until a signal arrives. `folder` belongs to this process. Raises CommandError."""
    outages = OutageLog()
    async with contextlib.AsyncExitStack() as stack:
        signals = stack.enter_context(StopSignals())
        http_client = HttpClient(
            connections_max=config.slots + OTHER_CONNECTIONS, connect_timeout_s=CONNECT_MAX_S
        )
        stack.push_async_callback(http_client.close)
        server = ServerClient(credentials.url, credentials.credential, http_client)
        engines = Engines(config.engines)
        try:
            references = References(folder / "references")
            work = Work(
                server=server, engines=engines, references=references, outages=outages, folder=folder / "work"
            )
        except OSError as error:
            raise CommandError(f"The data folder {folder} can't be written to: {error.strerror}.") from None
        stack.push_async_callback(engines.close)
        files = AllowedPaths.of(reads=(folder / "references",), writes=(work.folder,))
        chars_per_s = await _ready(engines, config, work.folder, files, signals)
        if signals.drain.done():
            return
        program = NodeProgram(
            server=server,
            engines=engines,
            work=work,
            references=references,
            outages=outages,
            slots=config.slots,
            chars_per_s=chars_per_s,
        )
        try:
            await program.run(signals, config.shutdown_grace_s)
        except ProtocolTooOld as refused:
            raise CommandError(str(refused)) from None


async def _ready(
    engines: Engines, config: NodeConfig, folder: Path, files: AllowedPaths, signals: StopSignals
) -> float:
    """Starts and tries the engines. Returns the characters per second of the slowest one, or 0 if a signal
    came first: loading a model may take minutes. Raises CommandError."""
    starting = asyncio.create_task(_start(engines, config, folder, files))
    events: set[asyncio.Future[Any]] = {starting, signals.drain}
    await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
        return 0.0
    try:
        return starting.result()
    except EngineFailed as failure:
        raise CommandError(str(failure)) from None


async def _start(engines: Engines, config: NodeConfig, folder: Path, files: AllowedPaths) -> float:
    await engines.start(files)
    return min([(await trial(engine, folder)).chars_per_s for engine in config.engines])
