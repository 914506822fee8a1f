"""Joining: a token is exchanged for a private credential, or one line has the error."""

import json
import stat
from pathlib import Path

import pytest

from myna.errors import CommandError
from myna.node.credentials import is_unencrypted, site_url
from tests.rig.compute_node import ComputeNode, NodeMaker
from tests.rig.farm_site import FarmSite
from tests.rig.waiting import free_port

UNKNOWN = "mynajoin_x"


@pytest.fixture
def fresh(make_node: NodeMaker) -> ComputeNode:
    """A node that has not joined."""
    return make_node()


def refused(node: ComputeNode, url: str, token: str = UNKNOWN, *more: str) -> str:
    """The error line of a refused join, which must leave no credential."""
    before = kept(node)
    ended = node.command("join", url, token, *more)
    assert (ended.code, ended.stdout) == (1, "")
    assert kept(node) == before
    (line,) = ended.stderr.splitlines()
    return line.removeprefix("myna: ")


def kept(node: ComputeNode) -> bytes | None:
    path = node.data / "node.json"
    return path.read_bytes() if path.exists() else None


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_credential_is_readable_by_the_owner_only(farm_site: FarmSite, fresh: ComputeNode) -> None:
    ended = fresh.command("join", farm_site.url + "/", farm_site.token, "--json")
    said = json.loads(ended.stdout)
    assert (said["name"], said["url"]) == ("box", farm_site.url)
    assert farm_site.credential not in ended.stdout + ended.stderr
    membership = json.loads(kept(fresh) or b"")
    assert membership == {"url": farm_site.url, "name": "box", "credential": farm_site.credential}
    assert mode(fresh.data) == 0o700
    assert mode(fresh.data / "node.json") == 0o600
    assert [path.name for path in fresh.data.iterdir()] == ["node.json"]


def test_the_data_folder_can_be_chosen(farm_site: FarmSite, fresh: ComputeNode) -> None:
    assert fresh.command("join", farm_site.url, farm_site.token, "--data", "elsewhere").code == 0
    assert (fresh.folder / "elsewhere" / "node.json").exists()
    assert kept(fresh) is None


def test_a_second_join_needs_an_option(farm_site: FarmSite, fresh: ComputeNode) -> None:
    fresh.join(farm_site.url, farm_site.token)
    farm_site.token = "mynajoin_2"
    farm_site.credential = "mynanode_2"
    assert "--again" in refused(fresh, farm_site.url, farm_site.token)
    assert farm_site.token, "the token is still good"
    assert fresh.command("join", farm_site.url, farm_site.token, "--again").code == 0
    assert json.loads(kept(fresh) or b"")["credential"] == "mynanode_2"


def test_an_unavailable_service_is_reported(fresh: ComputeNode) -> None:
    port = free_port()
    said = refused(fresh, f"http://127.0.0.1:{port}")
    assert said == f"127.0.0.1:{port} can't be reached: Connection refused."


def test_an_invalid_token_is_reported(farm_site: FarmSite, fresh: ComputeNode) -> None:
    assert refused(fresh, farm_site.url) == "This join token is unknown, used or older than an hour."


def test_another_protocol_version_is_reported(farm_site: FarmSite, fresh: ComputeNode) -> None:
    farm_site.protocol = 2
    assert "another protocol" in refused(fresh, farm_site.url, farm_site.token)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("garbled", "The service's answer does not follow this protocol."),
        ("redirect", "The address redirects to https://elsewhere.example; use the service's own address."),
        ("cut", "closed the connection without an answer."),
        ("status:500", "This is fault 500."),
    ],
)
def test_another_kind_of_service_is_reported(
    farm_site: FarmSite, fresh: ComputeNode, fault: str, sentence: str
) -> None:
    farm_site.faults["join"].append(fault)
    assert refused(fresh, farm_site.url, farm_site.token).endswith(sentence)


@pytest.mark.parametrize(
    "url",
    ["", "box", "ftp://box", "https://user:secret@box", "https://box/v1", "https://box?x=1", "https://"],
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(CommandError, match="URL must be the service's own address") as refused:
        site_url(url)
    assert "secret" not in str(refused.value)


def test_a_read_only_folder_uses_no_token(farm_site: FarmSite, fresh: ComputeNode, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ended = fresh.command("join", farm_site.url, farm_site.token, "--data", str(tmp_path / "file" / "below"))
    assert ended.code == 2
    assert "can't be created" in ended.stderr
    assert farm_site.token


def test_an_incomplete_credential_is_reported(farm_site: FarmSite, fresh: ComputeNode) -> None:
    fresh.join(farm_site.url, farm_site.token)
    (fresh.data / "node.json").write_text('{"url": "http')
    ended = fresh.command("run")
    assert ended.code == 1
    assert "isn't whole: join again" in ended.stderr


@pytest.mark.parametrize(
    ("url", "clear"),
    [
        ("http://192.168.1.5:8080", True),
        ("http://127.0.0.9:8080", False),
        ("http://[::1]:8080", False),
        ("https://ai.example.com", False),
    ],
)
def test_plain_http_to_another_machine_is_a_warning(url: str, clear: bool) -> None:
    assert is_unencrypted(site_url(url)) is clear


def test_join_prints_the_warning(farm_site: FarmSite, fresh: ComputeNode) -> None:
    """0.0.0.0 also reaches this machine, but is not treated as the loopback."""
    url = f"http://0.0.0.0:{farm_site.port}"
    ended = fresh.command("join", url, farm_site.token)
    assert ended.code == 0, ended
    assert "use https" in ended.stdout
