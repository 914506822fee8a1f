"""A child whose jobs name functions of this module."""

import ctypes
import errno
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from myna.engines.interface import EngineUnavailable, NothingSpoken
from myna.engines.pool.child_main import RunningJob, Work

_THREADS = ThreadPoolExecutor(1)
"""Its thread starts while the module is imported, as those of libraries for numbers do."""
_THREADS.submit(str).result()


class Command(msgspec.Struct, frozen=True):
    """`what` names a function below, which gets `word`."""

    what: str
    word: str = ""


class Word(msgspec.Struct, frozen=True):
    word: str


def echo(word: str) -> str:
    return word


def die(word: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return word


def die_once(word: str) -> str:
    """Dies if there is no file of this name, which it makes."""
    if not Path(word).exists():
        Path(word).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return word


def hang(word: str) -> str:
    while True:
        time.sleep(1)


def chatter(word: str) -> str:
    """Prints to fd 1 as a C library might."""
    os.write(1, b"\0\0\0\1?")
    return word


def silent(word: str) -> str:
    raise NothingSpoken(word)


def disk(word: str) -> str:
    raise OSError(28, "No space left on device", "/secret/place")


def fault(word: str) -> str:
    raise KeyError(word)


def environ(word: str) -> str:
    return os.environ.get(word, "")


def all_environ(word: str) -> str:
    return "\n".join(f"{name}={value}" for name, value in os.environ.items()) + word


def socket_of(word: str) -> str:
    return _refused(lambda: socket.socket(getattr(socket, word)).close())


def program(word: str) -> str:
    return _refused(lambda: subprocess.run([word, "--version"], check=True))


def read(word: str) -> str:
    return _refused(lambda: Path(word).read_text())


def write(word: str) -> str:
    def done() -> str:
        Path(word).parent.mkdir(exist_ok=True)
        Path(word).write_text("changed")
        return "written"

    return _refused(done)


def read_in_thread(word: str) -> str:
    return _refused(_THREADS.submit(Path(word).read_text).result)


def signal_to(word: str) -> str:
    return _refused(lambda: os.kill(int(word), 0))


def libc(word: str) -> str:
    """Calls a function of the C library, by name and arguments separated by spaces: its result or error."""
    name, *arguments = word.split()
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    # Of 64 bits: a pointer may be given as a number.
    numbers_and_words = (
        ctypes.c_long(int(each)) if each.lstrip("-").isdigit() else each.encode() for each in arguments
    )
    result = function(*numbers_and_words)
    return str(result) if result >= 0 else errno.errorcode[ctypes.get_errno()]


def new_process(word: str) -> str:
    """clone(2) with these flags; the new process ends at once."""
    number = {"x86_64": 56, "aarch64": 220}[platform.machine()]
    made = ctypes.CDLL(None, use_errno=True).syscall(number, int(word), 0, 0, 0, 0)
    if made == 0:
        os._exit(0)
    return "made" if made > 0 else errno.errorcode[ctypes.get_errno()]


def new_thread(word: str) -> str:
    said: list[str] = []
    thread = threading.Thread(target=said.append, args=(word,))
    thread.start()
    thread.join()
    return said[0]


def dropped_privileges(word: str) -> str:
    ask = ctypes.CDLL(None).prctl
    core = resource.getrlimit(resource.RLIMIT_CORE)
    return f"core {core}, dumpable {ask(3, 0, 0, 0, 0)}, no new privileges {ask(39, 0, 0, 0, 0)}{word}"


def _refused(command: Callable[[], object]) -> str:
    """The result of the command, or the name of its OSError."""
    try:
        return str(command())
    except OSError as error:
        return type(error).__name__


def steps(word: str, running: RunningJob) -> str:
    for step in range(1, 5):
        running.progress(step / 4)
    return word


def parts(word: str, running: RunningJob) -> str:
    """Sends each letter as a part; `!` ends the process, and `?` hangs."""
    for letter in word:
        if letter == "!":
            die("")
        if letter == "?":
            hang("")
        running.part(letter.encode())
    return word


def flood(word: str, running: RunningJob) -> str:
    """Sends 1,000 parts of 100 kB, and writes the number of the last one to the file `word`."""
    for number in range(1000):
        running.part(bytes(100_000))
        Path(word).write_text(str(number))
    return word


def work(packed: bytes, running: RunningJob) -> Word:
    command = msgspec.msgpack.decode(packed, type=Command)
    if command.what in ("steps", "parts", "flood"):
        return Word(getattr(sys.modules[__name__], command.what)(command.word, running))
    said: str = getattr(sys.modules[__name__], command.what)(command.word)
    return Word(said)


def first_alone(place: Path) -> None:
    """The first child becomes ready and a moment later writes its pid; the others hang."""
    try:
        place.mkdir()
    except FileExistsError:
        hang("")
    threading.Timer(0.3, lambda: (place / "pid").write_text(str(os.getpid()))).start()


class StartMode(msgspec.Struct, frozen=True):
    """How the child starts: a case of `warm` below."""

    name: str


def warm(setup: bytes) -> Work:
    """Starts at once, or as the mode says."""
    mode = msgspec.msgpack.decode(setup, type=StartMode | None)
    match mode and mode.name:
        case "refuse":
            raise EngineUnavailable("This child refuses to start.")
        case "break":
            raise KeyError("a secret")
        case "sleep":
            hang("")
        case str(word) if word.startswith("/"):
            first_alone(Path(word))
        case str(word):
            return lambda _packed, _report: Word(word)
    return work
