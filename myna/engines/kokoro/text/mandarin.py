"""Mandarin text in Han: its words, their readings in pinyin, their tones as they are spoken, their phonemes.

Words are found by jieba, and read by the phrases of pypinyin. A phrase may join words (还 + 书 is huán shū)
or divide one (银行行长), but never begins in one word and ends within another. Some words are read by their
neighbours, see `contexts.py`.

Tone sandhi changes the tones of a dictionary: 一 and 不 by what follows, the first of two third tones to a
second one, and the last syllable of common words to the neutral tone.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import rjieba
from pypinyin.contrib.tone_convert import to_tone3
from pypinyin.phrases_dict import phrases_dict
from pypinyin.pinyin_dict import pinyin_dict

from myna.engines.kokoro.symbols import is_syllable, symbols_of
from myna.engines.kokoro.text.contexts import reading_of, reading_within, readings_in
from myna.engines.kokoro.text.names import Token, name_readings
from myna.engines.kokoro.text.readings import CHARACTERS, PHRASES, WORDS
from myna.engines.text.mandarin.traditional import simplified

NOTHING_GIVEN: Final[Mapping[int, str]] = {}
_JOINED_WORDS_MAX: Final = 3
_PHRASE_MAX: Final = 8
_PARTICLES: Final = "地得"
"""jieba has words such as 地说, whose first character belongs to the word before it."""
_RUN: Final = re.compile(
    "[\\u3007\\u3400-\\u9fff\\U00020000-\\U0003ffff]+|[^\\u3007\\u3400-\\u9fff\\U00020000-\\U0003ffff]+"
)
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


class Word(msgspec.Struct, frozen=True):
    """A word and the syllable of each of its characters, as `zhong1`; empty for one without a reading. With
    `given` the text itself says how it is read."""

    text: str
    pinyin: tuple[str, ...]
    given: bool = False


def words(text: str, given: Mapping[int, str] = NOTHING_GIVEN) -> list[Word]:
    """The words of a text in Han with their readings; traditional characters become simplified. `given` are
    the readings of some places."""
    text = simplified(text)
    return [
        word
        for run in _RUN.finditer(text)
        for word in _words_of(run[0], {at - run.start(): s for at, s in given.items()})
    ]


def _words_of(text: str, given: Mapping[int, str]) -> list[Word]:
    """The words of a run of Han alone or of other characters alone."""
    tokens = list(_divided(rjieba.tag(text)))
    texts = [token.text for token in tokens]
    decided = {**name_readings(tokens, _is_known), **dict(readings_in(text)), **given}
    found, begin = [], 0
    for at, word in enumerate(_read(texts)):
        usual = reading_of(texts, at, word.pinyin)
        reading = tuple(decided.get(place, syllable) for place, syllable in enumerate(usual, begin))
        found.append(
            Word(word.text, reading, not given.keys().isdisjoint(range(begin, begin + len(reading))))
        )
        begin += len(word.text)
    return found


def has_reading(character: str) -> bool:
    """Whether a Han character can be spoken."""
    return bool(_syllable(character))


def _is_known(word: str) -> bool:
    return word in WORDS or word in PHRASES or word in phrases_dict


def _divided(found: Sequence[tuple[str, str]]) -> Iterator[Token]:
    for word, kind in found:
        if len(word) == 2 and word[0] in _PARTICLES and not _is_known(word):
            yield Token(word[0], "u", True)
            yield Token(word[1], kind, True)
        else:
            yield Token(word, kind, rjieba.has_word(word))


def _read(found: Sequence[str]) -> Iterator[Word]:
    at = 0
    while at < len(found):
        for count in range(min(_JOINED_WORDS_MAX, len(found) - at), 0, -1):
            reading = _phrase("".join(found[at : at + count]))
            if reading:
                yield from _shared_out(found[at : at + count], reading)
                at += count
                break
        else:
            yield Word(found[at], tuple(_by_phrases(found[at])))
            at += 1


def _shared_out(found: Sequence[str], reading: Sequence[str]) -> Iterator[Word]:
    begin = 0
    for word in found:
        yield Word(word, tuple(reading[begin : begin + len(word)]))
        begin += len(word)


def _by_phrases(word: str, longest: int = _PHRASE_MAX) -> Iterator[str]:
    """The reading of a word by its longest phrases from the left, none of more than `longest` characters."""
    at = 0
    while at < len(word):
        within = reading_within(word, at)
        if within:
            yield within
            at += 1
            continue
        for end in range(min(len(word), at + longest), at + 1, -1):
            reading = _phrase(word[at:end])
            if reading:
                yield from reading
                at = end
                break
        else:
            yield _syllable(word[at])
            at += 1


@functools.lru_cache(maxsize=8192)
def _phrase(text: str) -> tuple[str, ...] | None:
    """The reading of a phrase of two characters or more, None if there is none."""
    if text in PHRASES:
        return tuple(PHRASES[text].split())
    special = WORDS.get(text)
    if special:
        usual = _dictionary(text) or tuple(_by_phrases(text, len(text) - 1))
        return tuple(special.get(character, one) for character, one in zip(text, usual, strict=True))
    return _dictionary(text)


def _dictionary(text: str) -> tuple[str, ...] | None:
    """The reading of a phrase by pypinyin."""
    if text not in phrases_dict:
        return None
    found = tuple(_toned(readings[0]) for readings in phrases_dict[text])
    return found if len(found) == len(text) and all(found) else None


@functools.lru_cache(maxsize=8192)
def _syllable(character: str) -> str:
    """The usual reading of a character, empty if it has none."""
    return CHARACTERS.get(character) or _toned(pinyin_dict.get(ord(character), "").split(",")[0])


def _toned(marked: str) -> str:
    """`zhong1` for `zhōng`; empty if the model has no such syllable."""
    syllable = to_tone3(marked, neutral_tone_with_five=True) if marked else ""
    return syllable if is_syllable(syllable) else ""


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
        return (*word.pinyin[:-1], word.pinyin[-1][:-1] + "5")
    return word.pinyin


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
            changed[at] = changed[at][:-1] + "2"
    return changed


def phonemes(text: str, given: Mapping[int, str] = NOTHING_GIVEN) -> Iterator[tuple[int, str]]:
    """The place of each word of a text in Han and its phonemes, with readings that are `given` at some
    places. Characters without a reading are omitted."""
    at = 0
    for word in spoken_tones(words(text, given)):
        if sound := "".join(symbols_of(syllable) for syllable in word.pinyin if syllable):
            yield at, sound
        at += len(word.text)
