"""Mandarin readings of amounts: money, units, shares, ranges, scores, formulas, and all that is left."""

import re
from collections.abc import Callable
from functools import partial

from myna.engines.text.mandarin.formulas import power
from myna.engines.text.mandarin.numerals import by_one, called, cardinal, number, ordinal
from myna.engines.text.mandarin.tables import (
    CODE_WORDS,
    COUNTED,
    CURRENCIES,
    CURRENCY_CODES,
    CURRENCY_NAMES,
    GREEK,
    HOTLINE_WORDS,
    HOTLINES,
    NAMED_SIGNS,
    PER,
    PRICED,
    SCORED,
    TWO_NAMES,
    TWO_UNITS,
    UNIT,
    UNITS,
)
from myna.engines.text.rule import (
    GREEK_ALONE,
    NUM,
    SIGNED,
    SPACED_TO,
    SPELLINGS,
    SUPERSCRIPTS,
    THOUSANDS,
    TO,
    Rule,
    any_of,
    rule,
    spoken,
)

_ALL_CURRENCIES = CURRENCIES | CURRENCY_CODES
_SCALES = {"k": 3, "K": 3, "M": 6, "m": 6, "B": 9, "b": 9, "bn": 9, "w": 4, "W": 4, "T": 12}


def counted(written: str) -> str:
    """A number before a unit: a lone 2 is 两, and 299.00 has no decimals."""
    written = written.removesuffix(".00")
    return "两" if written.lstrip("+-") == "2" and written[0] != "-" else number(written)


def _scaled(written: str, scale: str) -> str:
    """The number times a power of ten: `5k` as 5000, `1.5M` as 1500000."""
    whole, _, rest = written.replace(",", "").partition(".")
    zeros = _SCALES[scale]
    if len(rest) > zeros:
        return number(written)
    return cardinal(whole + rest.ljust(zeros, "0"))


def _span(read: Callable[[str], str], low: str, high: str | None) -> str:
    return f"{read(low)}到{read(high)}" if high else read(low)


def _money(match: re.Match[str]) -> str:
    sign, currency, low, high, scale, letter = match.group("sign", "cur", "low", "high", "scale", "letter")
    amount = _span(partial(_scaled, scale=letter) if letter else counted, low, high)
    return {"-": "负", "+": "正"}.get(sign, "") + amount + (scale or "") + _ALL_CURRENCIES[currency]


def _unit(match: re.Match[str]) -> str:
    low, high, unit = match.group("low", "high", "unit")
    name = UNITS[unit]
    read = number if name[0] in "KMGTPk度" or unit in ("°C", "°F") else counted
    return _span(read, low, high) + name


def _percent(match: re.Match[str]) -> str:
    low, high, of = match.group("low", "high", "of")
    name = {"%": "百分之", "‰": "千分之"}.get(of, "万分之")
    return _span(partial(_signed_share, name), low, high)


def _signed_share(of: str, written: str) -> str:
    sign = {"-": "负", "+": "正", "±": "正负"}.get(written[0], "")
    plain = written.lstrip("-+±")
    return sign + of + ("百" if plain == "100" else number(plain))


def _range(match: re.Match[str]) -> str:
    """`3-5` is a range; a falling one (`3-2`) of whole numbers is a score, and `10 - 3` neither."""
    low, high = match[1], match[2]
    rises = float(low.replace(",", "")) <= float(high.replace(",", "")) or high[0] == "-"
    if not rises and " - " in match[0]:
        return match[0]
    falls = "减" if match.string[: match.start()].endswith("满") else "比"
    joint = "到" if rises or not (low + high).isdigit() else falls
    return (number(low) if low != "2" or joint == falls else "两") + joint + high


def _fraction(match: re.Match[str]) -> str:
    """A proper fraction; `8/4=` is a division, `5/1` a date, `120/80` and `550/1400` two numbers."""
    upper, lower = match[1], match[2]
    if int(upper) < int(lower) and len(upper) < 3:
        return f"{ordinal(lower)}分之{ordinal(upper)}"
    if match.string.startswith(("等于", "约等于"), match.end()):
        return f"{cardinal(upper)}除以{cardinal(lower)}"
    if (
        1 <= int(upper) <= 12
        and 1 <= int(lower) <= 31
        and (int(lower) > 1 or match.string[match.end() :][:1])
    ):
        return f"{ordinal(upper)}月{ordinal(lower)}日"
    return f"{ordinal(upper)}、{ordinal(lower)}"


