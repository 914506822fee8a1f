"""Which voice reads which part of a text, and which characters are sent to the engine."""

import pytest

from myna.engines.espeak.text import runs_of


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("Hello there.", [("en-us", "Hello there.")]),
        ("你好，世界", [("cmn", "你好，世界")]),
        ("She said “你好”.", [("en-us", "She said “"), ("cmn", "你好”.")]),
        ("你好 and 再见", [("cmn", "你好"), ("en-us", " and "), ("cmn", "再见")]),
        ("In 2024 我有5个苹果", [("en-us", "In 2024 "), ("cmn", "我有五个苹果")]),
        ("今天2024年5月 is May 2024", [("cmn", "今天二零二四年五月"), ("en-us", " is May 2024")]),
        ("12月 plan 3", [("cmn", "十二月"), ("en-us", " plan 3")]),
    ],
)
def test_an_english_voice_leaves_han_to_a_chinese_one(text: str, runs: list[tuple[str, str]]) -> None:
    assert runs_of(text, "en-us", "cmn") == runs


@pytest.mark.parametrize("text", ["我用Python写。", "123", "今天 is 好天"])
def test_a_chinese_voice_reads_latin_words_beside_han(text: str) -> None:
    assert runs_of(text, "cmn+f3", "cmn+f3") == [("cmn+f3", text)]


@pytest.mark.parametrize(
    ("voice", "english"), [("cmn+f3", "en-us+f3"), ("yue+m3", "en-us+m3"), ("zh-CN", "en-us")]
)
def test_a_text_of_latin_words_is_read_by_an_english_voice(voice: str, english: str) -> None:
    assert runs_of("Half is 1/2.", voice, voice) == [(english, "Half is 1/2.")]


def test_a_chinese_voice_reads_numbers_as_words() -> None:
    assert runs_of("有25个", "cmn", "cmn") == [("cmn", "有二十五个")]


def test_a_text_with_100000_changes_of_script_is_split_in_bounded_time() -> None:
    assert len(runs_of("好a" * 50_000, "en", "cmn")) == 100_000


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("a\0b", "a b"),
        ("a\x1bb\x7fc\u0085d", "a b c d"),
        ("你\u200b好\ufeff", "你好"),
        ("line\nline\tend", "line\nline\tend"),
        ("x" * 90, "x" * 40 + " " + "x" * 40 + " " + "x" * 10),
        ("call 12345678", "call 1 2 3 4 5 6 7 8"),
        ("ж" * 16, "ж" * 7 + " " + "ж" * 7 + " " + "ж" * 2),
        ("好" * 250, ", ".join(["好" * 100, "好" * 100, "好" * 50])),
        ("好" * 90 + "。" + "好" * 90, "好" * 90 + "。" + "好" * 90),
    ],
)
def test_characters_that_the_engine_drops_are_removed(text: str, given: str) -> None:
    ((_, spoken),) = runs_of(text, "cmn", "cmn")
    assert spoken == given
