"""The command line: parses, calls a noun, prints. Errors on stderr with exit 1, wrong usage with exit 2."""

import logging
import os
import sys

from cyclopts import App, CycloptsError
from rich.console import Console

from myna import __version__
from myna.errors import CommandError, ConfigError

FAILED, WRONG_USAGE = 1, 2

COMMANDS = {
    "serve": "myna.cli.serve:serve",
    "migrate": "myna.cli.serve:migrate",
    "version": "myna.cli.serve:version",
    "audit": "myna.cli.site:audit",
    "account": "myna.cli.accounts:app",
    "key": "myna.cli.keys:app",
    "channel": "myna.cli.channels:app",
    "voice": "myna.cli.voices:app",
    "node": "myna.cli.node_run:app",
    "models": "myna.cli.models:app",
    "settings": "myna.cli.site:settings",
}
"""Each command's place. A process imports its own command's alone: what serves has no use for what tries
models, nor the other way round."""


def build() -> App:
    """All commands."""
    app = App(
        name="myna",
        help="A self-hosted open AI platform: chat and speech behind API keys and prepaid units.",
        version=__version__,
        error_console=Console(stderr=True),
        result_action="return_value",
    )
    for name, where in COMMANDS.items():
        app.command(where, name=name)
    return app


def main(arguments: list[str] | None = None) -> None:
    """The entry point of `myna`."""
    logging.getLogger("myna").addHandler(logging.NullHandler())  # a command says itself how it went
    app = build()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        _check_text(words)
        if not words or words[0] in app.help_flags:  # each command is listed with its own first line
            app.resolved_commands()
        code = app(words, exit_on_error=False, print_error=True)
        sys.stdout.flush()
    except BrokenPipeError:  # who read, `head` perhaps, has seen enough; the interpreter flushes once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except CycloptsError as error:
        if error.argument is not None and error.argument.parameter.help:
            print(f"myna: {error.argument.name}: {error.argument.parameter.help}", file=sys.stderr)
        sys.exit(WRONG_USAGE)
    except ConfigError as error:
        print(f"myna: {error}", file=sys.stderr)
        sys.exit(WRONG_USAGE)
    except CommandError as error:
        print(f"myna: {error}", file=sys.stderr)
        sys.exit(FAILED)
    sys.exit(code or 0)


def _check_text(words: list[str]) -> None:
    """Bytes that are no UTF-8 arrive as lone surrogates, which nothing behind can store or print."""
    for number, word in enumerate(words, 1):
        if any("\ud800" <= char <= "\udfff" for char in word):
            raise ConfigError(f"The argument in place {number} is no valid UTF-8.")
