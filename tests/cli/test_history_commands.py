"""`myna ledger` and `myna calls`: the history of an account's units and calls."""

import json

from tests.cli.conftest import Cli


def test_an_account_without_entries_and_calls_says_so(cli: Cli) -> None:
    cli.lines("account", "add", "me")
    assert cli.lines("ledger", "me") == ["The account has no ledger entries yet."]
    assert cli.lines("calls", "--account", "me") == ["There is no such call."]
    assert json.loads(cli.lines("calls", "--request-id", "no such", "--json")[0]) == []


def test_grants_are_listed_with_memo_and_balance_and_paged_by_their_last(cli: Cli) -> None:
    cli.lines("account", "add", "me", "--units", "5")
    cli.lines("account", "grant", "me", "3", "--memo", "thanks")
    (newest,) = json.loads(cli.lines("ledger", "me", "--limit", "1", "--json")[0])
    assert (newest["kind"], newest["units"], newest["balance"], newest["memo"]) == ("grant", 3, 8, "thanks")
    (older,) = json.loads(cli.lines("ledger", "me", "--before", newest["entry"], "--json")[0])
    assert (older["units"], older["balance"], older["memo"]) == (5, 5, "opening grant")
    head, *rows = cli.lines("ledger", "me")
    assert head.split()[:5] == ["entry", "created_at", "kind", "units", "balance"]
    assert len(rows) == 2


def test_an_unknown_account_call_or_entry_is_refused(cli: Cli) -> None:
    cli.lines("account", "add", "me")
    assert cli.refused("ledger", "nobody") == "There is no account 'nobody'."
    assert "no entry" in cli.refused("ledger", "me", "--before", "0" * 32 + "-grant")
    assert "no entry" in cli.refused("ledger", "me", "--before", "7")
    assert "one of --request-id" in cli.refused("calls")
    assert "one of --request-id" in cli.refused("calls", "--account", "me", "--call", "0" * 32)
    assert "hexadecimal" in cli.refused("calls", "--call", "7")


def test_the_activity_of_an_unknown_account_is_refused(cli: Cli) -> None:
    assert cli.lines("activity", "--command", "voice") == ["There is no such change."]
    assert cli.refused("activity", "--account", "nobody") == "There is no account 'nobody'."
    assert cli.refused("activity", "--by", "nobody") == "There is no account 'nobody'."
    assert cli.run("activity", "--before", "0").code == 2
