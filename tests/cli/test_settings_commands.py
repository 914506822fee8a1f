"""Site settings on the command line, also those that this version cannot read."""

import json
import sqlite3

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
