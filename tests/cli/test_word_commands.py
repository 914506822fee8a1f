"""myna voice word: how words are read, for the site and for one account."""

from tests.cli.conftest import Cli


def test_words_are_added_listed_and_removed(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    assert cli.json("voice", "word", "list") == []
    added = cli.json("voice", "word", "add", "行长", "hang2zhang3")
    assert (added["word"], added["reading"], added["account"]) == ("行长", "hang2 zhang3", "")
    cli.lines("voice", "word", "add", "Myna", "MY-nuh", "--account", "ann")
    cli.lines("voice", "word", "add", "Myna", "mai na", "--account", "ann")
    (own,) = cli.json("voice", "word", "list", "--account", "ann")
    assert (own["word"], own["reading"]) == ("Myna", "mai na")
    assert [row["word"] for row in cli.json("voice", "word", "list")] == ["行长"]

    cli.lines("voice", "word", "remove", "行长")
    assert cli.lines("voice", "word", "list") == ["There is no word yet."]
    assert cli.refused("voice", "word", "remove", "行长") == "There is no word '行长'."
    assert cli.refused("voice", "word", "list", "--account", "bob") == "There is no account 'bob'."
    assert cli.refused("voice", "word", "add", "行长", "x9").startswith("A reading is pinyin")
    commands = [row["command"] for row in cli.json("activity")]
    assert "myna voice word add Myna 'mai na' --account ann" in commands


def test_a_text_is_read_with_the_words_of_the_site_or_of_an_account(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    cli.lines("voice", "word", "add", "好", "hao4")
    cli.lines("voice", "word", "add", "好", "你", "--account", "ann")
    assert cli.json("voice", "read", "好")["phonemes"] == "xau↘."
    assert cli.json("voice", "read", "好", "--account", "ann")["reading"] == "你"
    assert cli.refused("voice", "read", "好", "--account", "bob") == "There is no account 'bob'."
