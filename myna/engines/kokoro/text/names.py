"""Persons in a Mandarin text, and the readings of their surnames: 单 is dān, and Shàn as a surname.

A person is what jieba marks as one, and a surname with a title (单先生), after 姓, or with a name that is
no word.
A word of a dictionary is no name, and neither is a foreign name in Han (查尔斯).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import regex
import rjieba


def _table(rows: str) -> dict[str, str]:
    """The reading of each character: `单shan4`."""
    return {row[0]: row[1:] for row in rows.split()}


def _list(rows: str) -> tuple[str, ...]:
    return tuple(rows.split())


_SURNAMES: Final = _table(
    "单shan4 干gan1 仇qiu2 解xie4 任ren2 曾zeng1 查zha1 华hua4 区ou1 朴piao2 盖ge3 翟zhai2 缪miao4 "
    "种chong2 员yun4 乐yue4 燕yan1 应ying1 哈ha3 撒sa4 盛sheng4 秘bi4 洗xian3 召shao4 折she2 "
    "繁po2 都du1 过guo1 祭zhai4 车che1 覃qin2 阚kan4 隗wei3 牟mou2 卜bu3 相xiang4 纪ji3 句gou1 乜nie4 "
    "郇xun2 佴nai4 葛ge3 宿su4 薄bo2 占zhan1 参shen1 粘nian2 钻zuan1 莘shen1 适kuo4 於yu1 阙que4 "
    "冒mao4 肖xiao1 令ling2 观guan4 么yao1 角jiao3 尉wei4 行xing2 便bian4 谌chen2 宓mi4 晟cheng2 "
    "郄qie4 褚chu3 蕃pi2 庹tuo3 俞yu2 邰tai2 尹yin3"
)
"""Surnames whose reading differs from the usual one of the character, or from one of them."""
_GIVEN: Final = _table(
    "茜qian4 晟sheng4 珩heng2 偲si1 祎yi1 赟yun1 媛yuan4 翀chong1 嬛huan2 行xing2 为wei2 兴xing1 "
    "乐le4 华hua2 朴pu3 宁ning2 曾zeng1 传chuan2 盛sheng4 少shao4 佛fo2 莘xin1 予yu3 娜na4 炅jiong3 斐fei3 "
    "颉jie2 奭shi4 应ying4 子zi3 柏bai3"
)
"""Characters of given names that have another reading in words."""
_COMPOUND: Final = _list(
    "尉迟 万俟 长孙 令狐 鲜于 澹台 单于 宇文 诸葛 夏侯 皇甫 欧阳 上官 司马 司徒 东方 端木 公孙 慕容 "
    "濮阳 淳于 呼延 赫连 轩辕 钟离 闾丘 申屠 太史 仲孙 乐正 南宫 第五 百里 东郭 西门 拓跋 完颜 耶律 "
    "独孤 那拉 纳兰 叶赫 哈达"
)
_NOT_WORDS: Final = frozenset("区翟朴缪仇单查盖华芈员燕覃谌阚宓隗乜逄郇郄曾")
"""With one or two characters after them these are a text only as a name, unless a dictionary has the word."""
_VERBS: Final = frozenset("任解查盖干洗种折应召祭相占参冒令")
"""A title after one of these may be its object (查老师的电话), and jieba takes it for a surname too often."""
_NICKNAMED: Final = frozenset("单仇解任曾查朴盖翟缪覃阚隗谌")
_NICKNAMES: Final = frozenset(before + name for before in "小老" for name in _NICKNAMED)
"""Surnames after 小 or 老, if nothing or a pronoun or verb follows: 小单，, 老任说."""
_AFTER_NICKNAME: Final = regex.compile("$|[你我他说吃喝走看跟和在来去是的也又今明昨最怎有没不快别请让]")
_KINDRED: Final = frozenset("干洗应折")
"""These with 哥, 工 or 总 alone are words: 干哥, 应工."""
_WEAK: Final = frozenset("都过行便么哈撒")
"""Surnames only with 先生 and the like: 都先生."""
_TITLES: Final = _list(
    "总经理 董事长 工程师 检察官 老先生 老师傅 先生 女士 小姐 太太 夫人 老师 老板 经理 总监 总裁 主任 "
    "医生 大夫 教授 博士 同学 同志 师傅 律师 警官 队长 部长 局长 处长 科长 校长 院长 书记 市长 县长 "
    "省长 镇长 村长 厂长 董事 主席 总统 总理 教练 将军 司令 护士 导演 记者 编辑 法官 会计 大爷 大妈 "
    "大娘 大叔 大婶 阿姨 叔叔 伯伯 大哥 大姐 爷爷 奶奶 少爷 公子 姑娘 大侠 院士 助理 秘书 掌柜 某某 "
    "家庄 家村 家屯 家湾 家沟 家寨 家堡 家岩 家集 家营 家坝 家坪 家岭 家桥 家巷 家窑 家店 家洼 家塘 家坡 "
    "家军 父 母 某 氏 总 工 董 哥 姐 叔 姨 嫂"
)
"""The longest first."""
_POLITE: Final = ("先生", "女士", "小姐", "太太", "夫人")
_INTRODUCED_BY: Final = _list(
    "和 跟 与 同 及 请 是 叫 找 问 给 对 向 让 派 由 见 陪 的 位 名 有 当 听 像 比 替 被 把 到 从 说 "
    "天 老师 同事 朋友 客户 邻居 谢 迎 认识 采访 介绍 联系 通知 告诉 演员 作家 导演 歌手 教练 队长 "
    "总统 主席 诗人 画家 皇帝 将军 院士 记者 律师 医生 选手 球员 老板 同学 徒弟 学生 "
    "人 手 官 主任 经理 教授 博士 校长 院长 书记 队员 专家 学者 作者 编剧 司机 冠军 名将 烈士 村民 市民 网友 "
    "影帝 影后 女士 男子 女子 青年 少年"
)
"""A text up to a name ends in one of these, or the name is its begin."""
_JOINED: Final = regex.compile(".?[请和跟找问叫对与给向见陪让从](?=.)")
_SAYING: Final = ("是", "说", "表示", "认为", "告诉", "出生", "毕业", "今年")
_FOREIGN: Final = regex.compile("[尔斯克特德拉里莱姆蒂普托韦顿伊茨曼森娅亚塔勒洛菲理莎洲弗格埃赫汀昂巴盾]")
"""Characters of foreign names in Han."""
_ORDINARY: Final = regex.compile("[一二三四五六七八九十上下了着过个来去出完好到不的在有你我他她它这那]")
"""Characters that are in no given name, or rarely."""
_NOT_NAMES: Final = _list(
    "哈希 仇富 仇未 仇必 盖楼 任劳 曾用 单双 单项 单兵 任天堂 任意球 任满 查验 查岗 查房 华为 华硕 "
    "华纳 华润 华氏 华容 华亭 华阳 华侨 华夏 单飞 单宁 单子 单一 单比 解密 解药 解衣 盖子 盖儿 盖章 "
    "盖碗 盖天 薄荷 薄冰 薄礼 薄情 薄幸 燕窝 占领 占星 折冲 折桂 折寿 折戟 乐高 乐陵 乐平 乐寿 乐安 "
    "费米 宁远 盛唐 盛夏 盛世 盛怒 令尊 令堂 令郎 占婆 相国 相士 种仁 宿营 宿疾 宿醉 应天 应景 应考 "
    "盖伦 盖伊 盖尔 盖亚 盖洛 盖特 盖茨 盖世 查理 查尔 查拉 查维 查韦 查特 查干 单亲 单反 "
    "单车 任务 任命 燕儿 燕麦 葛粉 葛藤 葛布 车驾"
)
"""What words begin with that jieba takes for names."""

Known = Callable[[str], bool]
"""Whether a dictionary of readings has the word."""


class Token(msgspec.Struct, frozen=True):
    """A word of jieba, its part of speech (`nr` for a person), and whether jieba's dictionary has it."""

    text: str
    kind: str
    listed: bool


