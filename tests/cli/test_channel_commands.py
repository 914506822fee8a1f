"""myna channel: one that is away can be added all the same; a test tells why it fails, and no secret."""

import socket

import pytest

from tests.cli.conftest import Desk
from tests.rig.upstream import SECRET, Upstream

PASSWORD = "p4ssw0rd"
LOGIN = {"MYNA_UPSTREAM_KEY": SECRET}


@pytest.fixture
def nowhere() -> str:
    """An address on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def add(desk: Desk, kind: str, url: str) -> str:
    said = desk.lines("channel", "add", kind, "up", url, "--key-env", "MYNA_UPSTREAM_KEY", **LOGIN)
    return "\n".join(said)


def failure(desk: Desk) -> str:
    line = desk.refused("channel", "test", "up", **LOGIN)
    assert line.startswith("The channel 'up' failed: ")
    assert SECRET not in line
    return line.removeprefix("The channel 'up' failed: ")


def test_a_speech_channel_that_is_away_is_added_and_its_voices_are_not_known_yet(
    desk: Desk, nowhere: str
) -> None:
    said = add(desk, "speech", nowhere)
    assert "not known yet (The speech server can't be reached.)" in said
    assert "up" in desk.lines("channel", "list")[-1]
    assert "Connection refused" in failure(desk)


@pytest.mark.parametrize("kind", ["chat", "speech"])
def test_a_login_in_the_address_is_refused_since_it_would_be_stored(desk: Desk, kind: str) -> None:
    url = f"http://user:{PASSWORD}@127.0.0.1:1/v1"
    line = desk.refused("channel", "add", kind, "up", url)
    assert "--key-env" in line
    assert PASSWORD not in line


def test_a_speech_channel_that_is_there_tells_how_many_voices_it_has(desk: Desk, upstream: Upstream) -> None:
    upstream.behave("status:404")
    assert "6" in add(desk, "speech", upstream.url).splitlines()[-1]
    assert len(desk.lines("voice", "list")) == 7
    assert "6 voices" in "\n".join(desk.lines("channel", "test", "up", **LOGIN))
    upstream.behave("status:401")
    assert failure(desk) == "The speech server answered 401."


def test_a_chat_channel_that_is_away_says_so(desk: Desk, nowhere: str) -> None:
    add(desk, "chat", nowhere)
    assert "Connection refused" in failure(desk)


def test_a_chat_channel_that_answers_is_well(desk: Desk, upstream: Upstream) -> None:
    add(desk, "chat", upstream.url)
    assert any("Say hello." in line for line in desk.lines("channel", "test", "up", **LOGIN))
    assert upstream.requests[-1].headers["authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("status:401", "status 401."),
        ("status:503", "status 503."),
        ("close", "closed the connection without an answer."),
        ("garbage", "is no HTTP/1.1."),
        ("not-chat", "the answer is no chat completion."),
        ("no-choices", "the answer has no choices."),
        ("empty", "the answer is empty."),
    ],
)
def test_a_chat_channel_that_fails_says_why(desk: Desk, upstream: Upstream, fault: str, why: str) -> None:
    add(desk, "chat", upstream.url)
    upstream.behave(fault)
    assert failure(desk).endswith(why)


def test_a_chat_channel_that_says_too_much_says_so(desk: Desk, upstream: Upstream) -> None:
    add(desk, "chat", upstream.url)
    upstream.behave("oversized")
    assert "more than" in failure(desk)


def test_a_key_given_in_place_of_its_variables_name_is_refused_and_not_repeated(desk: Desk) -> None:
    line = desk.refused("channel", "add", "chat", "a", "http://h/v1", "--key-env", SECRET)
    assert SECRET not in line


def test_a_url_to_which_no_path_can_be_added_is_refused(desk: Desk) -> None:
    for url in ("h/v1", "http://", f"http://h/v1?key={PASSWORD}"):
        assert PASSWORD not in desk.refused("channel", "add", "chat", "a", url)


@pytest.mark.parametrize(
    "command",
    [
        ("account", "add", "r", "--units", "1.5"),
        ("account", "grant", "r", "2.5"),
        ("key", "revoke", "1.4"),
        ("channel", "add", "chat", "r", "parrot:", "--priority", "1.7"),
        ("account", "grant", "r", "0x10"),
    ],
)
def test_what_is_no_whole_number_is_refused_and_never_rounded(desk: Desk, command: tuple[str, ...]) -> None:
    ended = desk.run(*command)
    assert ended.code == 2
    assert "whole number" in ended.stderr
