"""Texts are split at sentences and pauses, and no character is lost."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from myna.engines.text.sentences import sentences

_SIGNS = st.text(
    st.sampled_from("你好，。！？…… .,!?\n\"”」'）)aB3.14—é👩\u200d🚀e\u0301 \u3000"), max_size=200
)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("", []),
        ("   ", ["   "]),
        ("你好。世界！真的？", ["你好。", "世界！", "真的？"]),
        ("真的吗！？是的。", ["真的吗！？", "是的。"]),
        ("他说：“走吧。”然后走了。", ["他说：“走吧。”", "然后走了。"]),
        ("「好！」他想……也许吧。", ["「好！」", "他想……也许吧。"]),
        ("圆周率是3.14，对吗？对。", ["圆周率是3.14，对吗？", "对。"]),
        ("Pi is 3.14. It is v2.0.1, see a.b.com.", ["Pi is 3.14. ", "It is v2.0.1, see a.b.com."]),
        ("Mr. Smith met Dr. Wu. They left.", ["Mr. Smith met Dr. Wu. ", "They left."]),
        ("J. R. Tolkien wrote, e.g. this. Yes.", ["J. R. Tolkien wrote, e.g. this. ", "Yes."]),
        ("He shouted “Stop!” and ran. Then rest.", ["He shouted “Stop!” and ran. ", "Then rest."]),
        ('She said "No." Then she left.', ['She said "No." ', "Then she left."]),
        ("See No. 5 and fig. 2. No. They left.", ["See No. 5 and fig. 2. ", "No. ", "They left."]),
        ("Well... maybe. Sure?! OK!", ["Well... maybe. ", "Sure?! ", "OK!"]),
        ("1. First. 2. Second.", ["1. First. ", "2. Second."]),
        ("一行\n二行\n\n三行", ["一行\n", "二行\n\n", "三行"]),
        ("Hello world", ["Hello world"]),
    ],
)
def test_a_text_is_split_after_its_sentences(text: str, cut: list[str]) -> None:
    assert sentences(text, 100) == cut


@pytest.mark.parametrize(
    ("text", "max_chars", "cut"),
    [
        ("春天来了，花都开了，鸟也叫了。", 12, ["春天来了，花都开了，", "鸟也叫了。"]),
        ("it costs 1,234,567 in all", 14, ["it costs ", "1,234,567 in ", "all"]),
        ("好" * 25, 10, ["好" * 10, "好" * 10, "好" * 5]),
        ("a👩\u200d🚀👩\u200d🚀", 5, ["a👩\u200d🚀", "👩\u200d🚀"]),
        ("e\u0301" * 3, 3, ["e\u0301", "e\u0301", "e\u0301"]),
        ("e" + "\u0301" * 5, 3, ["e\u0301\u0301", "\u0301\u0301\u0301"]),
    ],
)
def test_a_too_long_sentence_is_split_at_the_best_place(text: str, max_chars: int, cut: list[str]) -> None:
    assert sentences(text, max_chars) == cut


@given(st.one_of(st.text(max_size=200), _SIGNS), st.integers(1, 60))
def test_splitting_loses_no_text_and_no_piece_is_too_long(text: str, max_chars: int) -> None:
    pieces = sentences(text, max_chars)
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= max_chars for piece in pieces)


@given(_SIGNS, st.integers(8, 60))
def test_a_grapheme_that_fits_is_never_split(text: str, max_chars: int) -> None:
    whole = regex.findall(r"\X", text)
    if all(len(sign) <= max_chars for sign in whole):
        assert [sign for piece in sentences(text, max_chars) for sign in regex.findall(r"\X", piece)] == whole


@given(st.text("abc好", min_size=1, max_size=30))
def test_a_text_without_stops_that_fits_is_one_sentence(text: str) -> None:
    assert sentences(text, 30) == [text]


def test_100000_characters_are_split_in_bounded_time() -> None:
    for sign in "好.!。 )\n":
        text = sign * 100_000
        assert "".join(sentences(text, 100)) == text
