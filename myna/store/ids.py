"""Ids that are made before the database has seen them."""

import os
import time


def new_id() -> bytes:
    """A UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, so that ids sort by age; 74 random bits."""
    millis = (time.time_ns() // 1_000_000).to_bytes(6, "big")
    tail = bytearray(os.urandom(10))
    tail[0] = 0x70 | tail[0] & 0x0F
    tail[2] = 0x80 | tail[2] & 0x3F
    return millis + bytes(tail)
