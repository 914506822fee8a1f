"""Work in a thread that is seen to its end."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def unhurried(work: Callable[[], T]) -> T:
    """Does `work` in a thread, and waits for its end even when cancelled: nothing happens afterwards."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        task.exception()
        raise
