"""myna voice: voices are cloned with consent, listed with their state, deleted; public ones overridden."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from myna.actions.site import EnrollNode
from myna.farm.nodes import Nodes
from myna.settings import Settings
from myna.store.database import connect
from myna.voices.clones import CONSENT
from myna.wire.farm import Hello, NodeVoice
from tests.cli.conftest import Cli
from tests.rig.actors import perform
from tests.rig.calls import call
from tests.rig.disks import on_full_disk
from tests.rig.samples import write_voice
from tests.rig.service import Service, ServiceMaker


@pytest.fixture
def owner(cli: Cli) -> Cli:
    """Commands on a folder with the account `ann` and a recording in the current folder."""
    cli.lines("account", "add", "ann", "--units", "5")
    write_voice(cli.service.folder / "voice.wav", 3.5)
    return cli


def clone(*more: str, account: str = "ann", **changes: str) -> tuple[str, ...]:
    """The command that clones the recording."""
    order = {"name": "小明", "language": "zh", "transcript": "你好，世界", "sample": "voice.wav", **changes}
    options = [word for name, value in order.items() for word in (f"--{name}", value)]
    return ("voice", "clone", account, *options, *more)


def stored(cli: Cli) -> list[Path]:
    return [path for path in (cli.service.folder / "data" / "samples").rglob("*") if path.is_file()]


def test_commands_of_voices_do_not_need_the_engine_of_the_settings(owner: Cli) -> None:
    asyncio.run(
        node_says_hello(
            owner,
            shutting_down=False,
            voices=[NodeVoice(voice_id="v", name="V", gender="male", language="en-US")],
        )
    )
    env = {"MYNA_SPEECH": "sherpa:/nowhere"}
    made = json.loads(owner.run(*clone("--consent"), "--json", **env).stdout)["voice_id"]
    for words in (["rename", "v", "W"], ["hide", "v"], ["show", "v"], ["order", "v"], ["list"]):
        ended = owner.run("voice", *words, "--json", **env)
        (warning,) = ended.stderr.splitlines()
        assert ended.code == 0
        assert warning.startswith("myna: warning: MYNA_SPEECH: ")
        assert warning.endswith(" Its voices are left out.")
    listed = json.loads(ended.stdout)
    assert [(row["voice_id"], row["name"]) for row in listed] == [("v", "W"), (made, "小明")]
    assert owner.json("voice", "delete", made, **env)["deleted"]


def test_a_voice_is_cloned_listed_and_deleted(owner: Cli) -> None:
    made = owner.json(*clone("--consent"))
    assert (made["account"], made["name"], made["language"]) == ("ann", "小明", "zh")
    assert (made["status"], made["sample_s"]) == ("queued", 3.5)
    assert made["note"] == "No compute node clones in 'zh' now; the voice waits for one."
    assert len(stored(owner)) == 1
    assert owner.lines("account", "show", "ann")[5].split() == ["balance", "5"]

    (row,) = owner.json("voice", "list")
    assert (row["voice_id"], row["source"], row["account"]) == (made["voice_id"], "clone", "ann")
    assert (row["status"], row["reason"], row["by"]) == ("queued", "", [])
    assert made["voice_id"] in owner.lines("voice", "list")[1]

    deleted = owner.json("voice", "delete", made["voice_id"])
    assert deleted == {"voice_id": made["voice_id"], "deleted": True, "tasks_refunded": 0}
    assert stored(owner) == []
    assert owner.json("voice", "list") == []
    assert owner.refused("voice", "delete", made["voice_id"]).startswith("There is no blend or cloned voice")


def test_without_consent_the_command_says_what_it_means_and_keeps_nothing(owner: Cli) -> None:
    for more in ([], ["--consent-by", "Ann"]):
        line = owner.refused(*clone(*more))
        assert "Declare the consent" in line and CONSENT in line
    assert stored(owner) == []
    assert owner.json("voice", "list") == []


INVALID = [
    ({"sample": "nothing.wav"}, "nothing.wav can't be read: No such file or directory."),
    ({"sample": "."}, ". is not a regular file; name a recording."),
    ({"sample": "pipe"}, "pipe is not a regular file; name a recording."),
    ({"sample": "text.wav"}, "The file is not a recording that Myna can read"),
    ({"language": "zh-CN"}, "The language must be its code alone"),
    ({"account": "bob"}, "There is no account 'bob'."),
]


def test_an_invalid_voice_is_refused_in_one_line(owner: Cli) -> None:
    (owner.service.folder / "text.wav").write_text("no recording")
    os.mkfifo(owner.service.folder / "pipe")
    for change, said in INVALID:
        assert owner.refused(*clone("--consent", **change)).startswith(said)
    assert stored(owner) == []


def test_a_disk_that_refuses_the_sample_is_one_line(owner: Cli) -> None:
    order = clone("--consent")
    ended = on_full_disk(2**17, list(order), owner.service.env, owner.service.folder)
    assert (ended.code, ended.stdout) == (1, "")
    assert ended.stderr.endswith("\nmyna: The sample could not be checked: File too large\n")
    assert stored(owner) == []


def test_a_voice_with_consent_of_its_account_or_another_waits_until_a_node_is_online(owner: Cli) -> None:
    note = "No compute node that clones in 'zh' is online; the voice waits until one is."
    for shutting_down, said, by in ((True, note, ()), (False, None, ("--consent-by", "Li Lei"))):
        asyncio.run(node_says_hello(owner, shutting_down=shutting_down))
        made = owner.json(*clone("--consent", *by))
        assert made.get("note") == said
        consents = f"{'Li Lei' if by else 'ann'} (given to the command line of "
        assert made["consent_by"].startswith(consents)


async def node_says_hello(cli: Cli, *, shutting_down: bool, voices: Sequence[NodeVoice] = ()) -> None:
    """Adds a node that has `voices` and clones Chinese ones. It is offline if `shutting_down`."""
    db = await connect(Settings(data=str(cli.service.folder / "data")))
    try:
        nodes = Nodes(db)
        admitted = await nodes.join(
            (await perform(nodes.db, EnrollNode(name=f"shutting down: {shutting_down}"))).token, "1"
        )
        credential = f"Bearer {admitted.credential}".encode()
        hello = Hello(voices=list(voices), clones=["zh"], slots=1)
        await nodes.hello(await nodes.verify(credential), hello)
        if shutting_down:
            await nodes.hello(await nodes.verify(credential), replace(hello, shutting_down=True))
    finally:
        await db.close()


def listed(service: Service, key: str) -> list[tuple[str, str]]:
    answer = call("GET", f"{service.base_url}/voices", key=key).json
    assert answer["default"] == answer["data"][0]["voice_id"]
    return [(voice["voice_id"], voice["name"]) for voice in answer["data"]]


def test_a_running_service_applies_overrides_from_the_next_call_on(make_service: ServiceMaker) -> None:
    service = make_service(speech="espeak").start()
    key = service.account().key().plain
    (first, _), *others = listed(service, key)
    service.cli("voice", "order", "en-us-male-1")
    service.cli("voice", "rename", "en-us-male-1", "Jim")
    service.cli("voice", "hide", first)
    after = listed(service, key)
    assert after[0] == ("en-us-male-1", "Jim")
    assert after[1:] == [voice for voice in others if voice[0] != "en-us-male-1"]
    answer = call("POST", f"{service.base_url}/tts", key=key, data={"text": "hi", "voice_id": first})
    assert answer.status == 400


def test_a_text_is_read_in_words_and_phonemes_without_a_database(bare_cli: Cli) -> None:
    assert bare_cli.json("voice", "read", "好，3个") == {
        "text": "好，3个",
        "reading": "好，三个",
        "phonemes": "xau↓, sa→nkɤ↘.",
    }
    assert bare_cli.lines("voice", "read", "3个")[1] == "reading   三个"


@pytest.mark.parametrize(
    ("voice", "expected"),
    [
        ("af_heart", [("It is 5°C.", "degrees"), ("3", "three")]),
        ("zh-female-1", [("It is 5°C.", "It"), ("3", "3")]),
    ],
)
def test_each_line_is_read_in_the_voice(bare_cli: Cli, voice: str, expected: list[tuple[str, str]]) -> None:
    texts = [text for text, _ in expected]
    ended = bare_cli.run(
        *("voice", "read", "--lines", "--json", "--voice", voice),
        stdin="".join(f"{text}\n" for text in texts),
    )
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [one["text"] for one in found] == texts
    for one, (_, words) in zip(found, expected, strict=True):
        assert words in one["reading"]
        assert one["phonemes"]


def test_an_unknown_voice_and_no_text_are_refused(bare_cli: Cli) -> None:
    assert bare_cli.refused("voice", "read", "x", "--voice", "y") == (
        "No voice of Kokoro or espeak-ng has the id 'y'."
    )
    assert bare_cli.misused("voice", "read").startswith("Give a text, or --lines")
    assert bare_cli.misused("voice", "read", "x", "--lines").startswith("Give a text, or --lines")


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
