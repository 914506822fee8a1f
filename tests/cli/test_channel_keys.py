"""myna channel key and order: the key comes from standard input and is never shown."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.rig.calls import call
from tests.rig.service import Service, ServiceMaker
from tests.rig.upstream import Upstream

KEY = "sk-entered-by-hand-4711"
OTHER = "sk-another-one-4712"


def store(cli: Cli, name: str, key: str = KEY) -> None:
    ended = cli.run("channel", "key", name, stdin=f"{key}\n")
    assert (ended.code, ended.stderr) == (0, ""), ended
    assert key not in ended.stdout


def listed(cli: Cli) -> dict[str, bool]:
    """Whether each channel of the database has a stored key."""
    rows = json.loads(cli.lines("channel", "list", "--json")[0])
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


def test_a_backup_has_no_stored_key(with_channel: Cli, tmp_path: Path) -> None:
    store(with_channel, "up")
    backup = tmp_path / "site.backup"
    with_channel.lines("backup", str(backup))
    assert KEY.encode() not in backup.read_bytes()
    assert b"secrets" not in backup.read_bytes()


def test_a_removed_key_is_not_sent(with_channel: Cli, upstream: Upstream) -> None:
    store(with_channel, "up")
    with_channel.lines("channel", "key", "up", "--remove")
    with_channel.lines("channel", "test", "up")
    assert "authorization" not in upstream.requests[-1].headers
    assert "has no stored key" in with_channel.refused("channel", "key", "up", "--remove")


def test_a_channels_key_is_removed_with_it_and_with_its_server(with_channel: Cli, upstream: Upstream) -> None:
    store(with_channel, "up")
    with_channel.lines("channel", "set", "up", "--url", upstream.url + "/other")
    assert listed(with_channel) == {"up": True}
    with_channel.lines("channel", "set", "up", "--url", "http://127.0.0.1:1/v1")
    assert listed(with_channel) == {"up": False}
    with_channel.lines("channel", "set", "up", "--url", upstream.url)
    assert listed(with_channel) == {"up": False}
    store(with_channel, "up")
    with_channel.lines("channel", "remove", "up")
    with_channel.lines("channel", "add", "chat", "up", upstream.url)
    assert listed(with_channel) == {"up": False}


def test_a_key_for_a_channel_that_is_not_there_is_not_stored(with_channel: Cli) -> None:
    for name, why in (("down", "There is no channel 'down'"), ("default", "it comes from the settings")):
        ended = with_channel.run("channel", "key", name, stdin=f"{KEY}\n")
        assert ended.code == 1
        assert why in ended.stderr
        assert KEY not in ended.stderr
    assert not (with_channel.service.folder / "data" / "secrets").exists()


def test_a_running_service_uses_a_new_key_from_its_next_call(
    make_service: ServiceMaker, upstream: Upstream
) -> None:
    service: Service = make_service(speech="none")
    service.command("migrate")
    service.cli("channel", "add", "chat", "up", upstream.url)
    service.start()
    key = service.account().key()
    body = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}
    for secret in (KEY, OTHER):
        assert service.command("channel", "key", "up", stdin=secret).code == 0
        answer = call("POST", f"{service.base_url}/chat/completions", key=key.plain, data=body)
        assert answer.status == 200
        assert upstream.requests[-1].headers["authorization"] == f"Bearer {secret}"
    upstream.behave("status:401")
    call("POST", f"{service.base_url}/chat/completions", key=key.plain, data=body)
    metrics = call("GET", f"{service.root_url}/metrics").body.decode()
    assert not any(secret in service.stderr + metrics for secret in (KEY, OTHER))


def test_channels_are_tried_in_a_given_order(cli: Cli) -> None:
    for name in ("a", "b", "c", "d"):
        cli.lines("channel", "add", "chat", name, "http://127.0.0.1:1/v1")
    cli.lines("channel", "order", "d", "b")
    assert list(listed(cli)) == ["d", "b", "a", "c"]
    assert "There is no channel 'e'" in cli.refused("channel", "order", "a", "e")
    assert "one is named twice" in cli.refused("channel", "order", "a", "a")
    assert list(listed(cli)) == ["d", "b", "a", "c"]
