"""Commands that read: ledger, calls, activity, audit, settings; also what this version can't read."""

import json
import sqlite3
import time

from tests.cli.conftest import Cli

WHY = "language must be zh or en, it is 'tlh'; its default applies"


def test_an_unreadable_stored_setting_is_listed_as_such(cli: Cli) -> None:
    cli.lines("settings", "set", "tts_units", "7")
    with sqlite3.connect(cli.service.folder / "data" / "myna.sqlite") as raw:
        raw.execute("INSERT INTO settings (name, value) VALUES ('language', 'tlh')")
    raw.close()

    listed = cli.run("settings", "list", "--json")
    got = cli.run("settings", "get", "language", "--json")

    rows = {row["name"]: (row["value"], row["source"]) for row in json.loads(listed.stdout)}
    assert (rows["language"], rows["tts_units"], rows["owner"]) == (
        ("zh", "unreadable"),
        (7, "database"),
        ("myna", "default"),
    )
    assert json.loads(got.stdout) == {"name": "language", "value": "zh", "source": "unreadable"}
    assert [listed.stderr, got.stderr] == [f"myna: the stored site setting {WHY}\n"] * 2
    assert (listed.code, got.code) == (0, 0)
    assert cli.lines("settings", "get", "tts_units", "--json")
    assert cli.lines("settings", "set", "language", "en", "--json") == [
        '{"name": "language", "value": "en", "source": "database"}'
    ]


def test_grants_are_listed_with_memo_and_balance_and_paged_by_their_last(cli: Cli) -> None:
    cli.lines("account", "add", "me", "--units", "5")
    cli.lines("account", "grant", "me", "3", "--memo", "thanks")
    (newest,) = cli.json("ledger", "me", "--limit", "1")
    assert (newest["kind"], newest["units"], newest["balance"], newest["memo"]) == ("grant", 3, 8, "thanks")
    (older,) = cli.json("ledger", "me", "--before", newest["entry"])
    assert (older["units"], older["balance"], older["memo"]) == (5, 5, "opening grant")
    head, *rows = cli.lines("ledger", "me")
    assert head.split()[:5] == ["entry", "created_at", "kind", "units", "balance"]
    assert len(rows) == 2
    assert cli.lines("ledger", "me", "--before", older["entry"]) == ["There are no older ones."]
    assert cli.lines("record", "list", "me", "--before", "1") == ["There are no older ones."]
    assert cli.lines("record", "list", "me") == ["The account has no records."]
    assert cli.lines("calls", "--account", "me") == ["There are no such calls."]


def test_what_accounts_used_is_listed_for_the_last_hours(cli: Cli) -> None:
    assert cli.lines("account", "usage") == ["No call ended in these hours."]
    ids = [cli.json("account", "add", name)["id"] for name in ("ann", "bob")]
    hour = int(time.time() * 1000) // 3_600_000 * 3_600_000
    with sqlite3.connect(cli.service.folder / "data" / "myna.sqlite") as raw:
        rows = [(ids[0], hour, 2, 2, 2), (ids[1], hour - 30 * 3_600_000, 9, 8, 8)]
        raw.executemany("INSERT INTO usage_hours VALUES (?, ?, 1, 1, ?, ?, ?, 0)", rows)
    raw.close()
    ann = {"account": "ann", "calls": 2, "ok_calls": 2, "units": 2}
    assert cli.json("account", "usage") == [ann]
    bob = {"account": "bob", "calls": 9, "ok_calls": 8, "units": 8}
    assert cli.json("account", "usage", "--hours", "48") == [bob, ann]
    assert cli.json("account", "usage", "--hours", "48", "--limit", "1") == [bob]


def test_an_unknown_account_call_or_entry_is_refused(cli: Cli) -> None:
    cli.lines("account", "add", "me")
    assert cli.refused("ledger", "nobody") == "There is no account 'nobody'."
    assert "has no entry" in cli.refused("ledger", "me", "--before", "0" * 32 + "-grant")
    assert "not an entry" in cli.refused("ledger", "me", "--before", "7")
    assert "one of --request-id" in cli.refused("calls")
    assert "one of --request-id" in cli.refused("calls", "--account", "me", "--call", "0" * 32)
    assert "hexadecimal" in cli.refused("calls", "--call", "7")


def test_the_activity_of_an_unknown_account_is_refused(cli: Cli) -> None:
    assert cli.lines("activity", "--command", "voice") == ["There is no such change."]
    assert cli.refused("activity", "--account", "nobody") == "There is no account 'nobody'."
    assert cli.refused("activity", "--by", "nobody") == "There is no account 'nobody'."
    assert cli.run("activity", "--before", "0").code == 2


def test_an_audit_says_how_much_it_checked(cli: Cli) -> None:
    assert cli.lines("audit") == ["No breach found.", _checked(accounts=0, entries=0)]
    cli.lines("account", "add", "ada", "--units", "5")
    cli.lines("account", "add", "bea", "--units", "6")
    assert cli.lines("audit") == ["No breach found.", _checked(accounts=2, entries=2)]
    whole, checked, before = cli.lines("audit")
    assert (whole, checked) == ("No breach found.", _checked(accounts=2, entries=0))
    said = (
        "Checked by audits before: 0 calls, 2 ledger entries, 0 speech tasks, 0 audio files, all from before "
    )
    assert before.startswith(said)
    assert cli.lines("audit", "--full") == ["No breach found.", _checked(accounts=2, entries=2)]
    found = cli.json("audit", "--audio")
    assert (found["ok"], found["full"], found["breaches"]) == (True, True, [])
    counted = {"accounts": 2, "keys": 0, "calls": 0, "entries": 2, "tasks": 0, "files": 0}
    assert found["checked"] == counted


def test_a_breach_is_a_line_on_stderr_and_exit_code_1(cli: Cli) -> None:
    cli.lines("account", "add", "ada", "--units", "5")
    with sqlite3.connect(cli.service.folder / "data" / "myna.sqlite") as raw:
        raw.execute("UPDATE accounts SET balance = 6")
    raw.close()
    ended = cli.run("audit")
    assert (ended.code, ended.stdout.splitlines()[0]) == (1, "The books have breaches.")
    rule = "an account's balance is the sum of its ledger entries and at least 0"
    assert ended.stderr == f"myna: {rule}: 1 (ada 6 5)\n"


def _checked(*, accounts: int, entries: int) -> str:
    return (
        f"Checked: {accounts} accounts' balances, 0 keys' counters, 0 calls, {entries} ledger entries,"
        " 0 speech tasks, 0 audio files."
    )