def _ratio(match: re.Match[str]) -> str:
    """`16:9` as 十六比九, `1:2:3` as 一比二比三."""
    return "比".join(_uncounted(part) for part in match.groups() if part)


def _uncounted(written: str) -> str:
    """A number or a decimal that counts nothing."""
    return ordinal(written) if written.isdigit() else number(written)


def _left(match: re.Match[str]) -> str:
    """Any other number: 0 in front is said, and so are more digits than a number has."""
    written = match[0]
    if written[0] == "0" and written.isdigit() and len(written) > 1:
        return called(written) if len(written) > 2 else by_one(written)
    return number(written)


def _sets(match: re.Match[str]) -> str:
    """Several scores, if one of them is no time and no range: `11:9、8:11`, `6-4/3-6`."""
    pairs = [pair.split(match[1]) for pair in re.findall(r"[\d:-]+", match[0])]
    around = match.string[max(0, match.start() - 6) : match.start()] + match.string[match.end() :][:8]
    scored = re.search(rf"{SCORED}|[第前首两三四次末].?局", around)
    times = match[1] == ":" and all(len(low) == 2 for _, low in pairs)
    ranges = match[1] == "-" and all(int(low) <= int(high) for low, high in pairs)
    if (times or ranges) and not scored:
        return match[0]
    scores = re.sub(r"(\d+)[:-](\d+)", lambda m: f"{ordinal(m[1])}比{ordinal(m[2])}", match[0])
    return scores.replace("/", "、")