def name_readings(tokens: Sequence[Token], known: Known) -> dict[int, str]:
    """The readings of characters in the names of persons, by their place in the text."""
    text = "".join(token.text for token in tokens)
    tokens = [part for token in tokens for part in _apart(token)]
    if _only_a_name(text, tokens, known):
        return {**_given(text, 0, known), **_surname(text, 0)}
    found: dict[int, str] = {}
    begin = 0
    for at, token in enumerate(tokens):
        if _is_name(tokens, at, text[:begin], known):
            found |= {**_given(token.text, begin, known), **_surname(text, begin)}
        elif _before_name(tokens, at, text[:begin], known):
            found |= _surname(text, begin)
        for place, character in enumerate(token.text, begin):
            within = place > begin + (token.text[:2] in _NICKNAMES) and (token.listed or known(token.text))
            alone = len(token.text) == 1 or not token.listed
            if character in _SURNAMES and not within and _has_title(text, place, alone):
                found |= _surname(text, place)
        begin += len(token.text)
    return found


def _apart(token: Token) -> Iterator[Token]:
    """jieba joins a name and a word before it that introduces it: 请仇英."""
    joined = None if token.listed else _JOINED.match(token.text)
    if joined and token.text[joined.end()] in _SURNAMES:
        yield Token(joined[0], "v", True)
        yield Token(token.text[joined.end() :], token.kind, False)
    else:
        yield token


