"""What `make docs` writes into the pages from what the code declares. A test compares.

The tables of settings follow lines `<!-- make docs: … -->`. Their notes are written by hand, and kept. The
usage lines of docs/command-line.md are the fenced lines that begin with `myna`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cyclopts import App, Argument

from myna import config, settings
from myna.cli import build
from myna.cli.wrong_usage import value_name
from myna.lib.setting_kinds import Setting
from tests.docs.pages import DOCS

HEAD = "| setting | default | meaning | notes |\n| --- | --- | --- | --- |\n"
TABLES: Mapping[str, Mapping[str, Setting]] = {
    "process settings": {settings.variable(name): one for name, one in settings.SETTINGS.items()},
    "site settings": config.SETTINGS,
}
_USAGE = re.compile(r"(?<=^```\n)(myna(?: [a-z]+(?:-[a-z]+)*)+).*", re.MULTILINE)
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


def commands(app: App, prefix: str = "myna") -> Iterator[tuple[str, list[Argument]]]:
    """Every command, with its values and options."""
    for name in app:
        if not name.startswith("-"):
            command = app[name]
            if command.default_command:
                yield f"{prefix} {name}", list(command.assemble_argument_collection())
            yield from commands(command, f"{prefix} {name}")


def _usage(argument: Argument) -> str:
    name = argument.name.rstrip("…")
    if argument.field_info.kind.name != "KEYWORD_ONLY":
        name = name.lstrip("-").upper()
    elif argument.hint is not bool:
        name = f"{name} {value_name(name)}"
    name += "…" if "list[" in str(argument.hint) else ""
    return name if argument.required else f"[{name}]"


def written() -> dict[Path, str]:
    """Every page that has a generated part, as it should be."""
    configuration, command_line = (DOCS / f"{name}.md" for name in ("configuration", "command-line"))
    usages = dict(commands(build()))

    def table(found: re.Match[str]) -> str:
        return f"<!-- make docs: {found[1]} -->\n{settings_table(*found.groups())}"

    def line(found: re.Match[str]) -> str:
        return " ".join([found[1], *map(_usage, usages[found[1]])])

    return {
        configuration: _TABLE.sub(table, configuration.read_text(encoding="utf-8")),
        command_line: _USAGE.sub(line, command_line.read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    for page, text in written().items():
        page.write_text(text, encoding="utf-8")
