"""Ids of calls and requests, made without the database. They are not secrets.

Random bytes are read from the system for some hundred ids at a time: one system call per id would cost more
than everything else.
"""

import os
import time

CHUNK_BYTES = 16
CHUNKS = 256
_RANDOM_BITS = (0x0FFF << 64) | (1 << 62) - 1
_VERSION_AND_VARIANT = (7 << 76) | (2 << 62)

_chunks: list[bytes] = []
os.register_at_fork(after_in_child=_chunks.clear)  # else parent and child would use the same bytes


def new_id(at_least: bytes = b"") -> bytes:
    """A UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, so that ids sort by age, and 74 random bits. It is
    never below `at_least`, an id of `first_of`, even if this machine's clock is behind."""
    millis = max(time.time_ns() // 1_000_000, millis_of(at_least))
    random = int.from_bytes(_chunk(), "big") & _RANDOM_BITS
    return (millis << 80 | _VERSION_AND_VARIANT | random).to_bytes(16, "big")


def first_of(millis: int) -> bytes:
    """The lowest id of this millisecond."""
    return (millis << 80).to_bytes(16, "big")


def millis_of(some_id: bytes) -> int:
    """The Unix milliseconds of an id; 0 for an empty one."""
    return int.from_bytes(some_id[:6], "big")


def new_name() -> str:
    """32 random hex digits: the id of a request or a completion."""
    return _chunk().hex()


def _chunk() -> bytes:
    """16 random bytes, used once. Thread-safe."""
    try:
        return _chunks.pop()
    except IndexError:
        fresh = os.urandom(CHUNK_BYTES * CHUNKS)
        chunks = [fresh[begin : begin + CHUNK_BYTES] for begin in range(0, len(fresh), CHUNK_BYTES)]
        mine = chunks.pop()
        _chunks.extend(chunks)
        return mine
