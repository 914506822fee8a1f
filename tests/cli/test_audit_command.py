"""The output of `myna audit`: how much it checked, so that an empty database is noticed."""

import json
import sqlite3

from tests.cli.conftest import Cli


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
    found = json.loads(cli.lines("audit", "--audio", "--json")[0])
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