def _surname(text: str, at: int) -> dict[int, str]:
    if text[at] not in _SURNAMES or text[at : at + 2] in _COMPOUND:
        return {}
    return {at: _SURNAMES[text[at]]}


def _given(name: str, begin: int, known: Known) -> dict[int, str]:
    if known(name[1:]):
        return {}
    first = 2 if name[:2] in _COMPOUND else 1
    return {begin + at: _GIVEN[name[at]] for at in range(first, len(name)) if name[at] in _GIVEN}


def _only_a_name(text: str, tokens: Sequence[Token], known: Known) -> bool:
    """Whether a text of two or three characters is a name (区楚良), not a word or a verb with its object."""
    if (
        len(text) not in (2, 3)
        or text[0] not in _NOT_WORDS | set("任解盖召")
        or text.startswith(_NOT_NAMES)
        or _FOREIGN.search(text)
    ):
        return False
    if known(text) or known(text[1:]) or _ORDINARY.search(text[1:]) or text[1:] in _TITLES:
        return False
    if text[0] in _VERBS and (len(text) < 3 or rjieba.has_word(text[1:])):
        return False
    whole = tokens[0]
    return not whole.listed or whole.kind.startswith("nr") if len(tokens) == 1 else tokens[1].kind != "v"


def _is_name(tokens: Sequence[Token], at: int, before: str, known: Known) -> bool:
    """Whether the word is a surname and a given name, unlike 严重者 and 占领区, which begin in a word."""
    word, kind = tokens[at].text, tokens[at].kind
    if not kind.startswith("nr") or not 2 <= len(word) <= 4 or word.startswith(_NOT_NAMES):
        return False
    if known(word) or _FOREIGN.search(word) or word[0] in _WEAK:
        return False
    if len(word) > 2 and known(word[:2]) and word[:2] not in _COMPOUND:
        return False
    introduced = not before or before.endswith(_INTRODUCED_BY)
    if word[0] not in _VERBS:
        return not known(word[1:]) or word[0] in _NOT_WORDS or introduced
    if known(word[1:]) or _ORDINARY.search(word[1:]):
        return False
    longer = len(word) > 2
    named = not longer or not rjieba.has_word(word[1:]) or (word[0] == "任" and tokens[at].listed)
    return before.endswith(_INTRODUCED_BY) or (named and (longer or introduced))


def _before_name(tokens: Sequence[Token], at: int, before: str, known: Known) -> bool:
    """Whether the word is a surname after 姓, or before a given name that jieba has cut off."""
    word = tokens[at].text
    if len(word) > 1 or word in _WEAK or word not in _SURNAMES:
        return False
    if before.endswith("姓"):
        return True
    if at + 1 == len(tokens) or known(word + tokens[at + 1].text):
        return False
    name, after = tokens[at + 1], "".join(token.text for token in tokens[at + 2 :])
    if len(name.text) > 2 or _FOREIGN.search(name.text) or name.text in _TITLES:
        return False
    introduced = not before or before.endswith(_INTRODUCED_BY)
    if name.kind.startswith("nr"):
        return word not in _VERBS or introduced
    if not introduced or word not in _NOT_WORDS - _VERBS or known(name.text):
        return False
    return after.startswith(_SAYING) or (len(name.text) == 2 and not name.listed)


def _has_title(text: str, at: int, alone: bool) -> bool:
    """Whether a surname has a title after it: 单先生, 解老师, 盖某."""
    after, before = text[at + 1 :], text[:at]
    if before.endswith("姓") or text[at : at + 2] in ("华氏", "相公") or after.startswith("先生气"):
        return before.endswith("姓")
    if text[at] in _NICKNAMED and before[-1:] in ("小", "老") and _AFTER_NICKNAME.match(after):
        return not before[:-1] or before[:-1].endswith(_INTRODUCED_BY)
    introduced = not before or before.endswith(_INTRODUCED_BY)
    if text[at] in _WEAK:
        return introduced and after.startswith(_POLITE)
    title = next((title for title in _TITLES if after.startswith(title)), "")
    if len(title) < 2:
        return bool(title) and alone and not after[1:] and not before and text[at] not in _KINDRED
    return (
        title[0] == "家"
        or text[at] not in _VERBS
        or (introduced and not after[len(title) :].startswith("的"))
    )
