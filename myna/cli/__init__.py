"""The command line: parses, calls a noun, prints. Errors on stderr with exit 1, wrong usage with exit 2."""

import logging
import os
import sys

from cyclopts import App, CycloptsError
from rich.console import Console

from myna import __version__
from myna.cli import accounts, channels, keys, models, node_run, serve, site, voices
from myna.errors import CommandError, ConfigError

FAILED, WRONG_USAGE = 1, 2


def build() -> App:
    """All commands."""
    app = App(
        name="myna",
        help="A self-hosted open AI platform: chat and speech behind API keys and prepaid units.",
        version=__version__,
        error_console=Console(stderr=True),
        result_action="return_value",
    )
    app.command(serve.serve)
    app.command(serve.migrate)
    app.command(serve.version)
    app.command(site.audit)
    nouns = {
        "account": accounts,
        "key": keys,
        "channel": channels,
        "voice": voices,
        "node": node_run,
        "models": models,
    }
    for name, noun in nouns.items():
        app.command(noun.app, name=name)
    app.command(site.settings, name="settings")
    return app


def main(arguments: list[str] | None = None) -> None:
    """The entry point of `myna`."""
    logging.getLogger("myna").addHandler(logging.NullHandler())  # a command says itself how it went
    app = build()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        _check_text(words)
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
