"""The documentation of the command line matches it."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from cyclopts import App, Argument

from myna.cli import build
from myna.cli.wrong_usage import value_name
from myna.settings import load
from tests.docs.pages import DOCS, PAGES, ROOT, commands, fences

_TOKEN = re.compile(r"\[[^\]]*\]|--\S+(?: [A-Z]+…?)?|[A-Z]+…?")
OTHER_PROGRAMS = {
    "aider", "cd", "codex", "cp", "curl", "docker", "echo", "journalctl", "llm", "npm", "ollama",
    "open-webui", "opencode", "printf", "python", "python3", "qwen", "sgpt", "sudo", "systemctl",
}  # fmt: skip


class Parameter(NamedTuple):
    """A value or an option of a command."""

    name: str
    value: str
    required: bool
    repeated: bool


def documented() -> dict[str, set[Parameter]]:
    """Every usage line of the page: a fenced block of one line that begins with `myna`."""
    found = {}
    for fence in fences(DOCS / "command-line.md"):
        words = re.match(r"myna((?: [a-z]+(?:-[a-z]+)*)+)", fence.text)
        assert words, fence.text
        tokens = _TOKEN.findall(fence.text[words.end() :])
        assert " ".join(tokens) == fence.text[words.end() :].strip(), "a token that can't be read"
        found[words[1].strip()] = {_read(token) for token in tokens}
    return found


def _read(token: str) -> Parameter:
    required = not token.startswith("[")
    name, _, value = token.strip("[]").partition(" ")
    if name.startswith("--"):
        repeated = value.endswith("…")
        return Parameter(name=name, value=value.rstrip("…"), required=required, repeated=repeated)
    return Parameter(
        name=name.rstrip("…"), value=name.rstrip("…"), required=required, repeated=name.endswith("…")
    )


def real() -> dict[str, set[Parameter]]:
    return {name: {_describe(argument) for argument in arguments} for name, arguments in _walk(build(), "")}


def _walk(app: App, prefix: str) -> Iterator[tuple[str, list[Argument]]]:
    for name in app:
        if not name.startswith("-"):
            command, path = app[name], f"{prefix} {name}".strip()
            if command.default_command:
                yield path, list(command.assemble_argument_collection())
            yield from _walk(command, path)


def _describe(argument: Argument) -> Parameter:
    name = argument.name
    if argument.field_info.kind.name != "KEYWORD_ONLY":
        name = name.strip("-…").upper()
    return Parameter(
        name=name,
        value="" if argument.hint is bool else value_name(name) if name.startswith("--") else name,
        required=argument.required,
        repeated="list[" in str(argument.hint),
    )


def test_the_command_line_page_has_every_command_with_its_options_and_no_other() -> None:
    assert documented() == real()


def test_every_command_and_each_of_its_options_is_described_in_its_help() -> None:
    walked = dict(_walk(build(), ""))
    assert len(walked) > 40
    for name, arguments in walked.items():
        command = build()
        for word in name.split():
            command = command[word]
        assert command.help, name
        for argument in arguments:
            assert str(argument.parameter.help or "").endswith((".", "…")), f"{name}: {argument.name}"


def test_help_names_the_section_that_describes_the_command() -> None:
    for section in re.split(r"^## ", (DOCS / "command-line.md").read_text("utf-8"), flags=re.MULTILINE)[1:]:
        slug = section.partition("\n")[0].lower().replace(" ", "-")
        for name in re.findall(r"^myna ([a-z]+)", section, re.MULTILINE):
            assert build([name]).help_epilogue == f"Documentation: docs/command-line.md#{slug}", name


def test_every_command_in_a_shell_block_is_valid() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    app = build()
    typed = [
        found
        for page in PAGES
        for fence in fences(page)
        if fence.language == "sh"
        for found in commands(fence)
    ]
    assert len(typed) > 100
    for command in typed:
        load({**command.env, "MYNA_WORKERS": "1"})  # as many as the machine has cores, and no more
        if command.program == "myna":
            app.parse_args(command.arguments, exit_on_error=False, print_error=False)
        elif command.program == "make":
            assert set(command.arguments) <= targets
        else:
            assert command.program in OTHER_PROGRAMS | {"export"}, command.line
