"""The links of the documentation lead somewhere, and its index to every page."""

import re
from pathlib import Path

from tests.docs.pages import DOCS, ROOT

ENTRIES = [ROOT / name for name in ("README.md", "README.zh.md", "SECURITY.md", "CHANGELOG.md")]
PAGES = [*ENTRIES, *sorted(DOCS.rglob("*.md"))]
README_WORDS_MAX = 900
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_MOVED = "Moved: "


def links(page: Path) -> list[str]:
    """The links to other files and headings of the repository."""
    found = _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))
    return [link for link in found if "://" not in link]


def anchors(page: Path) -> set[str]:
    """The anchors of the page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_CODE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    broken = []
    for page in PAGES:
        for link in links(page):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


def test_the_index_names_every_page() -> None:
    named = {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "README.md")}
    pages = [
        page
        for page in sorted(DOCS.rglob("*.md"))
        if _MOVED not in page.read_text("utf-8") and page.parent.name != "decisions"
    ]
    assert [page.name for page in pages if page not in named and page.name != "README.md"] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= README_WORDS_MAX