NOTATIONS: tuple[Rule, ...] = (
    # 5 月 1 日 as 5月1日, but iPhone 15 年底 and 拨打 10010 人工.
    rule(
        rf"(?:{CODE_WORDS}|{HOTLINE_WORDS}|{HOTLINES})[：:是为 #]{{0,3}}[A-Z]{{0,3}}"
        r"\d(?:[ -]?\d){2,}(?!\d| (?:公里|[米元万个次家条件名位]))"
        rf"|(?<![\w.,])(?<![A-Za-z] )(\d[\d.,]*)(?<![.,]) (?={COUNTED}|{TWO_UNITS}|[楼号室时周])",
        lambda m: m[1] or m[0],
    ),
    rule(r"(?<![\w一-鿿])\+1(?=$|[，,。！!~])", "加一"),
    rule(r"(?<=零下)[-−](?=\d)", ""),
    rule(r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([-+]?\d{1,3})(?![\w.])", r"\1乘以10^\2"),
    rule(r"(?<=\d)#(?=[一-鿿])", "号"),
    rule(r"(?<=\d)\.(?=[xX](?![A-Za-z]))", "点"),
    rule(r"(?<=\d) : (?=\d)", ":"),
    rule("(?<=[0-9])[★☆]", "星"),
    rule(r"(?<=\d)\.00(?=(?:[美欧日港韩澳加]?元|块|英镑))", ""),
    rule("[↑▲](?=\\s?[0-9])|(?<=[0-9A-Za-z%])[↑▲]", "上升"),
    rule("[↓▼](?=\\s?[0-9])|(?<=[0-9A-Za-z%])[↓▼]", "下降"),
    rule(r"([A-Za-z])\+\+(?!\+)", r"\1 加加 "),
    rule(r"(?<=\d)!(?==\d)|(?<=[\dn])!(?=\s?[≈≠+×÷*/]|\s=|的)", "的阶乘"),
    rule(r"(?<=[A-Za-z])[(（]([+-])[)）]", lambda m: {"+": "阳性", "-": "阴性"}[m[1]]),
    rule(r"(?:华氏|摄氏)(?=[约为 ]?-?[\d.]+ ?°[CF])", ""),
    rule(r">=|=>(?=\s?[\d-])", "≥"),
    rule(r"!=|<>|=/=", "≠"),
    rule(r" ?&& ?", "且"),
    # 5 km - 10 km as 5-10 km.
    rule(rf"(\d) ?({UNIT}){SPACED_TO}(?={NUM} ?\2(?! ?[\w=]))", r"\1-"),
    *SPELLINGS,
)
AMOUNTS: tuple[Rule, ...] = (
    # 9.1×10⁻³¹kg, 3×10^8m/s.
    rule(rf"(?<=\d)(?:([{SUPERSCRIPTS}]+)|\^([-+]?\d+)) ?({UNIT})", lambda m: power(m) + UNITS[m[3]]),
    rule(r"(?<=[一-鿿])( ?)\+(?=\d+(?:\.\d+)?(?![\d.]| ?[%‰°]))", r"\1加"),
    # $5-10, A$50, $1.5亿, $100M, USD 20, 100€.
    rule(
        rf"(?P<sign>[-+]?)(?:(?P<cur>{any_of(_ALL_CURRENCIES)}))(?<![A-Za-z][A-Z]{{3}})\s?(?P<low>-?{NUM})"
        rf"(?:\s?{TO}\s?(?:{any_of(CURRENCIES)})?(?P<high>{NUM}))?(?:(?P<scale>万亿|千万|百万|[万亿])|(?P<letter>bn|[kKMmBbwWT])(?![A-Za-z]))?"
        rf"{CURRENCY_NAMES}?",
        _money,
    ),
    rule(
        rf"(?<![\w.])({NUM})(?:{TO}({NUM}))? ?({any_of(_ALL_CURRENCIES)})(?![A-Za-z])",
        lambda m: _span(counted, m[1], m[2]) + _ALL_CURRENCIES[m[3]],
    ),
    rule(r"((?:电流[^\d，。；]{0,4}|\dV ?[/×*,，、] ?)\d+(?:\.\d+)?|\d(?=A ?/ ?\d+V)) ?A(?!\w)", r"\1安"),
    rule(
        r"(?<![\w.])(\d+)h(\d+)(?:min|m)?(?:(\d+)s)?(?!\w)",
        lambda m: f"{counted(m[1])}小时{counted(m[2])}分" + (f"{number(m[3])}秒" if m[3] else "钟"),
    ),
    rule(r"(?<![\w.])(\d+)(?:min|m)(\d+)s(?!\w)", lambda m: f"{counted(m[1])}分{number(m[2])}秒"),
    # 120/80mmHg.
    rule(r"(?<![\w./])(\d{2,3})/(\d{2,3})(?= ?(?:mmHg|毫米汞柱))", lambda m: f"{ordinal(m[1])}、{m[2]}"),
    # 6'1" and 身高5'11"; a pace has two digits of seconds: 5'30", 9″98; 65"电视.
    rule(
        r"(?:((?:身高|个[头子])[^\d，。；]{0,4})(?=\d['′]1[01]\D)|(?<![\d'′])(?=\d['′]\d\D))(\d)['′](\d\d?)[″\"]",
        lambda m: f"{m[1] or ''}{ordinal(m[2])}英尺{ordinal(m[3])}英寸",
    ),
    rule(
        r"(?:(\d+)[′'])?(\d{1,2})(?:″|(?<=['′]\d\d)\")(\d\d)?(?!\d)",
        lambda m: (f"{number(m[1])}分" if m[1] else "") + f"{number(m[2])}秒{by_one(m[3] or '')}",
    ),
    rule(
        r"(?<![\w\".])(\d{1,3}(?:\.\d)?) ?[″\"](?=[^\"]{0,6}(?:电视|屏|显示|轮|管|笔记本|投影|蛋糕))",
        r"\1英寸",
    ),
    rule(r"(功率[^\d，。；]{0,4}[\dwW -]+)[wW](?![A-Za-z])|(?<=\d)[wW](?=快充|充电|电源)", r"\1瓦"),
    rule(r"(?<=\d)[wW](?=\+|[人次元粉]|用户|阅读|点赞|粉丝|播放|像素|的?摄像头)", "万"),
    rule(
        rf"(?<![\w./])1/({NUM}) ?({UNIT}|英寸)", lambda m: f"{_uncounted(m[1])}分之一{UNITS.get(m[2], m[2])}"
    ),
    # 39°54′, 6'2"; 5km/h, 10-15kg.
    rule(r"(?<!\d)(\d+)°(\d+)['′]", lambda m: f"{number(m[1])}度{m[2]}分"),
    rule(r"(?<=\d分)(\d+(?:\.\d+)?)[″\"]", r"\1秒"),
    rule(
        rf"(?<![\w.])(?<![A-Za-z]-)(?P<low>{SIGNED})(?:(?: ?°C?)? ?(?:{TO}|/(?=-?\d+ ?°)) ?"
        rf"(?P<high>-?{NUM}))? ?(?P<unit>{UNIT})(?!-?[A-Za-z0-9])",
        _unit,
    ),
    rule(r"(时速[^\d，。；]{0,4}[^，。；]{1,12}公里)每小时", r"\1"),
    rule(
        rf"(?:(?<=[A-Za-z方])(?<!/[A-Z])(?<!(?<![A-Za-z])M)|(?<={PRICED})) ?/ ?(?!MM)({UNIT})",
        lambda m: "每" + UNITS[m[1]],
    ),
    rule(rf"(?<={PRICED})(?<!个人) ?/ ?({NUM})?(?={PER})", lambda m: "每" + (counted(m[1]) if m[1] else "")),
    rule("(?<=[伏安瓦兹特时米度克升]) ?/ ?(?=[一二两三四五六七八九十])", "、"),
    # 15%, 5%-10%, +3‰.
    rule(
        rf"(?<!\d)(?<!\d\.)(?P<low>{SIGNED})(?: ?[%‰‱]?(?: ?{TO} ?|到|至)(?P<high>-?{NUM}))? ?(?P<of>[%‰‱])",
        _percent,
    ),
)
SCORES: tuple[Rule, ...] = (
    # Scores and ratios: 6-4/3-6/7-5, 比分3-2, 112-108胜, 16:9.
    rule(
        r"(?<![\w.:/-])\d{1,3}([:-])\d{1,3}(?:[/、，, 和与]{1,2}\d{1,3}\1\d{1,3}){1,6}(?![\w:/-]|\.\d)", _sets
    ),
    # 比例1:50; 首局21:19, but 决胜局15:30开始.
    rule(
        r"((?:比[分例率值]|[师生女男高宽长负灰料液粉水油配]比|总分|(?:[首次末]|决胜|第?[一二三四五])[局盘])"
        r"[^\d，。；]{0,4}\d+)\s?[:–—-]\s?(?=\d+(?!\d| ?[开起]))",
        r"\1比",
    ),
    rule(
        r"(?<![\w.:-])(\d{1,3}) ?[:–—-] ?(\d{1,3})"
        rf"(?= ?的?(?:总?比分|优势|比例|[横竖宽]?屏(?!幕[上里前])|画[幅面]|显示器|混合|稀释|勾?兑|调配"
        rf"|[^\d，。；]{{0,4}}{SCORED}))",
        _ratio,
    ),
    rule(rf"(?<=[以了])(\d{{1,3}})[–—-](\d{{1,3}})(?!\d|{COUNTED})", _ratio),
    rule(
        rf"({SCORED}[^\d，。；]{{0,6}}?)(\d{{1,3}}) ?[-–—] ?(\d{{1,3}})(?![\d%]| ?{COUNTED})",
        lambda m: f"{m[1]}{ordinal(m[2])}比{ordinal(m[3])}",
    ),
)
SPANS: tuple[Rule, ...] = (
    # 16:9, 3:2:1.
    rule(rf"(?<![\w.:])(?!0\d)({NUM}):({NUM})(?::(\d{{1,5}}))?(?![\w:]|\.\d)", _ratio),
    rule(
        r"((?<![\w.:])[a-zMN](?=:[a-zMN])|比[例值率]?[为是约：: ]{0,3}(?:\d{1,3}|[a-zMN]))"
        r":(?=(?:\d{1,3}|[a-zMN])(?![\w.:]))",
        r"\1比",
    ),
    rule(
        r"第(\d{1,5})/(\d{1,5})(?=[页集章题张步关])",
        lambda m: f"第{ordinal(m[1])}{m.string[m.end()]}，共{ordinal(m[2])}",
    ),
    # 满意度4.8/5; 3/4, 1又1/2; 4/4拍.
    rule(r"(?<![\w.])(\d\.\d)/(?=(?:5|10)(?![\w/.]))", r"\1、"),
    rule(r"(?<![\w./])(\d{1,2})/(\d{1,2})(?=拍)", lambda m: f"{ordinal(m[2])}分之{ordinal(m[1])}"),
    spoken(
        r"(?<![\w./])\d{1,2}(?:(?:/\d{1,2})+(?=月|年级|号[线楼])|(?:/\d{1,2}){2,}(?![\w/]))",
        lambda numbers: numbers.replace("/", "、"),
    ),
    rule(r"(?<![\w./])(\d{1,7})/(\d{1,7})(?![\w/]|\.\d)", _fraction),
    # 3-5天, 8k-12k, -5~3.
    rule(
        rf"(?<![\w.:/+*×÷=-])(-?{NUM})(?:{TO}| [~–—] | - (?=\d+ ?(?:{COUNTED}|{UNIT})))(-?{NUM})"
        r"(?!\d|[.:/]\d|-\d| ?[=+*×÷]|等于)",
        _range,
    ),
    rule(rf"(\d[kKwWMGT]) ?{TO} ?(?=\d)", r"\1到"),
    rule(rf"(\d ?(个?[一-鿿]{{1,2}})){SPACED_TO}(?=第?[\d.,]+ ?\2)", r"\1到"),
    rule(
        rf"([\d零一二两三四五六七八九十百千万亿几半]个?(?:年级|{COUNTED}|[本号章节时周楼层室班])){TO}(?=\d)",
        r"\1到",
    ),
)
LEFT: tuple[Rule, ...] = (
    # 1米75, 3块5, 2万5.
    rule(
        rf"(\d)([米块元万千百亿])(\d{{1,2}})(?![\d.]|{COUNTED}|[A-Za-z])",
        lambda m: f"{m[1]}{m[2]}{by_one(m[3])}",
    ),
    rule(r"(?<![\w.一-鿿])\.(\d+)", lambda m: "零点" + by_one(m[1])),
    spoken(r"(?<=第)0\d\d+", by_one),
    rule(r"第(\d{1,16})(?!\d|\.\d)", lambda m: "第" + ordinal(m[1])),
    spoken(r"(?<![\w.])[1-9]\d*(?=号)", ordinal),
    spoken(rf"(?<![\w.)）\]])[-+±]?(?:{THOUSANDS}(?:\.\d+)?|\d+\.\d+)", number),
    spoken(r"(?<![\w.)）\]一-鿿-])-\d+|(?<=[一-鿿])-\d+(?![\d-])", number),
    spoken(r"(?<![\w)）\]])\+\d+", number),
    rule(
        rf"(?<![\w.])(?<!等于)(?<![加减乘比大小于第负])2(?=点(?:[0-5]\d(?!\d)|\d分|\D|$)|(?!{TWO_NAMES}){TWO_UNITS})",
        "两",
    ),
    rule(rf"(?<![\w.、])2、(?=3{TWO_UNITS})", "两、"),
    rule(r"(?<=\d)/(?=\d)", "、"),
    rule(r"\d+(?:\.\d+)?", _left),
    rule("(?<=[一二三四五六七八九十百千万亿纪方]) ?[~–—] ?(?=公元|[前零一二两三四五六七八九十负])", "到"),
    rule(any_of(NAMED_SIGNS), lambda m: NAMED_SIGNS[m[0]]),
    rule(GREEK_ALONE, lambda m: "".join(GREEK.get(letter, letter) for letter in m[0])),
    # C#, AT&T, A=B, @张三.
    rule(r"(?<![A-Za-z])([A-Z])#", r"\1 sharp "),
    rule(r"(?<![\w-])([A-F])-(?![\w-])", r"\1减"),
    rule(r"(?<=[A-Za-z])\s*&\s*(?=[A-Za-z])", " and "),
    rule(r"(?<=[\w一-鿿])\s?&\s?(?=[\w一-鿿])", "和"),
    rule(r"(?<=[\w一-鿿])\s?\+(?=\s?[\w一-鿿])|(?<=[\w一-鿿%])\+(?!\+)", "加"),
    rule(r"(?<=[\w一-鿿])\s?=(?=\s?[\w一-鿿])", "等于"),
    rule(r"(?<![\w一-鿿])~(?=[零一二两三四五六七八九十])", "约"),
    rule(r"#(?=[零一二两三四五六七八九十])", "井号"),
    rule(r"(?<!\w)@(?=[\w一-鿿])", "艾特"),
)
