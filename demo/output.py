"""Prints the output of the demo: short aligned lines, coloured only on a terminal."""

import sys
from collections.abc import Sequence
from io import TextIOWrapper

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

INDENT = "   "


class Output:
    """Prints steps and their results. Lines are not wrapped, so that each can be copied."""

    def __init__(self) -> None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a terminal that can't write Han gets question marks
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._steps = 0

    def title(self, text: str) -> None:
        self._console.print(text, style="bold")

    def step(self, text: str, how: str) -> None:
        """Prints the next numbered step and `how`, its command or path."""
        self._steps += 1
        self._console.print(Text.assemble("\n", (f"{self._steps}  {text}", "bold"), (f"  {how}", "cyan")))

    def say(self, text: str, style: str = "") -> None:
        self._console.print(INDENT + text, style=style)

    def paste(self, *lines: str) -> None:
        """Prints lines to copy, without indentation."""
        self._console.print("", *lines, "", sep="\n", style="green")

    def rows(self, *rows: Sequence[str]) -> None:
        """Rows in columns, the first column dim. A Han character takes two cells."""
        widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            first, *rest = (
                cell + " " * (width - cell_len(cell) + 2) for cell, width in zip(row, widths, strict=True)
            )
            self._console.print(Text.assemble(INDENT, (first, "dim"), "".join(rest).rstrip()))

    def failure(self, text: str, notes: Sequence[str] = ()) -> None:
        """Prints an error and its notes."""
        self._console.print(Text.assemble("\n", ("It didn't work: ", "bold red"), text))
        for line in notes:
            self.say(line, "dim")
