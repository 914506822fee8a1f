"""myna account: how account holders sign in, names, and the states of keys in the list of an account."""

import socket
import sqlite3

import pytest

from tests.cli.conftest import Cli
from tests.rig.office import People
from tests.rig.service import ServiceMaker

HOUR_S = 3600


def test_an_account_of_a_person_is_added_with_a_link_and_one_for_keys_alone_without(cli: Cli) -> None:
    for name, options in (("ann", ("--email", "ann@example.com")), ("olga", ("--operator",))):
        made = cli.json("account", "add", name, *options)
        assert made["link"].startswith(f"{cli.service.root_url}/office/welcome?token=mynalink_")
        assert made["link_expires_at"] - made["created_at"] in range(3 * 24 * HOUR_S, 3 * 24 * HOUR_S + 60)
        assert "link" not in cli.json("account", "show", name)
    assert "link" not in cli.json("account", "add", "bob", "--units", "5")
    assert cli.json("account", "invite", "bob")["link"]


def test_a_link_begins_with_the_public_url(cli: Cli) -> None:
    public = {"MYNA_PUBLIC_URL": "https://ai.example.com"}
    cli.lines("account", "add", "ann")
    lines = cli.lines("account", "invite", "ann", **public)
    assert [line.split()[0] for line in lines] == ["name", "link", "link_expires_at"]
    assert lines[1].split()[1].startswith("https://ai.example.com/office/welcome?token=mynalink_")


def test_what_is_not_possible_is_one_line(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    assert "has no password yet" in cli.refused("account", "reset", "ann")
    assert cli.refused("account", "second-factor", "ann", "--remove") == "'ann' has no second factor."
    for command in ("invite", "reset", "sessions", "sign-out", "second-factor", "set"):
        assert cli.refused("account", command, "bob") == "There is no account 'bob'."


def test_sessions_second_factor_and_preferences_are_shown_and_changed(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    assert cli.lines("account", "sessions", "ann") == ["The account has no session."]
    assert cli.json("account", "sign-out", "ann") == {"name": "ann", "ended": 0}
    off = {"name": "ann", "second_factor": False, "recovery_codes": 0}
    assert cli.json("account", "second-factor", "ann") == off
    changed = {"name": "ann", "language": "zh", "low_balance": 20}
    assert cli.json("account", "set", "ann", "--language", "zh", "--low-balance", "20") == changed
    assert cli.json("account", "set", "ann") == changed
    assert cli.json("account", "set", "ann", "--language", "")["language"] == ""


def test_a_link_to_this_machine_says_so_or_that_nothing_listens(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    assert cli.json("account", "invite", "ann")["note"].startswith("Nothing listens there now.")
    with socket.create_server(("127.0.0.1", int(cli.service.env["MYNA_PORT"]))):
        for words in (("account", "invite", "ann"), ("node", "enroll", "garage")):
            assert cli.json(*words)["note"].startswith("That address works only on this machine.")
    public = {"MYNA_PUBLIC_URL": "https://ai.example.org"}
    assert "note" not in cli.json("account", "invite", "ann", **public)


@pytest.fixture
def owner(cli: Cli) -> Cli:
    cli.lines("account", "add", "old", "--units", "7")
    return cli


def test_account_names_are_unique(owner: Cli) -> None:
    owner.lines("account", "add", "other")
    assert owner.refused("account", "rename", "old", "other") == "There already is an account 'other'."
    owner.lines("account", "rename", "old", "old")
    for name in (" ", " ann", "ann "):
        assert "1 to 100 printable characters" in owner.refused("account", "rename", "old", name)
    assert owner.refused("account", "rename", "nobody", "x") == "There is no account 'nobody'."


def test_an_account_is_found_by_its_address_and_a_near_name_is_suggested(owner: Cli) -> None:
    for name, email in (("ann", "Ann@Example.org"), ("bob", "team@example.org"), ("bea", "team@example.org")):
        owner.lines("account", "add", name, "--email", email)
    assert owner.json("account", "grant", "ann@example.org", "5")["name"] == "ann"
    assert owner.json("activity", "--limit", "1")[0]["command"] == "myna account grant ann 5"
    several = "Several accounts have the e-mail address 'team@example.org': name one of 'bob', 'bea'."
    assert owner.refused("key", "list", "team@example.org") == several
    assert owner.refused("account", "show", "anne") == "There is no account 'anne'; did you mean 'ann'?"


def test_a_list_says_which_keys_are_revoked_or_expired(owner: Cli) -> None:
    ids = {}
    for name, life in (("stays", ()), ("short", ("--expires-in", "1h")), ("gone", ())):
        ids[name] = owner.json("key", "issue", "old", "--name", name, "--scope", "chat", *life)["id"]
    owner.lines("key", "revoke", "gone")
    with sqlite3.connect(owner.service.folder / "data" / "myna.sqlite") as raw:
        raw.execute("UPDATE keys SET expires_at = 1 WHERE id = ?", (ids["short"],))
    raw.close()
    states = {key["name"]: key["state"] for key in owner.json("key", "list", "old")}
    assert states == {"stays": "active", "short": "expired", "gone": "revoked"}


def test_the_last_operator_who_can_sign_in_is_disabled_only_by_force(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    people = People(service)
    people.signed_in("ann")
    people.signed_in("olga", operator=True)
    people.signed_in("otto", operator=True)
    service.cli("account", "disable", "otto")
    refused = service.command("account", "disable", "olga")
    assert refused.code == 1
    assert "Without 'olga' no operator could sign in to the back office; " in refused.stderr
    assert service.cli("account", "show", "olga")["disabled"] is False
    assert service.cli("account", "disable", "ann")["disabled"] is True
    assert service.cli("account", "disable", "olga", "--force")["disabled"] is True
