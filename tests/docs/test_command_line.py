"""The documentation of the command line matches it."""

import re

from myna.cli import build
from myna.settings import load
from tests.docs.generated import commands
from tests.docs.pages import DOCS, PAGES, ROOT, fences
from tests.docs.pages import commands as shell_commands

PAGE = (DOCS / "command-line.md").read_text("utf-8")
OTHER_PROGRAMS = {
    "aider", "cd", "codex", "cp", "curl", "docker", "echo", "journalctl", "llm", "npm", "ollama",
    "open-webui", "opencode", "printf", "python", "python3", "qwen", "sgpt", "sudo", "systemctl",
}  # fmt: skip


def test_the_command_line_page_has_every_command_and_no_other() -> None:
    """Their values and options are what `make docs` writes: see test_tables."""
    found = re.findall(r"^myna((?: [a-z]+(?:-[a-z]+)*)+)", PAGE, re.MULTILINE)
    assert sorted(f"myna{name}" for name in found) == sorted(name for name, _ in commands(build()))


def test_every_command_and_each_of_its_options_is_described_in_its_help() -> None:
    for name, arguments in commands(build()):
        command = build()
        for word in name.split()[1:]:
            command = command[word]
        assert command.help, name
        for argument in arguments:
            assert str(argument.parameter.help or "").endswith((".", "…")), f"{name}: {argument.name}"


def test_help_names_the_section_that_describes_the_command() -> None:
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
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
        for found in shell_commands(fence)
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
