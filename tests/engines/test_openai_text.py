"""Where a long text is split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myna.engines.openai.text import INPUT_MAX_CHARS, cut


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("短句。", ["短句。"]),
        ("一二三。四五六七八九十", ["一二三。", "四五六七八九十"]),
        ("一二。三四。五六七八九十", ["一二。三四。", "五六七八九十"]),
        ("他说：“走吧。”然后就走了", ["他说：“走吧。”", "然后就走了"]),
        ("一二三四五六七八九。十", ["一二三四五六七八九。", "十"]),
        ("等等……十一二三四五六七", ["等等……", "十一二三四五六七"]),
        ("一行\n二行三四五六七八", ["一行\n", "二行三四五六七八"]),
        ("Pi is 3.14159265", ["Pi is ", "3.14159265"]),
        ("Go on. Stop now", ["Go on. ", "Stop now"]),
        ("ninechar. ten", ["ninechar. ", "ten"]),
        ("tencharss. x", ["tencharss.", " x"]),
        ("一二三，四五六七八九十", ["一二三，", "四五六七八九十"]),
        ("1,234,567,890", ["1,234,567,", "890"]),
        ("one two three", ["one two ", "three"]),
        ("无标点无空格的一长串文字", ["无标点无空格的一长串", "文字"]),
        ("", []),
        (" \n ", []),
        ("一。" + " " * 30, ["一。        "]),
    ],
)
def test_a_text_is_split_at_the_best_place_that_fits(text: str, pieces: list[str]) -> None:
    assert cut(text, 10) == pieces


def test_a_text_that_fits_is_not_split() -> None:
    text = "好。" * (INPUT_MAX_CHARS // 2)

    assert cut(text) == [text]
    assert len(cut(text + "。")) == 2


@given(st.text(alphabet="ab，。.!?, \n”…字", max_size=300), st.integers(1, 40))
def test_only_blanks_are_dropped_and_no_piece_is_too_long(text: str, max_chars: int) -> None:
    pieces = cut(text, max_chars)

    assert all(0 < len(piece) <= max_chars for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())
