"""The score counts misheard words and syllables, and nothing else."""

import pytest

from listen.score import Score, score, units


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("今天天气很好。", "今天天氣很好"),
        ("银行的行长，头发长长了", "銀行的行長 頭髮長長了"),
        ("他在家。", "她再加。"),
        ("请问，洗手间在哪里？", "请问洗手间在哪里"),
        ("会议定在二零二四年三月十五日。", "会议定在2024年3月15日。"),
        ("增长了百分之十五", "增长了15%"),
        ("余额为二百五十六点八零元", "余额为￥256.80"),
        ("请拨打一三八零零一三八零零零", "请拨打13800138000"),
        ("列车于十八点三十分出发", "列车于18:30出发"),
        ("房间是五零一室", "房间是五零幺室"),
        ("the ticket costs fifteen dollars", "The ticket costs fifteen dollars."),
        ("the ticket costs fifteen dollars", "The ticket costs $15."),
        ("up by twenty percent", "up by 20%"),
        ("Don't go.", "dont go"),
        ("three hundred sixty-five", "Three hundred and sixty five."),
        ("seat belt", "seatbelt"),
        ("请连接WiFi。", "请连接 Wi-Fi"),
        ("他喜欢NBA。", "他喜欢 N.B.A."),
        ("把文件发到我的email。", "把文件发到我的 e-mail"),
        ("我们的team用Python写了一个server", "我们的 Team 用 python 写了一个 server。"),
    ],
)
def test_other_spellings_of_the_same_sounds_are_no_errors(said: str, heard: str) -> None:
    assert score(said, heard).errors == 0


@pytest.mark.parametrize(
    ("said", "heard", "errors", "count"),
    [
        ("今天天气很好", "今天天气很糟", 1, 6),  # a substitution
        ("今天天气很好", "今天天气好", 1, 6),  # a deletion
        ("今天天气好", "今天的天气很好", 2, 5),  # two insertions
        ("今天", "", 2, 2),
        ("好", "好好好好", 3, 1),
        ("银行的行长", "银形的行长", 1, 5),
        ("会议定在二零二四年", "会议定在两千零二十四年", 3, 9),
        ("请拨打一三八", "请拨打一百三十八", 2, 6),
        ("打八折", "打8车", 1, 3),
        ("good morning everyone", "good evening everyone", 1, 3),
        ("turn left", "turn left right now", 2, 2),
        ("我们用Python写", "我们用拜登写", 2, 5),
        ("请先login", "请先", 1, 3),
        ("请说he", "请说喝", 1, 3),
        ("a wi fi spot", "a wife spot", 2, 4),
    ],
)
def test_misheard_words_are_counted(said: str, heard: str, errors: int, count: int) -> None:
    assert score(said, heard) == Score(errors, count)


def test_syllables_have_no_tones_and_words_are_in_capitals() -> None:
    assert units("吗妈骂？") == ["ma", "ma", "ma"]
    assert units("我用 Python-3 写。") == ["wo", "yong", "PYTHON", "san", "xie"]
    assert units("") == []
    assert units("，。!") == []


def test_a_polyphone_is_read_as_its_word_has_it_across_punctuation() -> None:
    assert units("银行行长") == ["yin", "hang", "hang", "zhang"]
    assert units("长大，重新") == ["zhang", "da", "chong", "xin"]
