"""Translations of the pages. English is the language of the templates.

`zh/` has Chinese by the English text, one file for each group of pages. A test fails for a text that is
missing, unused or in two files.
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
