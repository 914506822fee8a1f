"""myna voice read: what a voice will say, without a service."""

import json

import pytest

from tests.cli.conftest import Cli


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
