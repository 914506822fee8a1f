"""The symbols of Mandarin and English words, and characters with several readings."""

from pathlib import Path

import pytest

from myna.engines.kokoro.symbols import is_syllable, symbols_of
from myna.engines.kokoro.text.mandarin import has_reading, phonemes, spoken_tones, words


def cases(rows: str) -> list[list[str]]:
    """Texts and what is expected of each: `text expected, text expected`."""
    return [row.strip().split(" ", 1) for row in rows.replace("\n", " ").split(",")]


def read(text: str) -> str:
    return " ".join(syllable for word in words(text) for syllable in word.pinyin)


SYLLABLES = """
zhong1 ꭧʊ→ŋ, hao3 xau↓, lv4 ly↘, nve4 nɥe↘, xue2 ɕɥe↗, yuan2 ɥɛ↗n, qu4 ʨʰy↘, shi4 ʂɨ↘, er2 ɚ↗,
yong3 jʊ↓ŋ, wen2 wə↗n, sun1 swə→n, jun1 ʨy→n, liu2 ljou↗, gui4 kwei↘, bo1 pwo→, de5 tɤ, ng2 ŋ↗, o2 ɔ↗
"""


@pytest.mark.parametrize(("syllable", "expected"), cases(SYLLABLES))
def test_a_syllable_in_symbols_of_the_model(syllable: str, expected: str) -> None:
    assert symbols_of(syllable) == expected


@pytest.mark.parametrize("pinyin", ["", "5", "a", "xyz1", "q5", "zhong6", "ha ha1"])
def test_pinyin_that_is_no_syllable(pinyin: str) -> None:
    assert not is_syllable(pinyin)
    with pytest.raises(ValueError, match="not a syllable"):
        symbols_of(pinyin)


READINGS = """
银行行长长大了 yin2 hang2 hang2 zhang3 zhang3 da4 le5,
重庆的重新开始 chong2 qing4 de5 chong2 xin1 kai1 shi3, 他还没还书 ta1 hai2 mei2 huan2 shu1,
还钱给我 huan2 qian2 gei3 wo3, 还有 hai2 you3, 我得走了 wo3 dei3 zou3 le5,
他得了第一名 ta1 de2 le5 di4 yi1 ming2, 觉得 jue2 de5, 高兴地说 gao1 xing4 de5 shuo1, 土地 tu3 di4,
睡着了 shui4 zhao2 le5, 音乐很快乐 yin1 yue4 hen3 kuai4 le4,
朝阳区的朝阳 chao2 yang2 qu1 de5 zhao1 yang2, 参差不齐 cen1 ci1 bu4 qi2, 参加 can1 jia1, 单于 chan2 yu2,
简单 jian3 dan1, 都市里都有 du1 shi4 li3 dou1 you3, 这只狗只有 zhe4 zhi1 gou3 zhi3 you3,
会计会开会 kuai4 ji4 hui4 kai1 hui4, 数一数 shu3 yi1 shu3, 跑得快 pao3 de5 kuai4,
受得了 shou4 de5 liao3, 吃不了 chi1 bu4 liao3, 他长得高 ta1 zhang3 de5 gao1, 看得着 kan4 de5 zhao2,
分为第七行 fen1 wei2 di4 qi1 hang2, 教我们写教案 jiao1 wo3 men5 xie3 jiao4 an4,
调整空调 tiao2 zheng3 kong1 tiao2, 一会儿的花儿 yi1 hui4 er5 de5 hua1 er5,
女儿和婴儿 nv3 er2 he2 ying1 er2, 銀行還沒發覺 yin2 hang2 hai2 mei2 fa1 jue2,
跑得快，得了第一 pao3 de5 kuai4  de2 le5 di4 yi1,
長大後的樂趣 zhang3 da4 hou4 de5 le4 qu4, 长头发很长 chang2 tou2 fa5 hen3 chang2
"""


@pytest.mark.parametrize(("text", "expected"), cases(READINGS))
def test_a_word_with_several_readings(text: str, expected: str) -> None:
    assert read(text) == expected


TONES = """
你好 ni2 hao3, 展览馆 zhan2 lan2 guan3, 我很好 wo2 hen2 hao3, 一个 yi2 ge4, 一样 yi2 yang4,
一天 yi4 tian1, 一年 yi4 nian2, 一百 yi4 bai3, 一点儿 yi4 dian3 er5, 一点五 yi1 dian2 wu3, 哪儿 na3 er5,
不会不对 bu2 hui4 bu2 dui4, 第一 di4 yi1, 一月一号 yi1 yue4 yi1 hao4, 看一看 kan4 yi5 kan4,
不是 bu2 shi4, 不好 bu4 hao3, 好不好 hao3 bu5 hao3, 东西 dong1 xi5, 东西南北 dong1 xi1 nan2 bei3,
妈妈 ma1 ma5
"""


@pytest.mark.parametrize(("text", "expected"), cases(TONES))
def test_tones_as_they_are_spoken(text: str, expected: str) -> None:
    assert " ".join(one for word in spoken_tones(words(text)) for one in word.pinyin) == expected


def test_the_phonemes_of_each_word() -> None:
    assert list(phonemes("你好世界")) == [(0, "ni↗xau↓"), (2, "ʂɨ↘ʨje↘")]


def test_a_character_without_a_reading_is_omitted() -> None:
    assert not has_reading("\U000323a0")
    assert list(phonemes("你\U000323a0好")) == [(0, "ni↓"), (2, "xau↓")]


