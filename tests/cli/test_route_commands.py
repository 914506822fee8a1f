"""myna route, and keys that are limited to routes."""

from tests.cli.conftest import Cli

URL = "http://127.0.0.1:1/v1"


REFUSED = {
    "route add tts-1 --units 1 --kind speech": "tts-1 is built in, and its price is the site setting",
    "route add taken --units 1": "already is a route 'taken'",
    "route add a --units 1 --channel nobody": "no channel 'nobody'",
    "route add a --units 1 --kind speech --channel up": "needs channels for speech",
    "route set taken": "Give at least one of",
    "route set svc-chat --units 1": "svc-chat is built in; its price is the site setting chat_units.",
    "route set taken --channel up --any-channel": "not both",
    "route remove nothing": "There is no route 'nothing'; there are 'taken'.",
    "channel add chat up parrot:": "There already is a channel 'up'",
    "channel remove up": "Routes name the channel 'up': taken",
    "key issue ann --route nothing": "There is no route 'nothing'",
    "key routes 1": "Give either --route",
    "key routes 1 --route tts-1 --any": "Give either --route",
    "key routes 9 --any": "There is no key 9",
}


def test_a_change_that_cannot_be_is_refused_and_changes_nothing(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    cli.lines("key", "issue", "ann")
    cli.lines("channel", "add", "chat", "up", URL)
    cli.lines("route", "add", "taken", "--units", "1", "--channel", "up")
    lists = ("route list", "channel list", "key list ann", "activity")
    before = [cli.json(*line.split()) for line in lists]
    for command, why in REFUSED.items():
        assert why in cli.refused(*command.split())
        assert [cli.json(*line.split()) for line in lists] == before, command


def test_the_list_of_keys_has_their_routes(cli: Cli) -> None:
    cli.lines("account", "add", "ann")
    cli.lines("route", "add", "gpt-*", "--units", "1")
    cli.lines("key", "issue", "ann", "--route", "gpt-*", "--route", "svc-chat")
    cli.lines("key", "issue", "ann")
    assert [row["routes"] for row in cli.json("key", "list", "ann")] == ["gpt-*, svc-chat", "any"]
    cli.lines("key", "routes", "1", "--route", "gpt-*")
    cli.lines("route", "remove", "gpt-*")
    assert [row["routes"] for row in cli.json("key", "list", "ann")] == ["none", "any"]
    cli.lines("key", "routes", "1", "--any")
    assert [row["routes"] for row in cli.json("key", "list", "ann")] == ["any", "any"]


def test_a_weight_and_the_offer_of_responses_are_listed(cli: Cli) -> None:
    cli.lines("channel", "add", "chat", "up", URL, "--weight", "3")
    cli.lines("channel", "set", "up", "--responses", "yes")
    (row,) = [row for row in cli.json("channel", "list") if row["name"] == "up"]
    assert (row["weight"], row["responses"]) == (3, True)
    assert "weight must be from 0" in cli.refused("channel", "set", "up", "--weight", "-1")
    assert "offers POST /responses" in cli.refused(
        "channel", "add", "chat", "a", "parrot:", "--responses", "yes"
    )
