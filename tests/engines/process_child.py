"""A child that does what a test asks of it."""

import os
import signal
import sys
import time

import msgspec

from myna.engines.child import serve
from myna.engines.spoken import NothingSpoken


class Deed(msgspec.Struct, frozen=True):
    """`what` is a function below; `word` comes back."""

    what: str
    word: str = ""


class Word(msgspec.Struct, frozen=True):
    word: str


def echo(word: str) -> str:
    return word


def die(word: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return word


def hang(word: str) -> str:
    while True:
        time.sleep(1)


def chatter(word: str) -> str:
    """What a C library does that prints to its stdout, before and after the answer."""
    os.write(1, b"\0\0\0\1?")
    return word


def silent(word: str) -> str:
    raise NothingSpoken(word)


def disk(word: str) -> str:
    raise OSError(28, "No space left on device", "/secret/place")


def fault(word: str) -> str:
    raise KeyError(word)


def settings(word: str) -> str:
    return ",".join(name for name in os.environ if name.startswith("MYNA_"))


def work(packed: bytes) -> Word:
    deed = msgspec.msgpack.decode(packed, type=Deed)
    said: str = getattr(sys.modules[__name__], deed.what)(deed.word)
    return Word(said)


if __name__ == "__main__":
    serve(lambda: work)
