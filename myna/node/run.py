"""A node from its begin to its end: engines up, work, engines down."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final

from myna.engines.spoken import EngineFailed
from myna.errors import CommandError
from myna.node.config import NodeConfig
from myna.node.engines import Engines
from myna.node.membership import Membership
from myna.node.outage import Outage
from myna.node.program import Ending, Program
from myna.node.references import References
from myna.node.site import Site, TooOld
from myna.node.trial import trial
from myna.node.work import Work
from myna.outbound import Outbound

CONNECT_MAX_S: Final = 10.0
OTHER_CONNECTIONS: Final = 3
"""Beside those of the jobs: the long poll, the beat, the goodbye."""


async def run(member: Membership, config: NodeConfig, folder: Path) -> None:
    """Works for the site until a signal ends it. `folder` is this process's alone. Raises CommandError."""
    outage = Outage()
    async with contextlib.AsyncExitStack() as undo:
        ending = undo.enter_context(Ending())
        outbound = Outbound(connections_max=config.slots + OTHER_CONNECTIONS, connect_timeout_s=CONNECT_MAX_S)
        undo.push_async_callback(outbound.close)
        site = Site(member.url, member.credential, outbound)
        engines = Engines(config.engines)
        try:
            references = References(folder / "references")
            work = Work(site, engines, references, outage, folder / "work")
        except OSError as error:
            raise CommandError(f"The data folder {folder} can't be written to: {error.strerror}.") from None
        undo.push_async_callback(engines.close)
        chars_per_s = await _ready(engines, config, work.folder, ending)
        if ending.asked.done():
            return
        program = Program(
            site, engines, work, references, outage, slots=config.slots, chars_per_s=chars_per_s
        )
        try:
            await program.run(ending, config.shutdown_grace_s)
        except TooOld as refused:
            raise CommandError(str(refused)) from None


async def _ready(engines: Engines, config: NodeConfig, folder: Path, ending: Ending) -> float:
    """Starts and tries the engines; how many characters a second the slowest of them speaks. 0 where a signal
    came first: loading a model may take minutes. Raises CommandError."""
    starting = asyncio.create_task(_start(engines, config, folder))
    ends: set[asyncio.Future[Any]] = {starting, ending.asked}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
        return 0.0
    try:
        return starting.result()
    except EngineFailed as failure:
        raise CommandError(str(failure)) from None


async def _start(engines: Engines, config: NodeConfig, folder: Path) -> float:
    await engines.start()
    return min([(await trial(engine, folder)).chars_per_s for engine in config.engines])
