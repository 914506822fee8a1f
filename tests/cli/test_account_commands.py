"""myna account rename, and the states of keys in the list of an account."""

import json

import pytest

from tests.cli.conftest import Cli
from tests.rig.office import People
from tests.rig.service import ServiceMaker
from tests.rig.waiting import wait_until


@pytest.fixture
def owner(cli: Cli) -> Cli:
    cli.lines("account", "add", "old", "--units", "7")
    return cli


def listed(cli: Cli) -> dict[str, str]:
    (line,) = cli.lines("key", "list", "old", "--json")
    return {key["name"]: key["state"] for key in json.loads(line)}


def test_a_renamed_account_has_its_id_units_and_keys(owner: Cli) -> None:
    owner.lines("key", "issue", "old", "--name", "k", "--scope", "chat")
    (before,) = json.loads(owner.lines("account", "list", "--json")[0])
    after = json.loads(owner.lines("account", "rename", "old", "new", "--json")[0])
    assert after == before | {"name": "new"}
    assert "There is no account 'old'" in owner.refused("account", "show", "old")
    (key,) = json.loads(owner.lines("key", "list", "new", "--json")[0])
    assert key["name"] == "k"


def test_account_names_are_unique(owner: Cli) -> None:
    owner.lines("account", "add", "other")
    assert owner.refused("account", "rename", "old", "other") == "There already is an account 'other'."
    owner.lines("account", "rename", "old", "old")
    assert "1 to 100 printable characters" in owner.refused("account", "rename", "old", " ")
    assert owner.refused("account", "rename", "nobody", "x") == "There is no account 'nobody'."


def test_a_list_says_which_keys_are_revoked_or_expired(owner: Cli) -> None:
    ids = {}
    for name, life in (("stays", ()), ("short", ("--expires-in", "1s")), ("gone", ())):
        words = ("key", "issue", "old", "--name", name, "--scope", "chat", *life, "--json")
        ids[name] = json.loads(owner.lines(*words)[0])["id"]
    owner.lines("key", "revoke", str(ids["gone"]))
    wait_until(lambda: listed(owner)["short"] == "expired", 60, "the key has expired")
    assert listed(owner) == {"stays": "active", "short": "expired", "gone": "revoked"}


def test_the_last_operator_who_can_sign_in_is_disabled_only_by_force(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    people = People(service)
    people.signed_in("ann")
    people.signed_in("olga", operator=True)
    people.signed_in("otto", operator=True)
    service.cli("account", "disable", "otto")
    refused = service.command("account", "disable", "olga")
    assert refused.code == 1
    assert "Without 'olga' no operator could sign in to the back office; --force " in refused.stderr
    assert service.cli("account", "show", "olga")["disabled"] is False
    assert service.cli("account", "disable", "ann")["disabled"] is True
    assert service.cli("account", "disable", "olga", "--force")["disabled"] is True
