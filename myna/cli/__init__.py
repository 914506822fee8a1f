"""The command line. Errors go to stderr with exit code 1, wrong usage with exit code 2."""

import logging
import os
import sys

from cyclopts import App, CycloptsError

from myna import __version__
from myna.cli.wrong_usage import sentence
from myna.errors import CommandError, ConfigError

FAILED = 1
WRONG_USAGE = 2
"""Exit codes."""

COMMANDS = {
    "serve": "myna.cli.serve:serve",
    "migrate": "myna.cli.serve:migrate",
    "backup": "myna.cli.backup:backup",
    "restore": "myna.cli.backup:restore",
    "move": "myna.cli.move:move",
    "version": "myna.cli.serve:version",
    "audit": "myna.cli.config:audit",
    "account": "myna.cli.accounts:app",
    "ledger": "myna.cli.history:ledger",
    "calls": "myna.cli.history:calls",
    "activity": "myna.cli.history:activity",
    "key": "myna.cli.keys:app",
    "code": "myna.cli.codes:app",
    "record": "myna.cli.records:app",
    "channel": "myna.cli.channels:app",
    "route": "myna.cli.routes:app",
    "voice": "myna.cli.voices:app",
    "node": "myna.cli.node_run:app",
    "models": "myna.cli.models:app",
    "settings": "myna.cli.config:settings",
}
"""The function or app of each command. A process imports only the module of the command that it runs."""


def build() -> App:
    """All commands."""
    app = App(
        name="myna",
        help="A self-hosted open AI platform: chat and speech behind API keys and prepaid units.",
        version=__version__,
        result_action="return_value",
    )
    for name, where in COMMANDS.items():
        app.command(where, name=name)
    return app


def main(arguments: list[str] | None = None) -> None:
    """The entry point of `myna`."""
    logging.getLogger("myna").addHandler(logging.NullHandler())  # commands print their own errors
    app = build()
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    try:
        _check_text(words)
        if not words or words[0] in app.help_flags:  # the list has the first line of each command
            app.resolved_commands()
        code = app(words, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except BrokenPipeError:  # `head`, for example, closed the pipe; the interpreter flushes stdout again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except CycloptsError as error:
        print(f"myna: {sentence(app, error)}", file=sys.stderr)
        sys.exit(WRONG_USAGE)
    except ConfigError as error:
        print(f"myna: {error}", file=sys.stderr)
        sys.exit(WRONG_USAGE)
    except CommandError as error:
        print(f"myna: {error}", file=sys.stderr)
        sys.exit(FAILED)
    sys.exit(code or 0)


def _check_text(words: list[str]) -> None:
    """Refuses bytes that are not UTF-8: they arrive as surrogates, which can't be stored or printed."""
    for number, word in enumerate(words, 1):
        if any("\ud800" <= char <= "\udfff" for char in word):
            raise ConfigError(f"Argument {number} is not valid UTF-8.")
