"""Readings of polyphones: alone, in words, by the characters around them, and in names of persons."""

from pathlib import Path

import pytest

from myna.engines.kokoro.text.words import words

WORDS = Path(__file__).with_name("polyphones.txt")


def reading(text: str, begin: int = 0) -> list[str]:
    return [syllable for word in words(text) for syllable in word.pinyin][begin:]


def syllables_of(character: str, text: str) -> list[str]:
    return [one for read, one in zip(text, reading(text), strict=True) if read == character]


def test_polyphones_in_words() -> None:
    """Each line of the file is a character, its reading, and words in which it has it."""
    wrong = []
    for line in WORDS.read_text(encoding="utf-8").splitlines():
        character, expected, *listed = line.split()
        wrong += [(word, expected) for word in listed if set(syllables_of(character, word)) != {expected}]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "character", "expected"),
    [
        ("他会弹尤克里里", "弹", "tan2"),
        ("帮我切几片", "切", "qie4"),
        ("把土豆切成丝", "切", "qie1"),
        ("把洋葱切碎", "切", "qie1"),
        ("一切成果", "切", "qie4"),
        ("系好安全带", "系", "ji4"),
        ("联系上", "系", "xi4"),
        ("第七行写着几行字", "行", "hang2 hang2"),
        ("一行人走了", "行", "xing2"),
        ("任命她为校长", "为", "wei2"),
        ("化悲痛为力量", "为", "wei2"),
        ("为人民服务", "为", "wei4"),
        ("孩子长不高", "长", "zhang3"),
        ("头发很长了", "长", "chang2"),
        ("看中国队比赛", "中", "zhong1"),
        ("他猜中了", "中", "zhong4"),
        ("这只是开始", "只", "zhi3"),
        ("几百只羊", "只", "zhi1"),
        ("家里得有人", "得", "de5"),
        ("你得赶快去", "得", "dei3"),
        ("他得到了奖", "得", "de2"),
        ("快快乐乐地回家", "地", "de5"),
        ("天天地铁上班", "地", "di4"),
        ("院子里种了两棵树和一些花", "种", "zhong4"),
        ("这种花很香", "种", "zhong3"),
        ("教我唱歌", "教", "jiao1"),
        ("佛教我不懂", "教", "jiao4"),
        ("重启电脑", "重", "chong2"),
        ("体重来自肌肉", "重", "zhong4"),
        ("怎么也找不着", "着", "zhao2"),
        ("找不着急", "着", "zhao2"),
        ("应老师的邀请", "应", "ying4"),
        ("炸薯条", "炸", "zha2"),
        ("炸药", "炸", "zha4"),
    ],
)
def test_a_character_by_its_neighbours(text: str, character: str, expected: str) -> None:
    assert syllables_of(character, text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("颇", "po1"), ("佛", "fo2"), ("甸", "dian4"), ("囤", "tun2"), ("拽", "zhuai4"), ("撩", "liao1"),
        ("嚼", "jiao2"), ("杠", "gang4"), ("吁", "yu4"), ("似", "si4"), ("茄", "qie2"), ("踉", "liang4"),
        ("看著", "kan4 zhe5"), ("鲁迅著", "lu3 xun4 zhu4"), ("他走著去", "ta1 zou3 zhe5 qu4"),
        ("著名", "zhu4 ming2"), ("乾杯", "gan1 bei1"), ("乾隆", "qian2 long2"),
        ("閤家", "he2 jia1"), ("復習", "fu4 xi2"), ("瞭解", "liao3 jie3"), ("準備", "zhun3 bei4"),
    ],
)  # fmt: skip
def test_a_character_alone_and_traditional_ones(text: str, expected: str) -> None:
    assert reading(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "begin", "expected"),
    [
        ("单先生", 0, "shan4"),  # with a title
        ("请区女士上台", 1, "ou1"),
        ("我跟解老师约好了", 2, "xie4"),
        ("任总", 0, "ren2"),
        ("我姓仇", 2, "qiu2"),
        ("曾国藩家书", 0, "zeng1"),  # a surname and a given name
        ("昨天任正非来了", 2, "ren2"),
        ("盖叫天", 0, "ge3"),
        ("朴槿惠", 0, "piao2"),
        ("华晨宇", 0, "hua4"),  # jieba cuts the name
        ("仇和", 0, "qiu2"),
        ("尉迟敬德", 0, "yu4"),  # compound surnames
        ("长孙无忌", 0, "zhang3"),
        ("万俟卨", 0, "mo4"),
        ("任我行", 2, "xing2"),
    ],
)
def test_the_name_of_a_person(text: str, begin: int, expected: str) -> None:
    assert reading(text, begin)[0] == expected


@pytest.mark.parametrize(
    ("text", "character", "expected"),
    [
        ("名单上有女士", "单", "dan1"),
        ("小区老师很多", "区", "qu1"),
        ("市区女士免费", "区", "qu1"),
        ("查老师的电话", "查", "cha2"),
        ("查尔斯王子", "查", "cha2"),
        ("盖房子", "盖", "gai4"),
        ("任天堂", "任", "ren4"),
        ("主任老师任教", "任", "ren4 ren4"),
        ("他曾任经理", "任", "ren4"),
        ("都先生气了", "都", "dou1"),
        ("员工", "员", "yuan2"),
        ("华盛顿", "华", "hua2"),
        ("燕子飞了", "燕", "yan4"),
        ("朴素大方", "朴", "pu3"),
    ],
)
def test_a_surname_that_is_part_of_a_word(text: str, character: str, expected: str) -> None:
    assert syllables_of(character, text) == expected.split()
