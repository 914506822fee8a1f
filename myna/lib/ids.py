"""Ids of calls and requests, made without the database. They are not secrets.

Random bytes are read from the system for some hundred ids at a time: one system call per id would cost more
than everything else.
"""

import os
import time

CHUNK_BYTES = 16
CHUNKS = 256
_RANDOM_BITS = int.from_bytes(bytes.fromhex("ff" * 6 + "0fff3f" + "ff" * 7) * CHUNKS, "big")
_VERSION_AND_VARIANT = int.from_bytes(bytes.fromhex("00" * 6 + "700080" + "00" * 7) * CHUNKS, "big")
"""Of all chunks at once: for each id by itself it would cost more than the rest of the id."""

_chunks: list[bytes] = []
os.register_at_fork(after_in_child=_chunks.clear)  # else parent and child would use the same bytes


def new_id(at_least: bytes = b"") -> bytes:
    """A UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, so that ids sort by age, and 74 random bits. It is
    never below `at_least`, an id of `first_of`, even if this machine's clock is behind."""
    millis = (time.time_ns() // 1_000_000).to_bytes(6, "big")
    return max(millis, at_least[:6]) + _chunk()[6:]


def first_of(millis: int) -> bytes:
    """The lowest id of this millisecond."""
    return (millis << 80).to_bytes(16, "big")


def millis_of(some_id: bytes) -> int:
    """The Unix milliseconds of an id; 0 for an empty one."""
    return int.from_bytes(some_id[:6], "big")


def new_name() -> str:
    """32 hex digits, of which 122 bits are random: the id of a request or a completion."""
    return _chunk().hex()


def _chunk() -> bytes:
    """16 random bytes but for the version and the variant of a UUIDv7, used once. Thread-safe."""
    try:
        return _chunks.pop()
    except IndexError:
        random = int.from_bytes(os.urandom(CHUNK_BYTES * CHUNKS), "big")
        fresh = (random & _RANDOM_BITS | _VERSION_AND_VARIANT).to_bytes(CHUNK_BYTES * CHUNKS, "big")
        chunks = [fresh[begin : begin + CHUNK_BYTES] for begin in range(0, len(fresh), CHUNK_BYTES)]
        mine = chunks.pop()
        _chunks.extend(chunks)
        return mine
