"""Ids are UUIDs of version 7, sorted by age, and unique across threads and processes."""

import multiprocessing
import os
import threading
import time
import uuid
from itertools import pairwise

from myna.ids import CHUNKS, new_id, new_name

MANY = 3 * CHUNKS


def test_an_id_is_a_uuid_of_version_7_with_the_current_time() -> None:
    before = time.time_ns() // 1_000_000
    found = [new_id() for _ in range(MANY)]
    after = time.time_ns() // 1_000_000
    for one in found:
        read = uuid.UUID(bytes=one)
        assert (read.version, read.variant) == (7, uuid.RFC_4122)
        assert before <= int.from_bytes(one[:6], "big") <= after


def test_ids_sort_by_age() -> None:
    found = []
    for _ in range(5):
        found.append(new_id())
        until = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 == until:
            pass
    assert all(earlier < later for earlier, later in pairwise(found))


def test_every_random_bit_is_random() -> None:
    ones = zeros = 0
    for _ in range(MANY):
        number = int.from_bytes(new_id()[6:], "big")
        ones, zeros = ones | number, zeros | ~number
    fixed = 0xF << 76 | 0b11 << 62
    assert (ones & zeros & ((1 << 80) - 1)) | fixed == (1 << 80) - 1


def test_threads_never_get_the_same_id() -> None:
    found: list[list[str]] = [[] for _ in range(8)]
    start = threading.Barrier(len(found))

    def take(mine: list[str]) -> None:
        start.wait()
        mine += [new_name() for _ in range(MANY)]

    threads = [threading.Thread(target=take, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [name for mine in found for name in mine]
    assert len(set(names)) == len(names)
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in names)


def test_a_forked_process_makes_different_ids() -> None:
    new_name()  # the parent's stock of ids is not empty
    reading, writing = os.pipe()
    child = multiprocessing.get_context("fork").Process(
        target=lambda: os.write(writing, "".join(new_name() for _ in range(50)).encode())
    )
    child.start()
    child.join()
    output = os.read(reading, 1 << 16).decode()
    os.close(reading)
    os.close(writing)
    theirs = {output[begin : begin + 32] for begin in range(0, len(output), 32)}
    assert len(theirs) == 50
    assert not theirs & {new_name() for _ in range(CHUNKS)}
