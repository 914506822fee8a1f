"""The documentation as tests read it: fenced blocks and tables."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
README_ZH = ROOT / "README.zh.md"
PAGES = [README, README_ZH, *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)", re.DOTALL)
_HERE_DOCUMENT = re.compile(r"<<'(\w+)'([^\n]*)\n.*?^\1$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`]*)`")


class Fence(NamedTuple):
    """A fenced block and its language."""

    language: str
    text: str


class Command(NamedTuple):
    """A parsed shell line: its assignments, the base name of the program, the arguments."""

    line: str
    env: dict[str, str]
    program: str
    arguments: list[str]


def fences(page: Path) -> list[Fence]:
    return [Fence(*found) for found in _FENCE.findall(page.read_text(encoding="utf-8"))]


def commands(fence: Fence) -> list[Command]:
    """The commands of a shell block, one per line, without the text of here-documents."""
    text = _HERE_DOCUMENT.sub(r"\2", fence.text)
    return [_command(line) for line in text.splitlines() if line.strip()]


def _command(line: str) -> Command:
    words = shlex.split(line)
    env = {}
    while words and (assignment := _ASSIGNMENT.fullmatch(words[0])):
        env[assignment[1]] = assignment[2]
        words.pop(0)
    return Command(line=line, env=env, program=words[0].rsplit("/", 1)[-1], arguments=words[1:])


def rows(page: Path) -> list[list[str]]:
    """The cells of every table's rows, in order."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def table(page: Path, head: str) -> list[list[str]]:
    """The rows of the table whose first column has this head, without the head."""
    (found,) = re.findall(
        rf"^\| {re.escape(head)} \|.*\n\| --- .*\n((?:\| .*\n)+)", page.read_text("utf-8"), re.MULTILINE
    )
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines()]


def code(cell: str) -> list[str]:
    """The texts in backquotes."""
    return _CODE.findall(cell)
