"""Commands for how account holders sign in."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli

HOUR_S = 3600


def json_of(cli: Cli, *arguments: str) -> Any:
    (line,) = cli.lines(*arguments, "--json")
    return json.loads(line)


@pytest.mark.parametrize("options", [("--email", "ann@example.com"), ("--operator",)])
def test_an_account_of_a_person_is_added_with_a_link(cli: Cli, options: tuple[str, ...]) -> None:
    made = json_of(cli, "account", "add", "ann", *options)
    assert made["link"].startswith(f"{cli.service.root_url}/office/welcome?token=mynalink_")
    assert made["link_expires_at"] - made["created_at"] in range(3 * 24 * HOUR_S, 3 * 24 * HOUR_S + 60)
    assert "works only on this machine" in made["note"]
    assert "link" not in json_of(cli, "account", "show", "ann")


def test_an_account_for_keys_alone_is_added_without_a_link(cli: Cli) -> None:
    assert "link" not in json_of(cli, "account", "add", "ann", "--units", "5")
    assert json_of(cli, "account", "invite", "ann")["link"]


def test_a_link_begins_with_the_public_url(cli: Cli) -> None:
    public = {"MYNA_PUBLIC_URL": "https://ai.example.com"}
    cli.lines("account", "add", "ann")
    lines = cli.lines("account", "invite", "ann", **public)
    assert [line.split()[0] for line in lines] == ["name", "link", "link_expires_at"]
    assert lines[1].split()[1].startswith("https://ai.example.com/office/welcome?token=mynalink_")


def test_each_link_replaces_the_one_before_and_is_recorded_without_its_token(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    links = {json_of(cli, "account", "invite", "ann")["link"] for _ in range(2)}
    assert len(links) == 2
    said = "\n".join(cli.lines("activity"))
    assert said.count("myna account invite ann") == 2
    assert "mynalink_" not in said


def test_what_is_not_possible_is_one_line(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    assert "has no password yet" in cli.refused("account", "reset", "ann")
    assert cli.refused("account", "second-factor", "ann", "--remove") == "'ann' has no second factor."
    assert "zh, en, or empty" in cli.refused("account", "set", "ann", "--language", "fr")
    assert "from 0 to" in cli.refused("account", "set", "ann", "--low-balance", "-1")
    for command in ("invite", "reset", "sessions", "sign-out", "second-factor", "set"):
        assert cli.refused("account", command, "bob") == "There is no account 'bob'."
    cli.lines("account", "disable", "ann")
    assert "is disabled" in cli.refused("account", "invite", "ann")


def test_sessions_second_factor_and_preferences_are_shown_and_changed(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    assert cli.lines("account", "sessions", "ann") == ["The account has no session."]
    assert json_of(cli, "account", "sign-out", "ann") == {"name": "ann", "ended": 0}
    off = {"name": "ann", "second_factor": False, "recovery_codes": 0}
    assert json_of(cli, "account", "second-factor", "ann") == off
    changed = {"name": "ann", "language": "zh", "low_balance": 20}
    assert json_of(cli, "account", "set", "ann", "--language", "zh", "--low-balance", "20") == changed
    assert json_of(cli, "account", "set", "ann") == changed
    assert json_of(cli, "account", "set", "ann", "--language", "")["language"] == ""
