"""What `make docs` writes into the pages from what the code declares. A test compares.

The tables of settings follow lines `<!-- make docs: … -->`. Their notes are written by hand, and kept.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from myna import config, settings
from myna.lib.setting_kinds import Setting
from tests.docs.pages import DOCS

HEAD = "| setting | default | meaning | notes |\n| --- | --- | --- | --- |\n"
TABLES: Mapping[str, Mapping[str, Setting]] = {
    "process settings": {settings.variable(name): one for name, one in settings.SETTINGS.items()},
    "site settings": config.SETTINGS,
}
_TABLE = re.compile(r"<!-- make docs: (.*) -->\n((?:\|.*\n)*)")


def settings_table(name: str, old: str) -> str:
    """The table of settings, with the notes of the old one."""
    cells = (line.split("|") for line in old.splitlines())
    notes = {row[1].strip(" `"): row[4].strip() for row in cells}
    return HEAD + "".join(_row(name, one, notes.get(name, "")) for name, one in TABLES[name].items())


def _row(name: str, setting: Setting, notes: str) -> str:
    default, most = str(setting.kind.default), setting.kind.values.get("most")
    least = setting.kind.values.get("least", "above 0")
    limits = f" ({least} to {most})" if most else ""
    shown = f"`{default}`" if default else "(empty)"
    return f"| `{name}` | {shown} | {setting.english}{limits} | {notes} |\n"


def written() -> dict[Path, str]:
    """Every page that has a generated part, as it should be."""
    page = DOCS / "configuration.md"
    text = page.read_text(encoding="utf-8")
    return {
        page: _TABLE.sub(
            lambda found: f"<!-- make docs: {found[1]} -->\n{settings_table(*found.groups())}", text
        )
    }


if __name__ == "__main__":
    for page, text in written().items():
        page.write_text(text, encoding="utf-8")
