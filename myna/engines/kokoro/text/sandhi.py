"""Tone sandhi of Mandarin: the tones as they are spoken, from the tones of a dictionary.

一 and 不 by what follows, the first of two third tones as a second, and the neutral tone of common words.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from myna.engines.kokoro.text.syllables import symbols
from myna.engines.kokoro.text.words import NOTHING_GIVEN, Word, words

_DIGITS: Final = frozenset("零〇一二三四五六七八九幺十百")
# 一 keeps its tone after these: 第一, 星期一, 统一战线.
_FIRST_AFTER: Final = frozenset("第期周统唯万之初归合专单划如逐惟")
# A number that orders rather than counts, or in a sum: 一月, 一号楼, 一级, 一加一.
_ORDERED: Final = frozenset("月号日楼班级等加减乘除")
_NEUTRAL_WORDS: Final = (
    "这儿 那儿 哪儿 相声 "
    "东西 妈妈 爸爸 哥哥 姐姐 弟弟 妹妹 爷爷 奶奶 叔叔 太太 先生 时候 朋友 漂亮 喜欢 告诉 知道 明白 认识 "
    "意思 衣服 便宜 头发 眼睛 耳朵 月亮 消息 事情 地方 晚上 早上 行李 名字 学生 客气 舒服 麻烦 清楚 热闹 "
    "暖和 凉快 干净 聪明 老实 厉害 结实 打听 打算 商量 休息 招呼 收拾 关系 生意 买卖 窗户 嘴巴 鼻子 豆腐 "
    "萝卜 葡萄 石榴 骆驼 蘑菇 月饼 点心 馒头 石头 木头 骨头 枕头 舌头 丫头 罐头 念头 苦头 甜头 护士 大夫 "
    "师傅 徒弟 丈夫 亲戚 邻居 姑娘 儿子 孩子 我们 你们 他们 她们 咱们 人们 什么 怎么 那么 这么 多么 "
    "为什么 觉得 记得 晓得 懂得 值得 省得 看见 部分 力气 精神 脾气 福气 运气 态度 机灵 糊涂 马虎 唠叨 "
    "啰嗦 疙瘩 指甲 胳膊 屁股 尾巴 苍蝇 狐狸 畜生 庄稼 粮食 烧饼 包袱 扫帚 钥匙 玻璃 牌楼 胡同 云彩 闺女 "
    "媳妇 婆婆 公公 舅舅 姥姥 宝宝 星星 猩猩 谢谢 看看 听听 说说 想想 试试 走走 等等 尝尝 问问 聊聊"
)
_NEUTRAL: Final = frozenset(_NEUTRAL_WORDS.split())
"""Words whose last syllable has the neutral tone, which the dictionary gives its full tone."""


def spoken_tones(words: Sequence[Word]) -> list[Word]:
    """The words with the tones in which they are spoken, one after another without a pause."""
    text = "".join(word.text for word in words)
    tones = [syllable for word in words for syllable in _weakened(word)]
    given = [word.given for word in words for _ in word.pinyin]
    tones = _third(words, _one_and_not(text, tones, given))
    spoken, begin = [], 0
    for word in words:
        spoken.append(Word(word.text, tuple(tones[begin : begin + len(word.text)])))
        begin += len(word.text)
    return spoken


def _weakened(word: Word) -> tuple[str, ...]:
    if word.text in _NEUTRAL and not word.given:
        return (*word.pinyin[:-1], _with_tone(word.pinyin[-1], "5"))
    return word.pinyin


def _with_tone(syllable: str, tone: str) -> str:
    return syllable[:-1] + tone


def _one_and_not(text: str, syllables: list[str], given: Sequence[bool]) -> list[str]:
    changed = list(syllables)
    for at in range(len(text) - 1, -1, -1):
        before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
        if after == "点" and text[at + 2 : at + 3] in _DIGITS:
            after = "零"  # a decimal
        following = changed[at + 1][-1:] if after else ""
        if given[at]:
            continue
        if text[at] == "一":
            changed[at] = "yi" + _tone_of_one(before, after, following)
        elif text[at] == "不" and changed[at]:
            changed[at] = "bu" + ("5" if before and before == after else "2" if following == "4" else "4")
    return changed


def _tone_of_one(before: str, after: str, following: str) -> str:
    if not after or before in _FIRST_AFTER or after in _ORDERED or before in _DIGITS:
        return "1"
    if after in _DIGITS and after not in "百":
        return "1"
    if before and before == after:
        return "5"
    return "2" if following == "4" or after == "个" else "4"


def _third(words: Sequence[Word], syllables: list[str]) -> list[str]:
    """The first of two third tones is a second one within a word, and between words of which one has one
    syllable."""
    changed = list(syllables)
    ends, end = set(), 0
    for word, following in itertools.pairwise(words):
        end += len(word.text)
        if len(word.text) > 1 and len(following.text) > 1:
            ends.add(end - 1)
    for at in range(len(changed) - 2, -1, -1):
        pair = changed[at][-1:] == "3" and syllables[at + 1][-1:] == "3"
        if pair and at not in ends and changed[at + 1][-1:] in "23":
            changed[at] = _with_tone(changed[at], "2")
    return changed


def phonemes(text: str, given: Mapping[int, str] = NOTHING_GIVEN) -> Iterator[tuple[int, str]]:
    """The place of each word of a text in Han and its phonemes, with readings that are `given` at some
    places. Characters without a reading are omitted."""
    at = 0
    for word in spoken_tones(words(text, given)):
        if sound := _sounds(word):
            yield at, sound
        at += len(word.text)


def _sounds(word: Word) -> str:
    return "".join(symbols(syllable) for syllable in word.pinyin if syllable)
