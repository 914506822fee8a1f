"""The pages and the code use standard terms: a crude count of phrases that a reader has to guess at."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

ODD_PHRASES = re.compile(
    r"\b(whoever|whatever|wants?|(is|are)\s+gone|goes?\s+on|going\s+on|behind\s+(it|them|that)|anew"
    r"|of\s+(its|their|his|our)\s+own|of\s+(ours|yours)|stands?(?![- ]in\b)|stood|holds?|held|lies?"
    r"|leads?\s+on|somebody|nobody"
    r"|the\s+whole\s+of\s+it|besides|how\s+(it|they|each)\s+stands?|goes?\s+by|by\s+then|looked\s+at|at\s+work|let\s+in"
    r"|hand(s|ed)\s+back|put\s+back|goes\s+back|comes?\s+back)\b",
    re.IGNORECASE,
)
PER_1000_WORDS_MAX = 1.0
PER_1000_LINES_MAX = 0.1
"""Of the code of each folder. Never raise it."""
FOLDERS = ("myna", "tests", "bench", "demo", "listen", "pictures")
ODD_NAMES = re.compile(
    r"(^|_)(held|holder|handed_back|put_back|hung|hang_up|goes|stands?(?!_in)|stood|knocks?|bell|outlook|goodbye"
    r"|whoever|nobody|somebody|gone|lapsed|told|anew|strange|stranger|rests|rested|away)(_|$)",
    re.IGNORECASE,
)
"""Parts of names in the code for which there is a standard term."""
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|^ {4}.*$", re.MULTILINE | re.DOTALL)
"""Fenced blocks and quoted messages, which have the words of the program."""
QUOTED = re.compile(r"`[^`\n]*`")


def test_the_pages_use_standard_terms() -> None:
    texts = {
        path.relative_to(ROOT): CODE.sub("", path.read_text("utf-8"))
        for path in [*PAGES, ROOT / "CHANGELOG.md", *(ROOT / "bench/results").glob("*.md")]
    }
    found = {
        str(path): odd for path, text in texts.items() if (odd := [m[0] for m in ODD_PHRASES.finditer(text)])
    }
    words = sum(len(text.split()) for text in texts.values())
    assert 1000 * sum(map(len, found.values())) / words < PER_1000_WORDS_MAX, found


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_code_uses_standard_terms(folder: str) -> None:
    files = {
        path.relative_to(ROOT): path.read_text("utf-8") for path in sorted((ROOT / folder).rglob("*.py"))
    }
    odd = [line for path, source in files.items() for line in _odd_lines(path, source)]
    rate = 1000 * len(odd) / sum(len(source.splitlines()) for source in files.values())
    assert rate <= PER_1000_LINES_MAX, "\n".join([f"{rate:.2f} odd phrases in 1,000 lines", *odd])


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_names_in_the_code_are_standard_terms(folder: str) -> None:
    odd = {
        f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}"
        for path in (ROOT / folder).rglob("*.py")
        for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
        if token.type == tokenize.NAME and ODD_NAMES.search(token.string)
    }
    assert odd == set()


def test_odd_phrases_are_found_in_docstrings_and_comments_alone() -> None:
    source = '"""Whoever\nasks goes\non."""\nnobody = "wants"  # stands `held`\nX = 1\n"""Lies there."""\n'
    assert _odd_lines(Path("a.py"), source) == [
        "a.py:1: Whoever",
        "a.py:2: goes on",
        "a.py:4: stands",
        "a.py:6: Lies",
    ]


def _odd_lines(path: Path, source: str) -> list[str]:
    """`FILE:LINE: PHRASE` for each odd phrase in the docstrings and comments of a module."""
    return [
        f"{path}:{line + text.count(chr(10), 0, match.start())}: {' '.join(match[0].split())}"
        for line, text in sorted(_prose(source))
        for match in ODD_PHRASES.finditer(text)
    ]


def _prose(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, those of attributes too, and comments, each with the number of its first line."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, QUOTED.sub("", node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], QUOTED.sub("", token.string)
