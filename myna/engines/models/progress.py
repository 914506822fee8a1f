"""The progress of a command in a file, for the process that follows it, and the command's environment."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from myna.lib.sandbox import child_environ

WRITE_EVERY_S: Final = 0.3
_PASSED_ON: Final = frozenset(
    (
        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "NODE_AUTH_TOKEN", "NPM_TOKEN",
        "NETRC", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME", "USER", "LOGNAME",
    )
)  # fmt: skip
_PASSED_ON_PREFIXES: Final = ("PIP_", "NPM_CONFIG_")


class Report(Protocol):
    """Shows the progress of a command."""

    def say(self, line: str) -> None:
        """Prints a line."""

    def begin(self, what: str, size_bytes: int) -> None:
        """A new step begins, of this size. It replaces the step before it."""

    def advance(self, size_bytes: int) -> None:
        """So much more of the step is done."""


class Progress(Struct, frozen=True):
    """How far the command is: `done_bytes` of the `size_bytes` of a step. `error` says why it ended; it is
    empty after success."""

    line: str = ""
    step: str = ""
    done_bytes: int = 0
    size_bytes: int = 0
    ended: bool = False
    error: str = ""


class ProgressFile:
    """Writes the progress, a few times a second. The file's folder exists."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._progress = Progress()
        self._written_at = 0.0

    def say(self, line: str) -> None:
        """A line for the person."""
        self._change(line=line)

    def begin(self, what: str, size_bytes: int) -> None:
        """A new step begins, of this size."""
        self._change(step=what, done_bytes=0, size_bytes=size_bytes)

    def advance(self, size_bytes: int) -> None:
        """So much more of the step is done."""
        self._progress = msgspec.structs.replace(
            self._progress, done_bytes=self._progress.done_bytes + size_bytes
        )
        if time.monotonic() >= self._written_at + WRITE_EVERY_S:
            self._write()

    def end(self, error: str) -> None:
        """The command ends, with this error; empty if it succeeded."""
        self._change(ended=True, error=error)

    def _change(self, **fields: str | int | bool) -> None:
        self._progress = msgspec.structs.replace(self._progress, **fields)
        self._write()

    def _write(self) -> None:
        part = self._path.with_name(f"{self._path.name}.part")
        part.write_bytes(msgspec.json.encode(self._progress))
        part.replace(self._path)
        self._written_at = time.monotonic()


def read(path: Path) -> Progress:
    """What the file says; an empty progress without one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Progress)
    except (OSError, msgspec.DecodeError):
        return Progress()


def client_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that pip and npm get, and the command that runs them for the back office: those of every
    child, their own configuration, and what says how to reach the network. No variable of Myna's, no key of
    a channel."""
    ours = {
        name: value
        for name, value in environ.items()
        if name.upper() in _PASSED_ON or name.upper().startswith(_PASSED_ON_PREFIXES)
    }
    return child_environ(environ) | ours
