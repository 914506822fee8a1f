"""Readings that pypinyin lacks or has wrong, and characters that are read by their neighbours."""

import re
from collections.abc import Sequence
from typing import Final

PHRASES: Final = {
    "长": "chang2",
    "一名": "yi1 ming2",
    "第一名": "di4 yi1 ming2",
    "数一数": "shu3 yi1 shu3",
    "数数": "shu3 shu4",
    "数了": "shu3 le5",
    "重写": "chong2 xie3",
    "重做": "chong2 zuo4",
    "重启": "chong2 qi3",
    "重置": "chong2 zhi4",
    "重试": "chong2 shi4",
    "重装": "chong2 zhuang1",
    "重组": "chong2 zu3",
    "重庆市": "chong2 qing4 shi4",
    "行长": "hang2 zhang3",
    "银行行长": "yin2 hang2 hang2 zhang3",
    "长得": "zhang3 de5",
    "长着": "zhang3 zhe5",
    "长出": "zhang3 chu1",
    "长高": "zhang3 gao1",
    "长胖": "zhang3 pang4",
    "长满": "zhang3 man3",
    "长成": "zhang3 cheng2",
    "长在": "zhang3 zai4",
    "长头发": "chang2 tou2 fa5",
    "喝着": "he1 zhe5",
    "只有": "zhi3 you3",
    "校长": "xiao4 zhang3",
    "调一下": "tiao2 yi2 xia4",
    "调小": "tiao2 xiao3",
    "调大": "tiao2 da4",
    "调低": "tiao2 di1",
    "调高": "tiao2 gao1",
    "调整": "tiao2 zheng3",
    "调节": "tiao2 jie2",
    "调试": "tiao2 shi4",
    "调解": "tiao2 jie3",
    "调料": "tiao2 liao4",
    "调味": "tiao2 wei4",
    "调皮": "tiao2 pi2",
    "调侃": "tiao2 kan3",
    "调和": "tiao2 he2",
    "调制": "tiao2 zhi4",
    "调休": "tiao2 xiu1",
    "调理": "tiao2 li3",
    "调养": "tiao2 yang3",
    "微调": "wei1 tiao2",
    "上调": "shang4 tiao2",
    "下调": "xia4 tiao2",
    "量体温": "liang2 ti3 wen1",
    "倒在": "dao3 zai4",
    "倒闭": "dao3 bi4",
    "干活": "gan4 huo2",
    "干净": "gan1 jing4",
    "空着": "kong4 zhe5",
    "似的": "shi4 de5",
    "相片": "xiang4 pian4",
    "流血": "liu2 xue4",
    "血液": "xue4 ye4",
    "给我": "gei3 wo3",
    "还是": "hai2 shi4",
}
"""Overrides of pypinyin, by phrase or character."""

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