WORDS = Path(__file__).with_name("polyphones.txt").read_text(encoding="utf-8")
NEIGHBOURS = """
弹 tan2 他会弹尤克里里
切 qie4 帮我切几片 一切成果 qie1 洋葱切末 切好的 把土豆切成丝 把洋葱切碎
系 ji4 系好安全带 xi4 联系上
行 hang2 第七行写着几行字 第三行三名 xing2 一行人走了 一行五人
为 wei2 任命她为校长 化悲痛为力量 wei4 为人民服务
长 zhang3 孩子长不高 chang2 头发很长了
中 zhong1 看中国队比赛 传说中的 发言中 zhong4 他猜中了
只 zhi3 这只是开始 zhi1 几百只羊
得 de5 家里得有人 de2 诺贝尔奖得主 dei3 你得赶快去 de2 他得到了奖
地 de5 快快乐乐地回家 di4 天天地铁上班
种 zhong4 院子里种了两棵树和一些花 弟弟种的花 zhong3 种种 这两种 zhong4 他种了三棵 zhong3 这种花很香
教 jiao1 教我唱歌 jiao4 佛教我不懂
重 chong2 重启电脑 断线重连 zhong4 差不多重 体重来自肌肉
着 zhao2 怎么也找不着 找不着急
应 ying4 应老师的邀请
还 huan2 他还了书 明天要不要还车 hai2 还有
当 dang4 把她当亲人 dang1 当时
量 liang2 量出来
处 chu3 我们处得不错
卷 juan4 第三卷 上卷 juan3 卷起
燕 yan1 封于燕 yan4 燕子
子 zi3 章子怡 zi5 房子
炸 zha2 炸薯条 zha4 炸药
空 kong1 空着手 kong4 座位空着
干 gan1 沥干水分 擦干后 gan4 干活 实干果断 骨干货车司机
调 tiao2 调至小火 调至最小 调到中火 diao4 调至北京 色调到 他被调到小学教书 调至中央
盛 cheng2 关火盛盘 sheng4 盛大
倒 dao4 倒在碗里 dao3 倒在地上 倒在盘山公路上
结 jie1 树上结满果实 jie2 结了婚
石 dan4 三石米
校 jiao4 在校对稿子 xiao4 学校对学生 在校对面
转 zhuan4 转了三圈 zhuan3 转身
圈 juan4 猪圈在家门口 juan1 把羊圈起来 把猪圈起来 马圈起来养
"""
PERSONS = """
单 shan4 单先生
区 ou1 请区女士上台
解 xie4 我跟解老师约好了
任 ren2 任总 昨天任正非来了
仇 qiu2 我姓仇 仇和
曾 zeng1 曾国藩家书
盖 ge3 盖叫天
朴 piao2 朴槿惠
华 hua4 华晨宇
尉 yu4 尉迟敬德
长 zhang3 长孙无忌
万 mo4 万俟卨
行 xing2 任我行
查 zha1 湖边住着查建英 cha2 查户口
任 ren2 公诉人任静宣读 任家庄 老任说 任建新说
缪 miao4 从缪双大说起
曾 zeng1 院长曾先国的画册
相 xiang4 蔺相如
"""
"""With a title; a surname and a given name; names that jieba cuts; compound surnames."""
NO_PERSONS = """
单 dan1 名单上有女士
区 qu1 小区老师很多 市区女士免费
查 cha2 查老师的电话 查尔斯王子
盖 gai4 盖房子
任 ren4 任天堂 主任老师任教 他曾任经理
都 dou1 都先生气了
员 yuan2 员工
华 hua2 华盛顿
燕 yan4 燕子飞了
朴 pu3 朴素大方
"""
"""Surnames that are parts of words."""


def syllables_of(character: str, text: str) -> set[str]:
    return {one for place, one in zip(text, read(text).split(), strict=True) if place == character}


@pytest.mark.parametrize(
    "rows", [WORDS, NEIGHBOURS, PERSONS, NO_PERSONS], ids=["words", "neighbours", "persons", "no persons"]
)
def test_a_character_with_several_readings(rows: str) -> None:
    """Each row is a character, and its readings with the texts in which it has them."""
    wrong = []
    for row in rows.strip().splitlines():
        character, *listed = row.split()
        for entry in listed:
            if entry.isascii():
                expected = entry
            elif syllables_of(character, entry) != {expected}:
                wrong.append((entry, expected))
    assert wrong == []


ALONE = """
颇 po1, 佛 fo2, 甸 dian4, 囤 tun2, 拽 zhuai4, 撩 liao1, 嚼 jiao2, 杠 gang4, 吁 yu4, 似 si4, 茄 qie2,
踉 liang4, 看著 kan4 zhe5, 鲁迅著 lu3 xun4 zhu4, 鲁迅著，我 lu3 xun4 zhu4  wo3,
他走著去 ta1 zou3 zhe5 qu4, 著名 zhu4 ming2,
乾杯 gan1 bei1, 乾隆 qian2 long2, 閤家 he2 jia1, 復習 fu4 xi2, 瞭解 liao3 jie3, 準備 zhun3 bei4
"""


@pytest.mark.parametrize(("text", "expected"), cases(ALONE))
def test_a_character_alone_and_traditional_ones(text: str, expected: str) -> None:
    assert read(text) == expected
