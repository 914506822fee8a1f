"""myna channel: an unavailable channel can be added; a test reports why a channel fails, without secrets. A
stored key comes from standard input and is never shown."""

import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.rig.calls import call
from tests.rig.service import Service, ServiceMaker
from tests.rig.upstream import SECRET, Upstream
from tests.rig.waiting import wait_until

PASSWORD = "p4ssw0rd"
KEY = "sk-entered-by-hand-4711"
OTHER = "sk-another-one-4712"
LOGIN = {"MYNA_KEY_UPSTREAM": SECRET}


@pytest.fixture
def nowhere() -> str:
    """An address without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def add(cli: Cli, kind: str, url: str) -> str:
    said = cli.lines("channel", "add", kind, "up", url, "--key-env", "MYNA_KEY_UPSTREAM", **LOGIN)
    return "\n".join(said)


def failure(cli: Cli) -> str:
    line = cli.refused("channel", "test", "up", **LOGIN)
    assert line.startswith("The channel 'up' failed: ")
    assert SECRET not in line
    return line.removeprefix("The channel 'up' failed: ")


def test_an_unavailable_speech_channel_is_added_without_voices(cli: Cli, nowhere: str) -> None:
    said = add(cli, "speech", nowhere)
    assert "not known yet (The speech server can't be reached.)" in said
    assert "up" in cli.lines("channel", "list", **LOGIN)[-1]
    assert "Connection refused" in failure(cli)


def test_a_channel_with_a_login_or_the_name_of_a_node_is_refused(cli: Cli) -> None:
    """A login would be stored."""
    for kind in ("chat", "speech"):
        line = cli.refused("channel", "add", kind, "up", f"http://user:{PASSWORD}@127.0.0.1:1/v1")
        assert "store a key for the channel" in line
        assert PASSWORD not in line
        line = cli.refused("channel", "add", kind, "node:attic", "http://127.0.0.1:1/v1")
        assert line.startswith("The name of a channel can't begin with 'node:'")
    assert cli.lines("channel", "add", "chat", "a-node:b", "parrot:")


def test_a_mistake_in_a_new_or_changed_channel_is_refused_or_warned_of(cli: Cli, upstream: Upstream) -> None:
    root = upstream.url.removesuffix("/v1")
    warned = "myna: warning: the channel 'up' may not work. "
    endpoint = f"Its base URL ends in an endpoint, /chat/completions: use {upstream.url}."
    assert cli.refused("channel", "add", "chat", "up", f"{upstream.url}/chat/completions") == endpoint
    cli.lines("channel", "add", "chat", "up", upstream.url)
    assert cli.refused("channel", "set", "up", "--url", f"{upstream.url}/chat/completions") == endpoint
    other_model = "does not list the model 'n'; it lists upstream-model, m."
    for command, why in (
        (f"set up --url {root}", f"Its base URL lacks /v1: use {upstream.url}."),
        (f"set up --url {upstream.url} --model n", other_model),
    ):
        ended = cli.run("channel", *command.split())
        assert (ended.code, ended.stderr[: len(warned)]) == (0, warned)
        assert ended.stderr.endswith(f"{why}\n"), ended
    upstream.behave("status:401")
    ended = cli.run("channel", "set", "up", "--key-env", "KEY_OF_UP", KEY_OF_UP=f" {SECRET}\n")
    assert ended.stderr == f"{warned}Its server refuses the key: no: *** at /srv/upstream.py.\n"
    assert upstream.requests[-1].headers["authorization"] == f"Bearer {SECRET}"


def test_a_speech_channel_is_tested_by_speaking(cli: Cli, upstream: Upstream) -> None:
    """A server without a list of voices may still speak; one at a wrong address does neither."""
    add(cli, "speech", upstream.url)
    said = "\n".join(cli.lines("channel", "test", "up", **LOGIN))
    assert "'alloy', of 6 voices, spoke for " in said
    upstream.behave("status:404")
    assert failure(cli).startswith(
        "The speech server answered 404. Its server does not list the model 'tts-1'"
    )


def listed(cli: Cli, name: str, **env: str) -> Any:
    rows = cli.json("channel", "list", **env)
    return next(row for row in rows if row["name"] == name)


def test_the_embedded_voice_is_listed_and_tested_by_speaking(cli: Cli) -> None:
    assert listed(cli, "espeak", MYNA_SPEECH="espeak")["source"] == "settings"
    said = "\n".join(cli.lines("channel", "test", "espeak", MYNA_SPEECH="espeak"))
    assert "'zh-female-1', of 15 voices, spoke for " in said


def test_a_variable_that_is_not_set_for_the_command_is_a_warning(cli: Cli, upstream: Upstream) -> None:
    """The service may have it, so this is no error."""
    key = {"MYNA_KEY_A": SECRET}
    cli.lines("channel", "add", "chat", "a", upstream.url, "--key-env", "MYNA_KEY_A", **key)
    adding = "add chat b http://127.0.0.1:1/v1 --key-env MYNA_KEY_A"
    for command in (adding, "set a --priority 1", "test a", "list"):
        (line,) = cli.run("channel", *command.split()).stderr.splitlines()[:1]
        assert line.startswith("myna: warning: channel ")
        assert line.endswith(" has no key in this command: MYNA_KEY_A is not set in this process, or empty.")
    assert "warning" not in cli.run("channel", "list", **key).stderr


def ask(service: Service, key: str) -> int:
    body = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}
    return call("POST", f"{service.base_url}/chat/completions", data=body, key=key).status


def test_commands_show_open_and_closed_circuits(make_service: ServiceMaker, upstream: Upstream) -> None:
    service = make_service(chat_url=upstream.url, chat_key=SECRET, speech="none").start()
    cli = Cli(service)
    key = service.account().key().plain
    assert listed(cli, "default")["circuit"] == "closed"
    upstream.behave("status:500")
    assert [ask(service, key) for _ in range(5)] == [500] * 5
    wait_until(lambda: listed(cli, "default")["circuit"] != "closed", 60, "the circuit is open")
    assert listed(cli, "default")["last_error"] == "status 500"
    upstream.behave()
    assert ask(service, key) == 200
    wait_until(lambda: listed(cli, "default")["circuit"] == "closed", 60, "the circuit is closed")
    assert listed(cli, "default")["last_error_at"] > 0


REFUSED = {
    (): "Give at least one of --url, --model, --key-env, --priority,",
    ("--url", "h/v1"): "The URL must be http://",
    ("--url", f"http://user:{PASSWORD}@h/v1"): "The URL must not contain a login",
    ("--key-env", "MYNA_PORT"): "MYNA_PORT: a variable that begins with MYNA_ is a setting",
    ("--model", ""): "A speech channel needs a model.",
    ("--priority", "1000001"): "Priority: must be a whole number from -1000000 to 1000000.",
    ("--weight", "-1"): "Weight: must be a whole number from 0 to 1000000.",
    ("--responses", "yes"): "Only the server of a chat channel offers POST /responses.",
    ("--concurrent", "1000001"): "Concurrent requests: must be a whole number from 0 to 1000000.",
}


def test_a_refused_change_leaves_the_channel_unchanged(cli: Cli, nowhere: str) -> None:
    add(cli, "speech", nowhere)
    before = listed(cli, "up", **LOGIN)
    for change, why in REFUSED.items():
        line = cli.refused("channel", "set", "up", *change, **LOGIN)
        assert line.startswith(why)
        assert PASSWORD not in line
        assert listed(cli, "up", **LOGIN) == before


def store(cli: Cli, name: str, key: str = KEY) -> None:
    ended = cli.run("channel", "key", name, stdin=f"{key}\n")
    assert (ended.code, ended.stderr) == (0, ""), ended
    assert key not in ended.stdout


def keys_stored(cli: Cli) -> dict[str, bool]:
    """Whether each channel of the database has a stored key."""
    rows = cli.json("channel", "list")
    return {row["name"]: row["key_stored"] for row in rows if row["source"] == "database"}


@pytest.fixture
def with_channel(cli: Cli, upstream: Upstream) -> Cli:
    cli.lines("channel", "add", "chat", "up", upstream.url)
    return cli


def test_a_stored_key_is_sent_and_shown_nowhere(with_channel: Cli, upstream: Upstream) -> None:
    store(with_channel, "up")
    with_channel.lines("channel", "test", "up")
    assert upstream.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    for command in ("channel list", "activity", "settings list"):
        assert not any(KEY in line for line in with_channel.lines(*command.split()))
    with sqlite3.connect(with_channel.service.folder / "data" / "myna.sqlite") as db:
        assert not any(KEY in line for line in db.iterdump())


def test_keys_are_encrypted_by_a_command_and_with_another_secret_key(
    with_channel: Cli, upstream: Upstream, tmp_path: Path
) -> None:
    """In a file first, then in the database; a backup has the key in neither case in plain text."""
    store(with_channel, "up")
    secrets, backup = with_channel.service.folder / "data" / "secrets", tmp_path / "site.backup"
    assert "is not set" in with_channel.refused("channel", "rekey")
    old, new = {"MYNA_SECRET_KEY": "s" * 32}, {"MYNA_SECRET_KEY": "t" * 32}
    for environ in ({}, old, {"MYNA_SECRET_KEY": f"{'t' * 32},{'s' * 32}"}, new):
        if environ:
            assert with_channel.json("channel", "rekey", **environ) == [{"name": "up", "key": "encrypted"}]
            assert with_channel.json("activity", "--limit", "1")[0]["command"] == "myna channel rekey"
        assert bool(list(secrets.iterdir())) == (not environ)
        with_channel.lines("channel", "test", "up", **environ)
        assert upstream.requests[-1].headers["authorization"] == f"Bearer {KEY}"
        with_channel.lines("backup", str(backup), "--force")
        assert KEY.encode() not in backup.read_bytes()
    assert "is encrypted with another MYNA_SECRET_KEY" in with_channel.refused("channel", "rekey", **old)
    with_channel.lines("channel", "key", "up", "--remove", **new)
    assert keys_stored(with_channel) == {"up": False}


def test_a_removed_key_is_not_sent(with_channel: Cli, upstream: Upstream) -> None:
    store(with_channel, "up")
    with_channel.lines("channel", "key", "up", "--remove")
    with_channel.lines("channel", "test", "up")
    assert "authorization" not in upstream.requests[-1].headers
    assert "has no stored key" in with_channel.refused("channel", "key", "up", "--remove")


def test_a_channels_key_is_removed_with_it_and_with_its_server(with_channel: Cli, upstream: Upstream) -> None:
    store(with_channel, "up")
    with_channel.lines("channel", "set", "up", "--url", upstream.url + "/other")
    assert keys_stored(with_channel) == {"up": True}
    with_channel.lines("channel", "set", "up", "--url", "http://127.0.0.1:1/v1")
    assert keys_stored(with_channel) == {"up": False}
    with_channel.lines("channel", "set", "up", "--url", upstream.url)
    assert keys_stored(with_channel) == {"up": False}
    store(with_channel, "up")
    with_channel.lines("channel", "remove", "up")
    with_channel.lines("channel", "add", "chat", "up", upstream.url)
    assert keys_stored(with_channel) == {"up": False}


def test_a_key_for_a_channel_that_is_not_there_is_not_stored(with_channel: Cli) -> None:
    for name, why in (("down", "There is no channel 'down'"), ("default", "it comes from the settings")):
        ended = with_channel.run("channel", "key", name, stdin=f"{KEY}\n")
        assert ended.code == 1
        assert why in ended.stderr
        assert KEY not in ended.stderr
    assert not (with_channel.service.folder / "data" / "secrets").exists()


def test_a_running_service_uses_a_new_address_and_key_from_its_next_call(
    make_service: ServiceMaker, upstream: Upstream, nowhere: str
) -> None:
    service = make_service(speech="none")
    service.cli("migrate")
    service.cli("channel", "add", "chat", "up", nowhere)
    service.start()
    key = service.account().key().plain
    assert ask(service, key) == 500
    service.cli("channel", "set", "up", "--url", upstream.url)
    for secret in (KEY, OTHER):
        assert service.command("channel", "key", "up", stdin=secret).code == 0
        assert ask(service, key) == 200
        assert upstream.requests[-1].headers["authorization"] == f"Bearer {secret}"
    upstream.behave("status:401")
    ask(service, key)
    metrics = call("GET", f"{service.root_url}/metrics").body.decode()
    assert not any(secret in service.stderr + metrics for secret in (KEY, OTHER))


def test_channels_are_tried_in_a_given_order(cli: Cli) -> None:
    for name in ("a", "b", "c", "d"):
        cli.lines("channel", "add", "chat", name, "http://127.0.0.1:1/v1")
    cli.lines("channel", "order", "d", "b")
    assert list(keys_stored(cli)) == ["d", "b", "a", "c"]
    assert "There is no channel 'e'" in cli.refused("channel", "order", "a", "e")
    assert "one is named twice" in cli.refused("channel", "order", "a", "a")
    assert list(keys_stored(cli)) == ["d", "b", "a", "c"]


URL = "http://127.0.0.1:1/v1"


IMPOSSIBLE = {
    "route add tts-1 --units 1 --kind speech": "tts-1 is built in, and its price is the site setting",
    "route add taken --units 1": "already is a route 'taken'",
    "route add a --units 1 --channel nobody": "no channel 'nobody'",
    "route add a --units 1 --kind speech --channel up": "needs channels for speech",
    "route set taken": "Give at least one of",
    "route set svc-chat --units 1": "svc-chat is built in; its price is the site setting chat_units.",
    "route set taken --channel up --any-channel": "not both",
    "route remove nothing": "There is no route 'nothing'; there are 'taken'.",
    "channel add chat up parrot:": "There already is a channel 'up'",
    "channel remove up": "Routes name the channel 'up': taken",
    "key issue ann --route nothing": "There is no route 'nothing'",
    "key routes 1": "Give either --route",
    "key routes 1 --route tts-1 --any": "Give either --route",
    "key routes 9 --any": "There is no key 9",
}


def test_a_change_that_cannot_be_is_refused_and_changes_nothing(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    cli.lines("key", "issue", "ann")
    cli.lines("channel", "add", "chat", "up", URL)
    cli.lines("route", "add", "taken", "--units", "1", "--channel", "up")
    lists = ("route list", "channel list", "key list ann", "activity")
    before = [cli.json(*line.split()) for line in lists]
    for command, why in IMPOSSIBLE.items():
        assert why in cli.refused(*command.split())
        assert [cli.json(*line.split()) for line in lists] == before, command


def test_the_list_of_keys_has_their_routes(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    cli.lines("route", "add", "gpt-*", "--units", "1")
    cli.lines("key", "issue", "ann", "--route", "gpt-*", "--route", "svc-chat")
    cli.lines("key", "issue", "ann")
    assert [row["routes"] for row in cli.json("key", "list", "ann")] == ["gpt-*, svc-chat", "any"]
    cli.lines("key", "routes", "1", "--route", "gpt-*")
    cli.lines("route", "remove", "gpt-*")
    assert [row["routes"] for row in cli.json("key", "list", "ann")] == ["none", "any"]
    cli.lines("key", "routes", "1", "--any")
    assert [row["routes"] for row in cli.json("key", "list", "ann")] == ["any", "any"]
