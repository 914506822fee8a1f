"""Every command that changes the site is in the activity, as a command that makes the same change."""

import getpass
import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from cyclopts import App

from demo import tiny_voices
from myna.cli import build
from tests.cli.conftest import Cli
from tests.rig.samples import write_voice
from tests.rig.upstream import Upstream

READS = {
    "account list", "account sessions", "account show", "account usage", "activity", "calls", "channel list",
    "code list", "key list", "ledger", "models list", "node list", "record list", "route list",
    "settings get", "settings list", "completion", "version", "voice list", "voice read", "voice word list",
}  # fmt: skip
OF_THE_MACHINE = {
    "audit", "backup", "migrate", "models add", "models get", "models remove", "move", "node check",
    "node join", "node run", "restore", "serve",
}  # fmt: skip
"""They change files or the whole database, on behalf of no account."""
UP_KEY = "sk-abcdef"
URL = "http://127.0.0.1:1/v1"
CHANGES = f"""
account add ann --units 7 --email ann@example.org --operator
account add -- --bob
account add carl
account rename carl 'carl the 2nd'
account grant ann -3 '--memo=-3: a correction'
account invite ann
account set ann --language en --low-balance 5
account sign-out ann
account disable ann --force
account enable ann
key issue ann --name 'a key' --scope chat --scope tts --expires-in 36h
key issue ann --name forever --scope records
key issue ann --name capped --scope chat --cap 10/week
key cap 2 1000/month
key cap 2 none
key issue ann --name routed --scope chat --route svc-chat --route tts-1
key routes 2 --route svc-agent --route tts-1
key routes 2 --any
key issue ann --name limited --scope chat --rpm 60 --concurrent none --units-per-day default
key limit 2 --rpm 60 --concurrent 4
key limit 2 --rpm none --units-per-day default
account limit ann --units-per-day 1000
key rename 1 -- '-a name'
key roll 1 --grace 36h
key revoke 1
code add --units 5 --count 2 --uses 3 --expires 30d --memo spring
code disable 1
channel add chat up {URL} --model m --key-env UP_KEY --priority -5
channel set up --url {URL}/2 --key-env ''
channel set up --model n --priority 0
channel disable up
channel enable up
channel set up --weight 3 --responses yes
channel set up --weight 0 --responses no
channel set up --concurrent 4
channel add chat heavy {URL} --priority 7 --weight 2 --responses yes --concurrent 9
route add gpt-4o --units 3 --channel up --channel heavy --upstream-model m --intent
route add 'e-*' --units 0 --kind embeddings
route set gpt-4o --units 0 --upstream-model '' --channel heavy --intent no
route set gpt-4o --any-channel --intent yes
route remove gpt-4o
channel remove up
channel add chat bird parrot:
channel test bird
channel order bird
channel key bird
channel key bird --remove
settings set owner 'the owner'
node enroll node --again
node enroll other
node disable node
node enable node
node drain node
node remove node
voice hide alloy
voice show alloy
voice rename alloy 合金
voice rename alloy ''
voice order shimmer alloy
voice blend xiao zf_xiaoxiao:2+zf_xiaobei:1
voice blend xiao zf_xiaoxiao:3+zf_xiaobei:1 --name 小
voice delete xiao
voice word add Myna MY-nuh
voice word remove Myna
voice clone ann --name Ann --language en --sample ann.wav --transcript 'What I say.' --consent --consent-by A
""".strip().splitlines()
"""In this order each succeeds. The speech channel has the voices `alloy` and `shimmer`."""


def parsed(line: str) -> tuple[str, dict[str, Any]]:
    """The function that a command line calls, with all its arguments."""
    words = shlex.split(line)
    _, bound, _ = build().parse_args(words, exit_on_error=False, print_error=False)
    bound.apply_defaults()
    return " ".join(words[:2]), dict(bound.arguments) | {"json": False}


def rows(cli: Cli, limit: int, *select: str) -> list[dict[str, Any]]:
    """The newest changes, newest first, their commands without `myna`."""
    found = cli.json("activity", "--limit", str(limit), *select)
    return [{**row, "command": row["command"].removeprefix("myna ")} for row in found]


def newest(cli: Cli, *select: str) -> dict[str, Any]:
    (row,) = rows(cli, 1, *select)
    return row


