"""Mandarin transcripts: full-width punctuation, and the script that is asked for."""

import pytest

from myna.engines.whisper.job import Script, Segment, Word
from myna.engines.whisper.mandarin import Writer, punctuated


@pytest.mark.parametrize(
    ("heard", "text"),
    [
        ("今天天气很好,我们去公园吧.", "今天天气很好，我们去公园吧。"),
        ("你好吗? Yes, I am fine.", "你好吗？Yes, I am fine."),
        ("我有3,000元,3.5公斤,10:30见!", "我有3,000元，3.5公斤，10:30见！"),
        ("我们用AI.", "我们用AI。"),
        ("增长了15%.", "增长了15%。"),
        ("他说:OK,好的", "他说：OK，好的"),
        ("今天 天气 很好", "今天，天气，很好"),
        ("等等...", "等等……"),
        ("今天(星期三)去", "今天（星期三）去"),
        ("先用Wi-Fi,然后登录app,", "先用Wi-Fi，然后登录app，"),
        ("“你好”,他说", "“你好”，他说"),
        ("為﹐為﹑４", "為，為、4"),
        ("好，好。", "好，好。"),
        ("Hello, it is 3.5.", "Hello, it is 3.5."),
        ("", ""),
    ],
)
def test_punctuation_beside_chinese_characters_has_full_width(heard: str, text: str) -> None:
    assert punctuated(heard) == text


MARKS = str.maketrans("", "", "，。")


def segment(text: str) -> Segment:
    return Segment(0, 0, 0.0, 1.0, text, [], 0.0, -0.5, 1.0, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "heard", "text"),
    [
        (Script.SIMPLIFIED, "乾隆皇帝看著乾淨的頭髮,皇后在後面.", "乾隆皇帝看着干净的头发，皇后在后面。"),
        (Script.SIMPLIFIED, "著名作家在这里。", "著名作家在这里。"),
        (Script.TAIWAN, "头发干净,皇后在后面发面.", "頭髮乾淨，皇后在後面發麵。"),
        (Script.TAIWAN, "為什麼在裡面。", "為什麼在裡面。"),
        (Script.HONG_KONG, "里面的群众", "裏面的羣眾"),
    ],
)
def test_a_transcript_is_in_one_script(script: Script, heard: str, text: str) -> None:
    """Of a word alone 乾 would be 干, whose neighbours decide. Needs OpenCC, which the extra `hear` has."""
    words = [Word(character, 0.0, 1.0) for character in heard]
    segments, found = Writer().written([segment(heard)], words, script)
    assert [one.text for one in segments] == [text]
    assert "".join(one.word for one in found if one.word not in ",.，。") == text.translate(MARKS)
