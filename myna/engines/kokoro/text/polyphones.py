"""Single characters that are words, read by the words before and after them."""

import re
from collections.abc import Sequence
from typing import Final

_PERSONS: Final = frozenset(
    ("我", "你", "他", "她", "它", "您", "我们", "你们", "他们", "她们", "咱们", "大家", "咱", "谁", "自己")
)
_DE_MUST_AFTER: Final = _PERSONS | frozenset(
    ("都", "也", "还", "就", "可", "总", "又", "必", "非", "才", "只", "一定", "今天", "明天", "现在", "马上")
)
_COUNTING: Final = re.compile(r"[一二三四五六七八九十百千万亿两几半每这那哪第零〇0-9]$")
_WEI_BECOMES: Final = re.compile(r"[作成称定视变分化换改誉评选任列转]$")
_GROWING: Final = ("得", "着", "出", "大", "高", "胖", "满", "在")
_CHILDREN: Final = "女婴幼孤胎健宠生娃男"
"""儿 is a word after these, not the ending of erhua."""
_AFTER_ERHUA: Final = "的了吗呢吧"
_LE_ABLE: Final = re.compile(r"[不得]$")
_HUAN_AFTER: Final = frozenset(
    ("要", "已经", "没", "没有", "去", "来", "得", "该", "快", "尽快", "再", "按时", "必须", "一定", "记得")
)
_HUAN_BEFORE: Final = re.compile(
    r"^(?:[书钱款债账清给回本完掉]|人情|贷款|房贷|车贷|信用卡|这|那|一本|这本|那本|东西|图书|几本)"
)


def reading_of(words: Sequence[str], at: int, pinyin: tuple[str, ...]) -> tuple[str, ...]:
    """The reading of the word at `at`: where its neighbours decide by them, else `pinyin`."""
    word = words[at]
    before = words[at - 1] if at else ""
    after = words[at + 1] if at + 1 < len(words) else ""
    if word in _RULES:
        return (_RULES[word](before, after),)
    if word.endswith("长") and after.startswith(_GROWING):
        return (*pinyin[:-1], "zhang3")
    return pinyin


def reading_within(word: str, at: int) -> str | None:
    """The reading of a character within a word that is in no dictionary, where its neighbours decide."""
    if not at:
        return None
    character, before, after = word[at], word[at - 1], word[at + 1 :]
    if character == "得":
        return "de5"
    if character == "了" and before in "得不":
        return "liao3"
    if character == "行" and not after and _COUNTING.search(before):
        return "hang2"
    if character == "儿" and before not in _CHILDREN and (not after or after in _AFTER_ERHUA):
        return "er5"
    return None


def _de(before: str, after: str) -> str:
    """得: dé 'gets' before 了, 过 and the end; děi 'must' after a person; else the particle de."""
    if not before or (before in _PERSONS and after in ("", "了", "过", "到")):
        return "de2"
    if before in _DE_MUST_AFTER:
        return "de2" if after in ("了", "过", "到") else "dei3"
    return "de5"


def _di(before: str, after: str) -> str:
    """地: the particle de between an adverb and a verb, else dì."""
    return "de5" if len(before) >= 2 and after else "di4"


def _zhi(before: str, _after: str) -> str:
    """只: the counter zhī after a number, else zhǐ 'only'."""
    return "zhi1" if _COUNTING.search(before) else "zhi3"


def _hang(before: str, _after: str) -> str:
    """行: háng 'line' after a number, else xíng."""
    return "hang2" if _COUNTING.search(before) else "xing2"


def _wei(before: str, after: str) -> str:
    """为: wéi 'as' after a verb and at the end, else wèi 'for'."""
    return "wei2" if _WEI_BECOMES.search(before) or not after else "wei4"


def _liao(before: str, _after: str) -> str:
    """了: liǎo in 吃得了 and 吃不了, else the particle le."""
    return "liao3" if len(before) >= 2 and _LE_ABLE.search(before) else "le5"


def _huan(before: str, after: str) -> str:
    """还: huán 'return' before its object, else hái 'still'."""
    if _HUAN_BEFORE.search(after) and (before in _HUAN_AFTER or not after.startswith(("这", "那"))):
        return "huan2"
    return "hai2"


def _zhe(before: str, after: str) -> str:
    """着: zháo in 看得着 and 睡不着, else the particle zhe after a verb."""
    return "zhao2" if not before or _LE_ABLE.search(before) else "zhe5"


def _jiao(_before: str, _after: str) -> str:
    """教: the verb jiāo."""
    return "jiao1"


def _zhong(_before: str, after: str) -> str:
    """重: chóng 'again' before a verb, else zhòng."""
    return (
        "chong2" if after in ("来", "看", "说", "走", "发", "读", "学", "开", "跑", "排", "选") else "zhong4"
    )


_RULES: Final = {
    "得": _de,
    "地": _di,
    "只": _zhi,
    "行": _hang,
    "为": _wei,
    "了": _liao,
    "还": _huan,
    "着": _zhe,
    "重": _zhong,
    "教": _jiao,
}
