"""The output of commands: tables for people, JSON for programs, errors on stderr."""

import fcntl
import os
import pty
import re
import sqlite3
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import IO

import pytest
from rich.cells import cell_len

from myna.cli.console import moment
from tests.cli.conftest import SAID_DATABASE, Cli
from tests.rig.commands import output_of

LONG = "n" * 90
LISTS = ["account list", f"key list {LONG}", "channel list", "voice list", "settings list"]


@pytest.fixture
def furnished(cli: Cli) -> Cli:
    cli.lines("account", "add", LONG, "--units", "5", "--email", "e" * 60 + "@example.org")
    cli.lines("key", "issue", LONG, "--name", "k" * 90, "--scope", "chat", "--scope", "records")
    cli.lines("channel", "add", "chat", "c" * 90, "http://127.0.0.1:1/v1")
    return cli


def test_a_list_has_a_line_per_row_of_any_width_and_equals_its_json(furnished: Cli) -> None:
    env = {"MYNA_SPEECH": "espeak"}
    for command in LISTS:
        rows = furnished.json(*command.split(), **env)
        lines = furnished.lines(*command.split(), **env)
        assert rows and all(list(row) == lines[0].split() for row in rows)
        assert len(lines) == len(rows) + 1
        for row, line in zip(rows, lines[1:], strict=True):
            assert str(row.get("name")) in line


def test_times_are_for_people_in_tables_and_unix_seconds_in_json(furnished: Cli) -> None:
    (row,) = furnished.json("account", "list")
    assert abs(row["created_at"] - time.time()) < 600
    assert moment(row["created_at"]) in furnished.lines("account", "list")[1]
    assert moment(row["created_at"]) in "\n".join(furnished.lines("account", "show", LONG))
    (key,) = furnished.json("key", "list", LONG)
    assert key["expires_at"] == key["revoked_at"] == 0
    assert furnished.lines("key", "list", LONG)[1].count("never") == 3


def test_a_time_is_in_utc_and_zero_is_never() -> None:
    assert moment(0) == "never"
    assert moment(1_767_225_600) == "2026-01-01 00:00 UTC"
    assert moment(10**15) == "after the year 9999"


def test_no_list_shows_a_password(furnished: Cli) -> None:
    env = {
        "MYNA_CHAT_URL": "http://user:s3cr3t@127.0.0.1:1/v1",
        "MYNA_CHAT_KEY": "s3cr3t",
        "MYNA_SPEECH": "http://user:s3cr3t@127.0.0.1:1/v1",
    }
    for command in ("channel", "settings"):
        text = "\n".join(furnished.lines(command, "list", "--json", **env))
        assert "s3cr3t" not in text
        assert "***@127.0.0.1:1" in text


def test_control_characters_are_not_printed(cli: Cli) -> None:
    cli.lines("account", "add", "a")
    cli.lines("key", "issue", "a", "--name", "k", "--scope", "chat")
    with sqlite3.connect(cli.service.folder / "data" / "myna.sqlite") as db:  # as an older build took it
        db.execute("UPDATE keys SET name = ?", ("\x1b[2Jx\ny",))
    db.close()
    _, line = cli.lines("key", "list", "a")
    assert "\N{REPLACEMENT CHARACTER}[2Jx\N{REPLACEMENT CHARACTER}y" in line


BRIEF = {
    "account list": ["id", "name", "email", "balance", "operator", "disabled"],
    "key list ann": ["id", "name", "masked", "state", "calls", "cost"],
    "channel list": ["name", "kind", "url", "priority", "enabled", "circuit"],
    "route list": ["name", "kind", "units", "channels", "upstream_model"],
    "voice list": ["voice_id", "name", "language", "source", "status", "by"],
    "ledger ann": ["created_at", "kind", "units", "balance", "memo"],
    "activity": ["id", "created_at", "by", "command"],
    "code list": ["batch", "state", "codes", "units", "redeemed", "expires_at"],
    "settings list": ["name", "source", "value"],
    "models list": ["name", "kind", "size_mb", "state", "languages"],
}
"""The columns of lists on a terminal."""


