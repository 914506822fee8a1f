"""Runs a program that ends with the test run: `python -I -S tether.py SIGNAL USER PROGRAM ARGUMENT…`.

The kernel sends SIGNAL to the program when the thread that started it ends (PR_SET_PDEATHSIG, see
prctl(2)), so a test run that is killed leaves no server. This is a separate program, and not a
`preexec_fn`, because forking a process that has threads is unsafe and a warning since Python 3.12.
Off Linux it only runs the program. With a USER other than `-` it first becomes that user, because that
user may not be allowed to run this interpreter.
"""

import ctypes
import os
import pwd
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1


def tethered(
    arguments: list[str], ends_with: signal.Signals = signal.SIGKILL, user: str | None = None
) -> list[str]:
    """The command line that runs `arguments`, as `user`, tied to the calling thread's life."""
    return [sys.executable, "-I", "-S", str(Path(__file__)), str(int(ends_with)), user or "-", *arguments]


def _become(user: str) -> None:
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def _main() -> None:
    if sys.argv[2] != "-":
        _become(sys.argv[2])
    if sys.platform == "linux":
        # After the change of user, which resets it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(sys.argv[1]), 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell ignores it for its background jobs
    os.execvp(sys.argv[3], sys.argv[3:])  # noqa: S606 - the arguments are the test's own


if __name__ == "__main__":
    _main()
