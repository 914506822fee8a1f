"""An engine's file, on disk for good or not there at all.

The process that speaks only hands its bytes to the kernel and takes the next sentence; the wait for the disk
is spent here, in threads of its own. A loss of power meanwhile may leave a torn file; it goes with the other
leftovers, since nothing names it yet.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from myna.disk_threads import Disk
from myna.engines.process import Pool
from myna.engines.spoken import EngineBusy, EngineFailed, EngineTimedOut, Spoken
from myna.sound.durable import make_durable, remove


class Lasting:
    """The files of one pool's jobs, of which `at_once` are made durable at a time.

    Who waits for the disk holds a place in the pool's queue: a slow disk fills it as a slow engine would.
    """

    def __init__(self, pool: Pool[Any], at_once: int) -> None:
        self._pool = pool
        self._disk = Disk(at_once)

    async def spoken(
        self, path: Path, deadline_s: float, speak: Callable[[Path], Awaitable[Spoken]]
    ) -> Spoken:
        """What `speak` puts at `path`, made durable, within `deadline_s` seconds in all.

        `speak` is given a name for the file while it is written, in the folder of `path`, which must be this
        call's own and not be used again. However it ends but well, also by cancelling, nothing is left at
        either but what the disk doesn't let be removed; what it takes over a second for goes later. Raises an
        error of `spoken.py`.
        """
        ends_at = asyncio.get_running_loop().time() + deadline_s
        part = path.with_name(f".{secrets.token_hex(8)}.part")
        with ExitStack() as place:
            if self._disk.full():
                raise EngineBusy("The disk has as many files waiting as it takes.")
            try:
                spoken = await speak(part)
                place.enter_context(self._pool.place_held())
                await self._made_durable(path, ends_at)
            except EngineBusy:  # nothing was begun
                raise
            except BaseException:
                await self._disk.cleared(partial(remove, part, path))
                raise
            return spoken

    async def _made_durable(self, path: Path, ends_at: float) -> None:
        try:
            async with asyncio.timeout_at(ends_at):
                await self._disk.done(partial(make_durable, path))
        except TimeoutError as error:
            raise EngineTimedOut("The disk took too long to take the audio.") from error
        except OSError as error:
            # Its own text would name the path; its strerror says enough ("No space left on device").
            raise EngineFailed(error.strerror or type(error).__name__) from error
