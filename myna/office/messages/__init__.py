"""Translations of the pages. English is the language of the templates.

`zh/` has Chinese by the English text: for pages, for those of operators, and for errors. A test fails for a
text that is missing or unused.
"""

import tomllib
from pathlib import Path


def read(language: str) -> dict[str, str]:
    """All messages of a language, by the English text."""
    messages: dict[str, str] = {}
    for path in sorted((Path(__file__).parent / language).glob("*.toml")):
        messages |= tomllib.loads(path.read_text(encoding="utf-8"))
    return messages


def N_(text: str) -> str:
    """Marks a text that a page looks up by a variable; returns it unchanged."""
    return text
