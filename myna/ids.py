"""Ids that are made before the database has seen them. None of them is a secret.

Randomness comes from the system's generator, some hundred ids at a time: a question to the kernel for each
costs more than all else that an id needs.
"""

import os
import time

CHUNK_BYTES = 16
CHUNKS = 256
_RANDOM_BITS = (0x0FFF << 64) | (1 << 62) - 1
_VERSION_AND_VARIANT = (7 << 76) | (2 << 62)

_chunks: list[bytes] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_chunks.clear)  # else both would go on with the same


def new_id() -> bytes:
    """A UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, so that ids sort by age; 74 random bits."""
    millis = time.time_ns() // 1_000_000
    random = int.from_bytes(_chunk(), "big") & _RANDOM_BITS
    return (millis << 80 | _VERSION_AND_VARIANT | random).to_bytes(16, "big")


def new_name() -> str:
    """32 random hex digits: the id of a request or of an answer."""
    return _chunk().hex()


def _chunk() -> bytes:
    """Sixteen random bytes that nobody else gets. In any thread."""
    try:
        return _chunks.pop()
    except IndexError:
        fresh = os.urandom(CHUNK_BYTES * CHUNKS)
        chunks = [fresh[begin : begin + CHUNK_BYTES] for begin in range(0, len(fresh), CHUNK_BYTES)]
        mine = chunks.pop()
        _chunks.extend(chunks)
        return mine
