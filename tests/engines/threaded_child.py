"""A child whose modules start threads while they are imported, as libraries for numbers do."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from myna.engines.pool.child_main import RunningJob, Work
from tests.engines.process_child import Command, Word

_THREADS = ThreadPoolExecutor(1)
_THREADS.submit(str).result()


def warm(_setup: bytes) -> Work:
    return work


def work(packed: bytes, _running: RunningJob) -> Word:
    deed = msgspec.msgpack.decode(packed, type=Command)
    try:
        return Word(_THREADS.submit(Path(deed.word).read_text).result())
    except OSError as error:
        return Word(type(error).__name__)
