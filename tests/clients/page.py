"""The examples of docs/clients.md, a section for each client of its table, and the blocks of any page."""

import re
from typing import NamedTuple

from tests.docs.pages import DOCS, code, table

PAGE = DOCS / "clients.md"
_SECTION = re.compile(r"^## (.+)\n((?:(?!## ).*\n)*)", re.MULTILINE)
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> dict[str, list[tuple[str, str]]]:
    """The fenced blocks of each section of a page, as language and text."""
    return {section: _FENCE.findall(body) for section, body in _SECTION.findall(page)}


class Example(NamedTuple):
    """A fenced block in the section of a client. `packages` has the versions of the table, as in
    `openai==3.52.0`."""

    client: str
    number: int
    packages: tuple[str, ...]
    language: str
    text: str


def packages() -> dict[str, tuple[str, ...]]:
    """The packages of each client, by its name in the table."""
    found = {}
    for client, names, versions in table(PAGE, "client"):
        pairs = zip(code(names), versions.split(", "), strict=True)
        found[client] = tuple(f"{name}=={version}" for name, version in pairs)
    return found


def examples() -> list[Example]:
    """All examples, in the order of the page."""
    sections = blocks(PAGE.read_text(encoding="utf-8"))
    return [
        Example(client, number, versions, language, text)
        for client, versions in packages().items()
        for number, (language, text) in enumerate(sections[client], 1)
    ]
