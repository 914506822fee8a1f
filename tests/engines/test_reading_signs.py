"""Digits and letters in other Unicode forms are read as their plain forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myna.engines.text.reading import spoken_form
from myna.engines.text.signs import plain, speakable


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("１２３", "123"),
        ("٣٤ १२ ๕ 𝟘𝟙", "34 12 5 01"),
        ("①②", "1 2"),
        ("⑽ ⒈ ❶ ㊂ 〣 ፩", "10 1 1 3 3 1"),
        ("ⅷ Ⅻ", "8 12"),
        ("2① ①2", "2 1 1 2"),
        ("⅛ 2⅛", "1/8 2 1/8"),
        ("Ｈｅｌｌｏ Ⓐ 𝐀", "Hello A A"),
        ("１＋１＝２ ５０％ ＄５ Ａ＆Ｂ", "1+1=2 50% $5 A&B"),
        ("３．５ ８：３０", "3.5 8:30"),
        ("⼀豈㊙", "一豈秘"),
    ],
)
def test_a_sign_is_replaced_by_its_plain_form(text: str, said: str) -> None:
    assert plain(text) == said


@pytest.mark.parametrize(
    "text", ["m² H₂O 10⁴", "½ ¼ ¾", "二〇二四", "你好，世界！～", "ㄅㄆ カ ｶ ﾞ ℃", "é ß ﬁ", "😀"]
)
def test_signs_with_a_reading_are_unchanged(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("第③章", "第三章"),
        ("第Ⅷ章", "第八章"),
        ("有٣٤个", "有三十四个"),
        ("花$，β粒子±，Π∂", "花美元，贝塔粒子正负，派偏"),
        ("½杯水", "二分之一杯水"),
        ("2½杯水", "二又二分之一杯水"),
        ("⅛杯水", "八分之一杯水"),
        ("２０２４年５月１日", "二零二四年五月一日"),
    ],
)
def test_signs_beside_han_are_read_in_chinese(text: str, said: str) -> None:
    assert spoken_form(text) == said


@given(st.text(max_size=40) | st.text("①２Ⅷ½⅛𝟘〇²²٣ 2", max_size=20))
def test_plain_is_idempotent(text: str) -> None:
    assert plain(plain(text)) == plain(text)


@pytest.mark.parametrize("text", ["１２３", "①②", "٣٤", "ⅷ", "½", "²", "⼀", "a", "好", "Ⓐ", "\ud800 5"])
def test_a_letter_or_a_number_in_any_form_can_be_spoken(text: str) -> None:
    assert speakable(text)


@pytest.mark.parametrize("text", ["", " ", "…", "😀", "!?", "\u200b", "\u3164", "\ud800", "\u0301"])
def test_a_text_without_letters_or_numbers_cannot_be_spoken(text: str) -> None:
    assert not speakable(text)
