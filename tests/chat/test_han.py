"""Han characters are counted by their Unicode script."""

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from myna.chat.han import han_count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello, world 123", 0),
        ("你好，世界。", 4),
        ("Hello 世界 2024年", 3),
        ("朗讀繁體", 4),
        ("〇々〻", 3),
        ("𠮷野家", 3),
        ("⺀⼀豈", 3),
        ("ひらがなカタカナ", 0),
        ("한국어", 0),
        ("，。！？：“”「」、…—　", 0),
        ("😀①㎡％ｗ", 0),
        ("\ud800你\x00", 1),
        ("龘" * 1000, 1000),
    ],
)
def test_code_points_of_the_han_script_are_counted(text: str, count: int) -> None:
    assert han_count(text) == count


@settings(max_examples=50)
@given(st.text("你a，𠮷 1\n々あ"), st.text("好b。🀄"))
def test_counts_of_two_texts_add_up(left: str, right: str) -> None:
    assert han_count(left + right) == han_count(left) + han_count(right)


@settings(max_examples=50)
@given(st.text(st.characters()))
def test_the_count_is_the_sum_over_the_characters(text: str) -> None:
    assert 0 <= han_count(text) <= len(text)
    assert han_count(text) == sum(han_count(char) for char in text)


def test_the_table_of_ranges_matches_the_regex_module() -> None:
    every = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    assert han_count(every) == len(regex.findall(r"\p{Script=Han}", every))
    assert han_count("".join(regex.findall(r"\P{Script=Han}+", every))) == 0
