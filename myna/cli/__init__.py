"""The command line. Errors go to stderr with exit code 1, wrong usage with exit code 2."""

import contextlib
import io
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from cyclopts import App, CycloptsError, Group, Parameter
from cyclopts.help import DefaultFormatter, HelpEntry, HelpPanel
from rich.console import Console, ConsoleOptions

from myna import __version__
from myna.cli.wrong_usage import sentence, value_name, with_names
from myna.errors import CommandError, ConfigError, MynaError

FAILED = 1
WRONG_USAGE = 2
"""Exit codes."""

COMMANDS = {
    "Service": {
        "serve": ("myna.cli.serve:serve", "service"),
        "settings": ("myna.cli.settings:app", "settings"),
        "audit": ("myna.cli.backup:audit", "service"),
        "backup": ("myna.cli.backup:backup", "service"),
        "restore": ("myna.cli.backup:restore", "service"),
        "move": ("myna.cli.backup:move", "service"),
        "migrate": ("myna.cli.serve:migrate", "service"),
        "completion": ("myna.cli.serve:completion", "service"),
        "version": ("myna.cli.serve:version", "service"),
    },
    "People and what they use": {
        "account": ("myna.cli.accounts:app", "accounts"),
        "key": ("myna.cli.keys:app", "keys"),
        "code": ("myna.cli.keys:code_app", "codes"),
        "ledger": ("myna.cli.history:ledger", "accounts"),
        "calls": ("myna.cli.history:calls", "accounts"),
        "record": ("myna.cli.voices:records_app", "records"),
        "activity": ("myna.cli.history:activity", "accounts"),
    },
    "Models and voices": {
        "channel": ("myna.cli.channels:app", "channels"),
        "route": ("myna.cli.channels:route_app", "routes"),
        "models": ("myna.cli.models:app", "models"),
        "voice": ("myna.cli.voices:app", "voices"),
        "node": ("myna.cli.nodes:app", "compute-nodes"),
    },
}
"""The commands in groups: the function or app of each, and its section of docs/command-line.md. A process
imports only the module of the command that it runs."""

TYPES = {"STR", "INT", "PATH", "CHOICE", "STR...", "INT..."}


def build(words: Sequence[str] = ()) -> App:
    """All commands. Help names the section of the command that `words` begin with."""
    sections = {name: section for group in COMMANDS.values() for name, (_, section) in group.items()}
    section = sections.get("".join(words[:1]))
    page = f"docs/command-line.md#{section}" if section else "docs/README.md"
    app = App(
        name="myna",
        help="A self-hosted open AI platform: chat and speech behind API keys and prepaid units.",
        help_epilogue=f"Documentation: {page}",
        help_formatter=_Help(),
        version=__version__,
        result_action="return_value",
        default_parameter=Parameter(negative="", show_default=_default),
    )
    flags = Group("Options", sort_key=len(COMMANDS))
    for flag, text in (("--help", "Print help."), ("--version", "Print the version.")):
        app[flag].help, app[flag].group = text, flags
    for order, (title, commands) in enumerate(COMMANDS.items()):
        group = Group(title, sort_key=order)
        for place, (name, (where, _)) in enumerate(commands.items()):
            app.command(where, name=name, group=group, sort_key=place)
    return app


def main(arguments: list[str] | None = None) -> None:
    """The entry point of `myna`."""
    logging.getLogger("myna").addHandler(logging.NullHandler())  # commands print their own errors
    nowhere = Path(os.devnull)  # a stream that was closed is None
    sys.stdout, sys.stderr = sys.stdout or nowhere.open("w"), sys.stderr or nowhere.open("w")
    with contextlib.redirect_stdout(_Output(sys.stdout)):
        sys.exit(_exit_code(sys.argv[1:] if arguments is None else arguments))


def _exit_code(words: list[str]) -> int:
    """Runs a command."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    app = build(words)
    try:
        _check_text(words)
        if not words or words[0] in app.help_flags:  # the list has the first line of each command
            app.resolved_commands()
        code = app(words, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except BrokenPipeError:  # `head`, for example, closed the pipe
        return FAILED
    except CycloptsError as error:
        print(f"myna: {sentence(app, error)}", file=sys.stderr)
        return WRONG_USAGE
    except ConfigError as error:
        print(f"myna: {error}", file=sys.stderr)
        return WRONG_USAGE
    except (CommandError, MynaError) as error:
        print(f"myna: {error}", file=sys.stderr)
        return FAILED
    return code or 0


class _Output:
    """Standard output. Characters that its encoding lacks are escaped. A failure is a CommandError, or
    BrokenPipeError; then the rest is dropped, since the interpreter would fail at it once more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._checked():
            return self._stream.write(text)

    def flush(self) -> None:
        with self._checked():
            self._stream.flush()

    @contextlib.contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if isinstance(error, BrokenPipeError):
                raise
            raise CommandError(f"The output can't be written: {error.strerror}.") from None


def _check_text(words: list[str]) -> None:
    """Refuses bytes that are not UTF-8: they arrive as surrogates, which can't be stored or printed."""
    for number, word in enumerate(words, 1):
        if any("\ud800" <= char <= "\udfff" for char in word):
            raise ConfigError(f"Argument {number} is not valid UTF-8.")


class _Help(DefaultFormatter):
    """Shows arguments as docs/command-line.md does: with a name of the value, not its type."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        entries = [_named(entry) for entry in panel.entries]
        super().__call__(console, options, panel.copy(entries=entries))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: object) -> None:
        super().render_usage(console, options, with_names(str(usage)))


def _named(entry: HelpEntry) -> HelpEntry:
    if entry.positional_label:
        return entry.copy(positive_names=())
    if entry.metavar not in TYPES:
        return entry
    name = value_name(entry.names[-1])
    return entry.copy(metavar=f"{name}…" if entry.metavar.endswith("...") else name)


def _default(value: object) -> str | None:
    """The default of an option, as its help shows it; None if it says nothing."""
    return None if value in (None, "", False) else str(value)