def on_terminal(cli: Cli, columns: int, *arguments: str) -> list[str]:
    """What a command prints to a terminal of this width."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(master, "rb") as screen:
        ended = subprocess.Popen(
            [sys.executable, "-m", "myna", *arguments],
            env={**cli.service.env, "MYNA_SPEECH": "espeak"},
            cwd=cli.service.folder,
            stdout=terminal,
            stderr=terminal,
        )
        os.close(terminal)
        shown = b""
        try:
            while part := screen.read1(65536):
                shown += part
        except OSError:  # Linux reports so that no process has the terminal open
            pass
        assert ended.wait(30) == 0
    return [line for line in shown.decode().splitlines() if not line.startswith(SAID_DATABASE)]


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_a_list_has_its_main_columns_and_keeps_to_the_width(cli: Cli, columns: int) -> None:
    """The last column is wrapped after spaces and commas, or each row is a block: no id is ever cut."""
    cli.lines("account", "add", "ann", "--units", "50", "--email", "ann@example.org")
    cli.lines("account", "grant", "ann", "5", "--memo", "for the exercises of the whole second term of 2026")
    masked = cli.json("key", "issue", "ann", "--name", "laptop")["masked"]
    cli.lines("channel", "add", "chat", "vendor", "http://127.0.0.1:1/v1")
    cli.lines("route", "add", "gpt-4o-mini", "--units", "2", "--channel", "vendor")
    cli.lines("code", "add", "--units", "5")
    for command, brief in BRIEF.items():
        lines = on_terminal(cli, columns, *command.split())
        header = lines[0].removeprefix("\x1b[1m").removesuffix("\x1b[0m")
        assert header.split() == brief or [line.split()[0] for line in lines[: len(brief)]] == brief, command
        for line in [header, *lines[1:]]:  # only a long word, such as a path, exceeds the width
            assert cell_len(line) <= columns or cell_len(line.rpartition(" ")[0]) <= 50, command
    assert masked in "\n".join(on_terminal(cli, columns, "key", "list", "ann"))
    words = " ".join(" ".join(on_terminal(cli, columns, "activity")).split())
    assert "--memo 'for the exercises of the whole second term of 2026'" in words


def test_a_row_that_is_wider_than_the_terminal_is_a_block_of_lines(furnished: Cli) -> None:
    brief, wide = (on_terminal(furnished, 80, "key", "list", LONG, *more) for more in ((), ("--wide",)))
    assert [line.split()[0] for line in brief] == BRIEF["key list ann"]
    assert brief[1].split() == ["name", "k" * 90]
    (row,) = furnished.json("key", "list", LONG)
    assert [line.split()[0] for line in wide] == list(row)


def test_success_says_the_next_step_on_a_terminal_alone(cli: Cli) -> None:
    shown = {
        "account add ann": "Next: myna key issue ann",
        "account add olga --operator": "Next: send the link to the account's holder",
        "key issue ann": "export OPENAI_BASE_URL=http://",
        "channel add chat vendor https://127.0.0.2:1/v1": "Next: myna channel test vendor",
        "channel set vendor --weight 1": "Next: myna channel test vendor",
        "node enroll garage": "myna node run",
    }
    for command, step in shown.items():
        assert any(step in line for line in on_terminal(cli, 120, *command.split())), command
    assert cli.run("account", "add", "bob").stderr == ""


def test_myna_without_arguments_lists_its_commands(cli: Cli) -> None:
    """In a new process, which has not imported the module of the command yet."""
    program = [sys.executable, "-m", "myna"]
    printed = output_of(program, cli.service.env, cli.service.folder)
    for words in ("--help", "-h"):
        assert "\n".join(cli.lines(words)) in printed
    for command, line in (
        ("serve", "Serve until SIGTERM or Ctrl-C."),
        ("account", "Accounts and their units."),
        ("key", "API keys."),
        ("channel", "Upstream channels"),
        ("settings", "Site settings"),
        ("audit", "Check the books:"),
        ("version", "Print the version."),
    ):
        assert re.search(rf"\b{command} +{re.escape(line)}", printed), command
    assert re.findall(r"─ ([A-Z].+?) ─", printed) == ["Service", *GROUPS, "Options"]
    assert printed.index("serve ") < printed.index("account ")


GROUPS = ["People and what they use", "Models and voices"]


def test_help_shows_what_to_type_and_no_default_that_says_nothing(cli: Cli) -> None:
    text = "\n".join(cli.lines("activity", "--help"))
    assert "--by NAME " in text and "--limit NUMBER " in text and "[default: 50]" in text
    assert text.count("default") == 1
    assert "ACCOUNT  " in "\n".join(cli.lines("help", "ledger"))


def test_bash_completes_commands_and_options(cli: Cli) -> None:
    script = cli.service.folder / "completion.bash"
    script.write_text("\n".join(cli.lines("completion", "bash")))
    for typed, found in (
        ("myna key re", "rename revoke"),
        ("myna account add ann --o", "--operator"),
        ("myna channel add sp", "speech"),
    ):
        words = typed.split()
        asked = (
            f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; COMP_LINE='{typed}'; COMP_POINT={len(typed)}"
        )
        program = f'source {script}; {asked}; _myna; echo "${{COMPREPLY[@]}}"'
        assert output_of(["bash", "-c", program], os.environ, Path.cwd()).split() == found.split(), typed


WRONG = [
    "nonsense", "account nonsense", "account show", "account list --nonsense", "account add a --units many",
    "account add r --units 1.5", "account grant r 2.5", "account grant r 0x10", "key issue --scope chat",
    "key revoke --nonsense 1", "serve now", "serve --port 80", "help nonsense",
    "channel add video a http://h", "channel add chat r parrot: --priority 1.7",
]  # fmt: skip


def test_wrong_usage_is_reported_on_stderr_with_exit_2(cli: Cli) -> None:
    """A number that is not whole is never rounded."""
    for wrong in WRONG:
        ended = cli.run(*wrong.split())
        assert (ended.code, ended.stdout) == (2, ""), wrong
        assert re.fullmatch(r"myna: [^\n╭`]+\n", ended.stderr), wrong
        assert "whole number" in ended.stderr or not any(part in wrong for part in (".5", "0x", "1.")), wrong


SAID = {
    "account add ann --units": "--units needs a value. Units that the account starts with.",
    "account add ann --units many": "--units: 'many' is not a whole number. Units that the account starts",
    "account add ann --unitss 5": "'myna account add' has no option --unitss; did you mean --units?",
    "account add ann --units 1 --units 2": "--units is given twice; give it once.",
    "account create": "There is no command 'myna account create'. Did you mean myna account add or",
    "key delete 3": "There is no command 'myna key delete'. Did you mean myna key revoke? There are issue,",
    "start": "There is no command 'myna start'. Did you mean myna serve? There are serve, settings,",
    "acount list": "There is no command 'myna acount'. Did you mean myna account? There are serve,",
    "channel add video a http://h": "KIND: 'video' is none of chat, speech. What the channel does.",
    "record delete ann 1 x": "ID…: 'x' is not a whole number. The ids of the records.",
    "record delete ann 1.5": "ID…: '1.5' is not a whole number. The ids of the records.",
    "account show -- -1 --json": "'myna account show' has no place for --json after --, which ends the",
    "serve now": "'myna serve' has no place for 'now'; see 'myna serve --help'.",
    "serve --port 80": "'myna serve' has no option --port: it is a setting, MYNA_PORT, or port in myna.toml.",
}


def test_wrong_usage_says_what_to_type(cli: Cli) -> None:
    for words, said in SAID.items():
        assert cli.misused(*words.split()).startswith(said), words
    assert cli.lines("help", "key") == cli.lines("key", "--help")


REFUSED = {
    "account show nobody": "There is no account 'nobody'.",
    "account add x --email nonsense": "'nonsense' is not an e-mail address, such as name@example.org.",
    "account grant nobody 5": "There is no account 'nobody'.",
    "key list nobody": "There is no account 'nobody'.",
    "key revoke 12345": "There is no key 12345.",
    "key revoke laptop": "There is no key 'laptop'; 'myna key list ACCOUNT' has the names and ids.",
    "settings set port 80": "port is a setting of the process, not of the site: set MYNA_PORT, or port in",
    "settings get MYNA_PORT": "port is a setting of the process, not of the site: set MYNA_PORT, or port in",
    "activity --command nonsense": "No command begins with 'nonsense'; write one as in 'account grant'.",
    "channel test nothing": "There is no channel 'nothing'; there is 'default'.",
    "channel enable nothing": "There is no channel 'nothing'; there are none.",
    "channel remove default": "There is no channel 'default' in the database; it comes from the settings.",
    "key issue a --expires-in 1000000s": "'1000000s' is not a duration: write a number from 1 to 999999 with",
    "settings get nothing": "There is no site setting 'nothing'",
    "settings set language fr": "language: must be zh or en; it is 'fr'.",
    "account add b --units -1": "Units: must be a whole number from 0 to 9007199254740991.",
    "account set a --low-balance -1": "Low balance: must be a whole number from 0 to",
    "code add --units 0": "Units: must be a whole number from 1 to",
    "code add --units 1 --count 0": "How many codes: must be a whole number from 1 to",
    "route add r --units -1": "Units: must be a whole number from 0 to 1000000.",
    "key issue a --scope Chat": "There is no scope 'Chat'; there are chat, tts and records.",
}


def test_a_command_that_is_refused_is_one_line_with_exit_1(cli: Cli) -> None:
    cli.lines("account", "add", "a")
    for command, said in REFUSED.items():
        assert cli.refused(*command.split()).startswith(said)
    line = cli.refused("channel", "test", "default-speech", MYNA_SPEECH="espeak")
    assert line == "There is no channel 'default-speech'; there are 'default', 'espeak'."


UPSTREAM = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize("odd", ["\x1b[2J", "a\nb", "\u202e"])
def test_unprintable_values_are_refused_with_a_message(cli: Cli, odd: str) -> None:
    cli.lines("account", "add", "a", "--units", "5")
    cli.lines("channel", "add", "chat", "c", UPSTREAM)
    for command in (
        ("account", "add", f"b{odd}"),
        ("account", "add", "b", "--email", f"b{odd}@example.org"),
        ("account", "grant", "a", "1", "--memo", f"for{odd}"),
        ("key", "issue", "a", "--name", f"k{odd}", "--scope", "chat"),
        ("channel", "add", "chat", f"c{odd}", UPSTREAM),
        ("channel", "add", "chat", "other", UPSTREAM, "--model", f"m{odd}"),
        ("channel", "set", "c", "--model", f"m{odd}"),
        ("channel", "test", "c", "--model", f"m{odd}"),
        ("node", "enroll", f"n{odd}"),
        ("route", "add", "r", "--units", "1", "--upstream-model", f"m{odd}"),
    ):
        line = cli.refused(*command)
        assert "printable" in line
        assert line.isprintable()
    assert cli.lines("account", "list")[1:] == [cli.lines("account", "list")[1]]
    assert '"balance": 5' in cli.lines("account", "show", "a", "--json")[0]


def test_an_argument_that_is_not_utf_8_is_refused_in_a_line(cli: Cli) -> None:
    program: list[str | bytes] = [sys.executable, "-m", "myna", "account", "show", b"\xff\xfe"]
    ended = subprocess.run(program, env=cli.service.env, capture_output=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert ended.stderr == b"myna: Argument 3 is not valid UTF-8.\n"


def test_a_closed_pipe_ends_a_command_silently(cli: Cli) -> None:
    program = [sys.executable, "-m", "myna", "models", "list", "--json"]
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        program, env=cli.service.env, stdout=writing, stderr=subprocess.PIPE, timeout=30, check=False
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.mark.parametrize("command", ["version", "models list --json"])
def test_output_that_cannot_be_written_is_one_line_with_exit_1(cli: Cli, command: str) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = in_a_shell(cli, command, stdout=full)
    assert ended.returncode == 1
    assert ended.stderr == "myna: The output can't be written: No space left on device.\n"


UNSEEN = {
    "key issue ann": [
        "key issue ann --name 'key 2' --scope chat --scope tts --scope records",
        "key revoke 2",
    ],
    "key roll 1": ["key roll 1", "key revoke 2"],
    "code add --units 1": ["code add --units 1", "code disable 1"],
    "node enroll n": ["node enroll n", "node enroll n"],
    "account invite ann": ["account invite ann", "account invite ann"],
    "account add bob --operator": ["account add bob --operator", "account invite bob", "account invite bob"],
}
"""What the activity says of a command whose secret could not be printed: it was made invalid, or replaced by
one that is shown to nobody."""


@pytest.mark.parametrize("command", UNSEEN)
def test_a_secret_that_could_not_be_printed_is_not_valid(cli: Cli, command: str) -> None:
    cli.lines("account", "add", "ann")
    cli.lines("key", "issue", "ann")
    before = cli.json("activity")
    with Path("/dev/full").open("wb") as full:
        ended = in_a_shell(cli, f"{command} --json", stdout=full)
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended
    assert "No space left on device. The output is incomplete" in ended.stderr
    added = cli.json("activity")[: -len(before)]
    assert [row["command"].removeprefix("myna ") for row in reversed(added)] == UNSEEN[command]


def test_characters_that_the_output_lacks_are_escaped_and_a_closed_one_is_no_error(cli: Cli) -> None:
    cli.lines("account", "add", "乌鸦")
    ended = in_a_shell(cli, "account show 乌鸦", stdout=subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert (ended.returncode, r"\u4e4c\u9e26" in ended.stdout) == (0, True), ended
    closed = in_a_shell(cli, "account list >&-", stdout=None)
    assert (closed.returncode, closed.stderr.count("\n")) == (0, 1), closed


def in_a_shell(
    cli: Cli, command: str, *, stdout: IO[bytes] | int | None, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f"{sys.executable} -m myna {command}"],
        env={**cli.service.env, **env},
        cwd=cli.service.folder,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
        check=False,
    )
