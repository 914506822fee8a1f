"""What the modules of this package share: progress, and the error of a source."""

from typing import Protocol

from myna.errors import CommandError


class SourceFailed(CommandError):
    """A source lacks the files or has different ones. Another source may have them."""


class Report(Protocol):
    """Shows the progress of a command."""

    def say(self, line: str) -> None:
        """Prints a line."""

    def begin(self, what: str, size_bytes: int) -> None:
        """A new step begins, of this size. It replaces the step before it."""

    def advance(self, size_bytes: int) -> None:
        """So much more of the step is done."""
