"""What `make docs` writes into the pages from what the code declares. A test compares.

The tables of settings follow lines `<!-- make docs: … -->`. Their notes are written by hand, and kept, as are
the meanings of the keys of node.toml. The usage lines of docs/command-line.md are its fenced lines.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cyclopts import App, Argument
from msgspec import NODEFAULT, Struct, structs

from myna import config, settings
from myna.cli import build
from myna.cli.wrong_usage import value_name
from myna.engines.registry import KINDS
from myna.engines.voices import VoiceConfig
from myna.lib.setting_kinds import Setting
from myna.node.engines import NodeFile
from tests.docs.pages import DOCS

HEAD = "| setting | default | meaning | notes |\n| --- | --- | --- | --- |\n"
TABLES: Mapping[str, Mapping[str, Setting]] = {
    "process settings": {settings.variable(name): one for name, one in settings.SETTINGS.items()},
    "site settings": config.SETTINGS,
}
IN_WORDS = {"slots": "as many as cores", "engine": "one `espeak`", "key_env": "none"}
"""Defaults of node.toml that are described in words."""
KEYS: Mapping[str, type[Struct]] = {
    "key": NodeFile,
    **{f"key of kind `{kind}`": config for kind, config in KINDS.items()},
    "key of a `voice`": VoiceConfig,
}
PAGES = ("configuration", "command-line", "nodes")
_KEYS = re.compile(r"(?<=^\| )(key.*) (\| default \| meaning \|\n\| --- .*\n)((?:\|.*\n)*)", re.MULTILINE)
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


def keys_table(head: str, old: str) -> str:
    """The table of the keys of node.toml, with the meanings of the old one."""
    cells = [line.split("|") for line in old.splitlines()]
    meanings = {row[1].strip(" `"): row[3].strip() for row in cells}
    defaults = {one.name: _default(one) for one in structs.fields(KEYS[head])}
    defaults |= {"engine.kind": ""} if KEYS[head] is NodeFile else {}
    rows = [f"| `{name}` | {default} | {meanings.get(name, '')} |\n" for name, default in defaults.items()]
    return "".join(rows).replace("|  |", "| |")


def _default(field: structs.FieldInfo) -> str:
    if field.name in IN_WORDS:
        return IN_WORDS[field.name]
    if field.default_factory is not NODEFAULT:
        return "none"
    if field.default is NODEFAULT:
        return ""
    return "all" if field.default is None else f"`{field.default}`"


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
    configuration, command_line, nodes = (DOCS / f"{name}.md" for name in PAGES)
    usages = dict(commands(build()))

    def table(found: re.Match[str]) -> str:
        return f"<!-- make docs: {found[1]} -->\n{settings_table(*found.groups())}"

    def line(found: re.Match[str]) -> str:
        return " ".join([found[1], *map(_usage, usages[found[1]])])

    def keys(found: re.Match[str]) -> str:
        return f"{found[1]} {found[2]}{keys_table(found[1], found[3])}"

    return {
        nodes: _KEYS.sub(keys, nodes.read_text(encoding="utf-8")),
        configuration: _TABLE.sub(table, configuration.read_text(encoding="utf-8")),
        command_line: _USAGE.sub(line, command_line.read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    for page, text in written().items():
        page.write_text(text, encoding="utf-8")
