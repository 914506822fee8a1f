"""The progress of a long command, on stderr: a bar on a terminal, otherwise a line for each step."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

_MB = 1_000_000


class ProgressBar:
    """Shows steps that are measured in bytes. Silent if `quiet`."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False, markup=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(),
            TransferSpeedColumn(), console=self._console, transient=True,
            disable=not self._console.is_terminal,
        )  # fmt: skip

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        """Prints a line."""
        self._console.print(f"myna: {line}")

    def begin(self, what: str, size_bytes: int) -> None:
        """A new step begins, of this size. It replaces the step before it."""
        if not self._console.is_terminal:
            self.say(f"{what} ({size_bytes / _MB:.0f} MB)")
        for task in self._bar.task_ids:
            self._bar.remove_task(task)
        self._bar.add_task(what, total=size_bytes)

    def advance(self, size_bytes: int) -> None:
        """So much more of the step is done."""
        for task in self._bar.task_ids:
            self._bar.advance(task, size_bytes)
