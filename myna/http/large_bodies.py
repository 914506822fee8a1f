"""Reads large bodies in a thread, one at a time, so that the event loop serves others meanwhile."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from myna.errors import TooManyBodies
from myna.http.body_limits import SMALL_BODY_BYTES
from myna.shares import Shares

T = TypeVar("T")

WAIT_S: Final = 20.0
_thread = ThreadPoolExecutor(1, thread_name_prefix="large-body")
"""One: several threads would take the interpreter from the event loop for longer."""
_turns = Shares[int](1, 1, TooManyBodies)


async def read_body(read: Callable[[], T], size_bytes: int, account_id: int) -> T:
    """The result of `read`, which decodes and checks a body of this size, and is pure. The accounts that wait
    are served in turn. Raises TooManyBodies after WAIT_S, and what `read` raises."""
    if size_bytes <= SMALL_BODY_BYTES:
        return read()
    await _turns.wait_for(account_id, WAIT_S)
    try:
        return await asyncio.get_running_loop().run_in_executor(_thread, read)
    finally:
        _turns.release(account_id)