@pytest.fixture
def furnished(cli: Cli, upstream: Upstream) -> Cli:
    model = tiny_voices.neural(cli.service.folder / "kokoro", ["zf_xiaoxiao", "zf_xiaobei"])
    cli.service.env["MYNA_SPEECH"] = f"kokoro:{model}"
    upstream.behave("status:404")
    cli.lines("channel", "add", "speech", "speech", upstream.url, "--model", "tts-1")
    write_voice(cli.service.folder / "ann.wav", 5.0)
    return cli


def test_each_change_is_recorded_as_a_command_that_makes_it(furnished: Cli) -> None:
    expected: list[str] = []
    secrets = {UP_KEY}
    for line in CHANGES:
        name = max((name for name in COMMANDS if line.startswith(f"{name} ")), key=len)
        rest = shlex.split(line.removeprefix(name))
        ended = furnished.run(*name.split(), "--json", *rest, UP_KEY=UP_KEY, stdin=f"{UP_KEY}\n")
        assert (ended.code, ended.stderr) == (0, ""), ended
        said = json.loads(ended.stdout.splitlines()[-1])
        shown = said if isinstance(said, dict) else said[0]
        secrets |= {
            shown[name] for name in ("key", "token", "code", "link") if isinstance(shown.get(name), str)
        }
        expected.append(line)
        if line.startswith("account add") and "link" in shown:
            expected.append(f"account invite {shown['name']}")
    recorded = rows(furnished, 10_000)[::-1][1:]  # without the channel of the fixture
    for row, line in zip(recorded, expected, strict=True):
        assert parsed(row["command"]) == parsed(line)
        assert (row["by"], row["from"]) == (getpass.getuser(), "command line")
        assert not any(secret in row["command"] for secret in secrets)
    voice_id = shown["voice_id"]
    (made,) = furnished.json("code", "add", "--units", "5")
    furnished.lines("code", "redeem", "ann", made["code"])
    assert newest(furnished, "--account", "ann")["command"] == f"code redeem ann '{made['code'][:5]}-***'"
    furnished.lines("voice", "delete", voice_id)
    assert newest(furnished, "--account", "ann")["command"] == f"voice delete {voice_id}"


UNCHANGED = """
account enable ann
account rename ann ann
account set ann --low-balance 0
channel enable up
channel set up --model m
route set r --units 1
key rename 1 k
settings set owner me
account limit ann --rpm default
account limit bob --rpm 5
channel order up
code disable 1
key cap 1 none
key cap 3 10/week
key limit 1 --concurrent default
key limit 3 --rpm 4
key routes 1 --any
key routes 3 --route svc-chat
key revoke 2
account disable bob
node enable node
node disable off
node drain off
voice show alloy
voice hide shimmer
voice rename alloy ''
voice order alloy
voice word add Myna MY-nuh
""".strip().splitlines()


def test_what_a_change_leaves_as_it_was_is_not_recorded(furnished: Cli) -> None:
    cli = furnished
    for line in (
        "account add ann", f"channel add chat up {URL} --model m", "route add r --units 1",
        "key issue ann --name k", "key issue ann --name gone", "key revoke gone", "settings set owner me",
        "account add bob", "account limit bob --rpm 5", "account disable bob", "code add --units 1",
        "code disable 1", "key issue ann --name limited --cap 10/week --rpm 4 --route svc-chat",
        "channel order up", "node enroll node", "node enroll off", "node disable off", "node drain off",
        "voice hide shimmer", "voice order alloy", "voice word add Myna MY-nuh",
    ):  # fmt: skip
        cli.lines(*line.split())
    before = rows(cli, 100)
    for line in UNCHANGED:
        assert cli.run(*shlex.split(line)).code == 0, line
        assert rows(cli, 100) == before, line
    cli.lines("channel", "set", "up", "--model", "m", "--priority", "2")
    assert newest(cli)["command"] == "channel set up --priority 2"
    cli.lines("route", "set", "r", "--units", "2", "--any-channel", "--intent", "no")
    assert newest(cli)["command"] == "route set r --units 2"


def test_every_command_is_tested_here_or_changes_nothing_of_the_site() -> None:
    tested = {name for line in CHANGES for name in COMMANDS if line.startswith(name + " ")}
    elsewhere = {
        "account oidc", "account reset", "account second-factor", "channel rekey", "code redeem",
        "record delete",
    }  # fmt: skip
    assert tested | elsewhere == COMMANDS - READS - OF_THE_MACHINE


def names(app: App, prefix: str = "") -> Iterator[str]:
    for name in app:
        if not name.startswith("-"):
            command, path = app[name], f"{prefix} {name}".strip()
            if command.default_command:
                yield path
            yield from names(command, path)


COMMANDS = set(names(build()))
