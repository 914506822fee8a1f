"""A child that does what a test asks of it."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import msgspec

from myna.engines.child import Tell, Work, serve
from myna.engines.spoken import EngineDown, NothingSpoken


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


def environ(word: str) -> str:
    return os.environ.get(word, "")


def steps(word: str, tell: Tell) -> str:
    for step in range(1, 5):
        tell(step / 4)
    return word


def work(packed: bytes, tell: Tell) -> Word:
    deed = msgspec.msgpack.decode(packed, type=Deed)
    if deed.what == "steps":
        return Word(steps(deed.word, tell))
    said: str = getattr(sys.modules[__name__], deed.what)(deed.word)
    return Word(said)


def first_alone(place: Path) -> None:
    """The first child here gets ready, and a moment later leaves its number; the others never do."""
    try:
        place.mkdir()
    except FileExistsError:
        hang("")
    threading.Timer(0.3, lambda: (place / "pid").write_text(str(os.getpid()))).start()


class Mood(msgspec.Struct, frozen=True):
    """How the child is to get ready: `manner` is one of `warm` below."""

    manner: str


def warm(setup: bytes) -> Work:
    """Ready at once, or as the mood says."""
    mood = msgspec.msgpack.decode(setup, type=Mood | None)
    match mood and mood.manner:
        case "refuse":
            raise EngineDown("This child has what it needs, but no wish.")
        case "break":
            raise KeyError("a secret")
        case "sleep":
            hang("")
        case str(word) if word.startswith("/"):
            first_alone(Path(word))
        case str(word):
            return lambda _packed, _tell: Word(word)
    return work


if __name__ == "__main__":
    serve(warm)
