"""An engine's file, on disk for good or not there at all.

The process that speaks only hands its bytes to the kernel and takes the next sentence; the wait for the disk
is spent here, in a thread. A loss of power meanwhile may leave a torn file, which nothing names yet: it goes
with the other leftovers.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

from myna.engines.spoken import EngineFailed, EngineTimedOut, Spoken
from myna.sound.durable import make_durable


async def lasting(path: Path, deadline_s: float, speak: Callable[[Path], Awaitable[Spoken]]) -> Spoken:
    """What `speak` puts at `path`, made durable, within `deadline_s` seconds in all.

    `speak` is given a name for the file while it is written, in the folder of `path`. However it ends but
    well, also by cancelling, nothing is left at either. Raises an error of `spoken.py`.
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + deadline_s
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        spoken = await speak(part)
        async with asyncio.timeout_at(ends_at):
            await asyncio.to_thread(make_durable, path)
        return spoken
    except BaseException as error:
        await asyncio.to_thread(_remove, part, path)
        if isinstance(error, TimeoutError):
            raise EngineTimedOut("The disk took too long to take the audio.") from error
        if isinstance(error, OSError):
            # Its own text would name the path; its strerror says enough ("No space left on device").
            raise EngineFailed(error.strerror or type(error).__name__) from error
        raise


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
