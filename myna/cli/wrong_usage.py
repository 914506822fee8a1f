"""Wrong usage of the command line, each in one sentence."""

import difflib
import re
from typing import Final, Literal, get_args, get_origin

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)
from cyclopts.exceptions import UnknownCommandError
from cyclopts.help import format_usage

from myna.settings import SETTINGS

SAME: Final = (
    {"add", "create", "new", "make", "register", "issue", "invite", "enroll", "get", "pull", "download"},
    {"remove", "delete", "del", "rm", "revoke", "disable", "drop", "uninstall"},
    {"serve", "start", "run", "up", "server"},
    {"list", "ls", "all", "show", "get", "info", "describe", "status"},
    {"set", "update", "edit", "change", "modify", "config", "configure", "settings"},
    {"test", "check", "try", "ping", "audit", "verify", "doctor"},
    {"rename", "mv", "move", "migrate", "upgrade"},
    {"roll", "rotate", "renew", "reset"},
    {"grant", "topup", "credit", "charge", "pay"},
    {"enable", "activate", "unblock", "on"},
    {"disable", "deactivate", "block", "off", "suspend"},
    {"account", "accounts", "user", "users"},
    {"key", "keys", "token", "tokens"},
    {"channel", "channels", "upstream", "provider", "providers"},
    {"ledger", "transactions", "balance", "usage"},
    {"voice", "voices", "tts", "speak"},
    {"backup", "dump", "export"},
    {"restore", "import", "load"},
)
"""Words that people use for each other, so that one can be suggested for another."""


_KEY: Final = "'myna channel key NAME' reads the key from standard input."
ELSEWHERE: Final = {
    "--key": _KEY,
    "--api-key": _KEY,
    "--password": "its holder sets one by the link of 'myna account invite NAME'.",
}
"""Options that people expect, and what does it."""


VALUES: Final = {
    "before": "ID",
    "by": "NAME",
    "channel": "NAME",
    "config": "FILE",
    "data": "FOLDER",
    "from": "SOURCE",
    "id": "ID",
    "limit": "NUMBER",
    "progress": "FILE",
    "save": "FILE",
    "threads": "NUMBER",
    "to": "TARGET",
    "voice": "ID",
}
"""What an option's value is, where the option does not say it. Commands made from actions add theirs."""


def sentence(app: App, error: CycloptsError) -> str:
    """What is wrong, and with which argument, without a full stop where the usage ends it."""
    match error:
        case UnknownCommandError():
            return _unknown_command(error)
        case MissingArgumentError() if error.keyword or _given(error):
            return f"{error.keyword or _given(error)} needs a value.{_help(error)}"
        case MissingArgumentError():
            usage = with_names(format_usage(app, error.command_chain or ()).plain.strip())
            return f"{_name(error)} is missing.{_help(error)} Usage: {usage}"
        case UnknownOptionError():
            return _unknown_option(error)
        case UnusedCliTokensError():
            word = (error.unused_tokens or [""])[0]
            return f"'{_chain(error)}' has no place for {word[:40]!r}; see '{_chain(error)} --help'."
        case RepeatArgumentError():
            return f"{error.token.keyword} is given twice; give it once."
        case CoercionError() | ValidationError():
            return f"{_name(error)}: {_reason(error)}.{_help(error)}"
        case _:
            return str(error).strip()


def with_names(usage: str) -> str:
    """A usage line with a name of each option's value, as docs/command-line.md has it, not its type."""
    typed = re.compile(r"--([\w-]+) (?:STR|INT|PATH|CHOICE)")
    return typed.sub(lambda found: f"--{found[1]} {value_name(found[1])}", usage)


def value_name(option: str) -> str:
    """The name of an option's value: that of the option, or what it is."""
    name = option.lstrip("-")
    return VALUES.get(name, name.upper().replace("-", "_"))


def _unknown_command(error: CycloptsError) -> str:
    word, app = (error.unused_tokens or [""])[0], error.app
    flags = {*app.help_flags, *app.version_flags} if app else set()
    names = [name for name in app or () if name not in flags]
    before = " ".join(["myna", *(error.command_chain or ())])
    meant = [name for name in sorted(names) if any({word, name} <= same for same in SAME)]
    meant = meant or difflib.get_close_matches(word, names, n=1)
    suggested = f" Did you mean {' or '.join(f'{before} {name}' for name in meant)}?" if meant else ""
    return f"There is no command '{before} {word[:40]}'.{suggested} There are {', '.join(names)}."


def _unknown_option(error: UnknownOptionError) -> str:
    word = (error.token.keyword or error.token.value).partition("=")[0]
    setting = word.removeprefix("--").replace("-", "_")
    if setting in SETTINGS:
        where = f"MYNA_{setting.upper()}, or {setting} in myna.toml"
        return f"'{_chain(error)}' has no option {word[:40]}: it is a setting, {where}."
    if word in ELSEWHERE:
        return f"'{_chain(error)}' has no option {word}: {ELSEWHERE[word]}"
    options = [name for one in error.argument_collection if one.parse for name in one.names]
    if word in options:
        return f"'{_chain(error)}' has no place for {word} after --, which ends the options."
    near = difflib.get_close_matches(word, [name for name in options if name.startswith("-")], n=1)
    hint = f"did you mean {near[0]}?" if near else f"see '{_chain(error)} --help'."
    return f"'{_chain(error)}' has no option {word[:40]}; {hint}"


def _reason(error: CoercionError | ValidationError) -> str:
    if isinstance(error, ValidationError):
        return _lower(error.exception_message)
    if get_origin(error.target_type) is Literal and error.token:
        return f"{error.token.value[:40]!r} is none of {', '.join(get_args(error.target_type))}"
    if error.msg is not None:
        return _lower(str(error.msg))
    return _lower(str(error))


def _lower(text: str) -> str:
    text = text.strip().rstrip(".")
    return text[:1].lower() + text[1:]


def _chain(error: CycloptsError) -> str:
    return " ".join(["myna", *(error.command_chain or ())])


def _given(error: CycloptsError) -> str:
    """The option as it was given, empty if it was not."""
    tokens = error.argument.tokens if error.argument else []
    return next((token.keyword for token in tokens if token.keyword), "")


def _name(error: CycloptsError) -> str:
    """The name of the argument at fault: NAME, as in the usage, for one without an option."""
    if error.argument is None:
        return _chain(error)
    name = error.argument.name
    positional = error.argument.index is not None and not _given(error)
    return name.lstrip("-").upper() if positional else _given(error) or name


def _help(error: CycloptsError) -> str:
    """What the argument is, as another sentence."""
    text = error.argument.parameter.help if error.argument else ""
    return f" {text.replace('`', chr(39)).rstrip('.')}." if text else ""
