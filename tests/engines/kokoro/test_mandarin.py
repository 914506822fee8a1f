"""Mandarin to phonemes: readings of words, tone sandhi, and syllables."""

import pytest

from myna.engines.kokoro.text.mandarin import phonemes
from myna.engines.kokoro.text.sandhi import spoken_tones
from myna.engines.kokoro.text.syllables import is_syllable, symbols
from myna.engines.kokoro.text.words import has_reading, words


def read(text: str) -> str:
    return " ".join(syllable for word in words(text) for syllable in word.pinyin)


def spoken(text: str) -> str:
    return " ".join(syllable for word in spoken_tones(words(text)) for syllable in word.pinyin)


@pytest.mark.parametrize(
    ("syllable", "expected"),
    [
        ("zhong1", "ꭧʊ→ŋ"),
        ("hao3", "xau↓"),
        ("lv4", "ly↘"),
        ("nve4", "nɥe↘"),
        ("xue2", "ɕɥe↗"),
        ("yuan2", "ɥɛ↗n"),
        ("qu4", "ʨʰy↘"),
        ("shi4", "ʂɨ↘"),
        ("er2", "ɚ↗"),
        ("yong3", "jʊ↓ŋ"),
        ("wen2", "wə↗n"),
        ("sun1", "swə→n"),
        ("jun1", "ʨy→n"),
        ("liu2", "ljou↗"),
        ("gui4", "kwei↘"),
        ("bo1", "pwo→"),
        ("de5", "tɤ"),
        ("ng2", "ŋ↗"),
        ("o2", "ɔ↗"),
    ],
)
def test_a_syllable_in_symbols_of_the_model(syllable: str, expected: str) -> None:
    assert symbols(syllable) == expected


@pytest.mark.parametrize("pinyin", ["", "5", "a", "xyz1", "q5", "zhong6", "ha ha1"])
def test_pinyin_that_is_no_syllable(pinyin: str) -> None:
    assert not is_syllable(pinyin)
    with pytest.raises(ValueError, match="not a syllable"):
        symbols(pinyin)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("银行行长长大了", "yin2 hang2 hang2 zhang3 zhang3 da4 le5"),
        ("重庆的重新开始", "chong2 qing4 de5 chong2 xin1 kai1 shi3"),
        ("他还没还书", "ta1 hai2 mei2 huan2 shu1"),
        ("还钱给我", "huan2 qian2 gei3 wo3"),
        ("还有", "hai2 you3"),
        ("我得走了", "wo3 dei3 zou3 le5"),
        ("他得了第一名", "ta1 de2 le5 di4 yi1 ming2"),
        ("觉得", "jue2 de5"),
        ("高兴地说", "gao1 xing4 de5 shuo1"),
        ("土地", "tu3 di4"),
        ("睡着了", "shui4 zhao2 le5"),
        ("音乐很快乐", "yin1 yue4 hen3 kuai4 le4"),
        ("朝阳区的朝阳", "chao2 yang2 qu1 de5 zhao1 yang2"),
        ("参差不齐", "cen1 ci1 bu4 qi2"),
        ("参加", "can1 jia1"),
        ("单于", "chan2 yu2"),
        ("简单", "jian3 dan1"),
        ("都市里都有", "dou1 shi4 li3 dou1 you3"),
        ("这只狗只有", "zhe4 zhi1 gou3 zhi3 you3"),
        ("会计会开会", "kuai4 ji4 hui4 kai1 hui4"),
        ("数一数", "shu3 yi1 shu3"),
        ("跑得快", "pao3 de5 kuai4"),
        ("受得了", "shou4 de5 liao3"),
        ("吃不了", "chi1 bu4 liao3"),
        ("他长得高", "ta1 zhang3 de5 gao1"),
        ("看得着", "kan4 de5 zhao2"),
        ("分为第七行", "fen1 wei2 di4 qi1 hang2"),
        ("教我们写教案", "jiao1 wo3 men5 xie3 jiao4 an4"),
        ("调整空调", "tiao2 zheng3 kong1 tiao2"),
        ("一会儿的花儿", "yi1 hui4 er5 de5 hua1 er5"),
        ("女儿和婴儿", "nv3 er2 he2 ying1 er2"),
        ("銀行還沒發覺", "yin2 hang2 hai2 mei2 fa1 jue2"),
        ("長大後的樂趣", "zhang3 da4 hou4 de5 le4 qu4"),
        ("长头发很长", "chang2 tou2 fa5 hen3 chang2"),
    ],
)
def test_a_word_with_several_readings(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好", "ni2 hao3"),
        ("展览馆", "zhan2 lan2 guan3"),
        ("我很好", "wo2 hen2 hao3"),
        ("一个", "yi2 ge4"),
        ("一样", "yi2 yang4"),
        ("一天", "yi4 tian1"),
        ("一年", "yi4 nian2"),
        ("一百", "yi4 bai3"),
        ("一点儿", "yi4 dian3 er5"),
        ("一点五", "yi1 dian2 wu3"),
        ("哪儿", "na3 er5"),
        ("不会不对", "bu2 hui4 bu2 dui4"),
        ("第一", "di4 yi1"),
        ("一月一号", "yi1 yue4 yi1 hao4"),
        ("看一看", "kan4 yi5 kan4"),
        ("不是", "bu2 shi4"),
        ("不好", "bu4 hao3"),
        ("好不好", "hao3 bu5 hao3"),
        ("东西", "dong1 xi5"),
        ("东西南北", "dong1 xi1 nan2 bei3"),
        ("妈妈", "ma1 ma5"),
    ],
)
def test_tones_as_they_are_spoken(text: str, expected: str) -> None:
    assert spoken(text) == expected


def test_the_phonemes_of_each_word() -> None:
    assert phonemes("你好世界") == ["ni↗xau↓", "ʂɨ↘ʨje↘"]


def test_a_character_without_a_reading_is_omitted() -> None:
    assert not has_reading("\U000323a0")
    assert phonemes("你\U000323a0好") == ["ni↓", "xau↓"]
