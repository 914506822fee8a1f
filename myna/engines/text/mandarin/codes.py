"""Mandarin readings of numbers that count nothing: addresses, phones, codes, versions, models, rooms."""

import re

from myna.engines.text.english.tables import FILE_ENDINGS
from myna.engines.text.mandarin.numerals import by_one, called, cardinal, number, ordinal
from myna.engines.text.mandarin.tables import (
    CODE_WORDS,
    COUNTED,
    EMERGENCY,
    FLIGHT,
    HOTLINE_WORDS,
    HOTLINES,
    MAKERS,
    MEASURES,
    NAMED_DATES,
    SERVICE_NUMBERS,
    UNIT,
)
from myna.engines.text.rule import TO, YEAR, Rule, any_of, rule, spoken

_ROOTS = "(?:bin|dev|etc|home|mnt|opt|root|tmp|usr|var|Users)"
_FOLDERS = "(?:src|app|apps|lib|docs?|tests?|bin|node_modules|packages?|public|static|assets|config|data)"
_PROVINCES = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼"


def name_part(digits: str) -> str:
    """A number inside a name: up to two digits and round ones as a number, others digit by digit."""
    plain = len(digits) <= 2 or (len(digits) <= 4 and digits.endswith("00"))
    return ordinal(digits) if plain and not digits.startswith("0") else by_one(digits)


def _address(match: re.Match[str]) -> str:
    return by_one(match[0]).replace(".", "点").replace(":", "冒号").replace("/", "斜杠")


def _called(match: re.Match[str]) -> str:
    """The digits one by one, without what separates them."""
    return ("加" if match[0][0] == "+" else "") + called(re.sub(r"[^0-9A-Za-z转一-鿿]", "", match[0]))


def _code(match: re.Match[str]) -> str:
    return match[1] + called(match[2])


def _standard(match: re.Match[str]) -> str:
    year = {"-": "杠", ":": "冒号"}[match[3]] + by_one(match[4]) if match[3] else ""
    return match[1] + by_one(match[2]).replace(".", "点") + year


def _latin_name(match: re.Match[str]) -> str:
    """GPT-4 is not negative: removes the hyphen, keeps a decimal, and joins further parts by 杠."""
    name, joint, digits = match.groups()
    reading = number(digits) if re.fullmatch(r"\d+\.\d+", digits) else _parts(digits)
    return name + joint.strip("-") + reading


def _parts(digits: str) -> str:
    if len(digits) > 4 and digits.isdigit():
        return called(digits)
    return "".join(
        {".": "点", "-": "杠"}.get(part) or name_part(part) for part in re.split(r"([.-])", digits)
    )


def _long_run(match: re.Match[str]) -> str:
    """Eight digits and more: a number before a unit or if it is round, else digit by digit."""
    digits, unit = match[1], match[2]
    counts = (
        unit
        or match.string[match.start() - 1 : match.start()] in ("=", "≈")
        or re.fullmatch(r"[1-9]\d{0,3}0{6,}", digits)
    )
    return cardinal(digits) if counts and not digits.startswith("0") and len(digits) <= 16 else called(digits)


CODES: tuple[Rule, ...] = (
    # 192.168.1.1:80, 10.0.0.0/8; 1.2.3
    rule(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5}|/\d{1,2})?(?!\d|\.\d)", _address),
    spoken(rf"(?<![\d.])(?!{YEAR}\.\d\d?\.\d\d?(?!\d|\.\d))\d+(?:\.\d+){{2,}}(?!\d)", _parts),
    # GB/T 7714-2015; ISBN 978-7-111-12345-6.
    rule(
        r"((?:GB|ISO|IEC|IEEE|DB|RFC|JGJ|ASTM)(?:/[A-Z])? ?)(\d[\d.]*)(?:([-:])(\d{4}))?(?![\w-])", _standard
    ),
    rule(
        rf"({CODE_WORDS}[：:是为 ]{{0,3}})(\d(?:[ -]?\d){{6,}})(?![\w-])",
        lambda m: m[1] + called(re.sub("[ -]", "", m[2])),
    ),
    # Phones abroad, cards and meetings: +1 415 555 2671, 6222 0210 0112 3456, 123-456-789.
    rule(r"(?<![\w.])\+(?:[ ()-]{0,2}\d){7,15}(?!\d|\.\d|%)", _called),
    rule(r"(?<![\w.-])\d{4}(?:([ -])\d{4})(?:\1\d{4}){1,3}(?:\1\d{1,3})?(?![\w.-])", _called),
    rule(r"(?<![\w.,-])\d{3}([ -])\d{3}\1\d{3,4}(?![\w-]|[.,]\d)", _called),
    # Phones: mobile, area code, 400 800 1234.
    rule(r"(?<![\w.])(?:\+?86[- ]?)?1[3-9]\d([- ]?)\d{4}\1\d{4}(?!\d|\.\d|[万元个人])", _called),
    rule(
        r"(?<![\w.])(?:\+?86[- ]?)?(?:[(（]0?\d{1,3}[)）]|0\d{2,3}[- ]?|0\d[- ]) ?\d{3,4}[- ]?\d{4}"
        r"(?:(?:[-转]| ?转 ?)\d{1,6})?(?!\d|\.\d)",
        _called,
    ),
    rule(r"(?<![\w.])[48]00([- ]?)(?:\d{3}\1\d{4}|\d{4}\1\d{3}|\d-\d{3}-\d{3})(?!\d|[万元个人])", _called),
    rule(rf"(?<![\w.])(\d{{8,}})(?!\d|\.\d|\w)(?=({COUNTED})?)", _long_run),
    spoken(r"(?<![\w.])\d{3}/\d\d(?= ?Z?R\d\d(?!\d))", lambda tyre: by_one(tyre.replace("/", "、"))),
    # 波音737-800, 747客机; 5号楼1202.
    rule(
        rf"({MAKERS}-?)(\d{{3}})-(\d{{3,4}})(?!\d|\.\d)", lambda m: f"{m[1]}{by_one(m[2])}杠{name_part(m[3])}"
    ),
    spoken(r"(?<![\w.-])\d{3}(?=(?:型)?(?:客机|飞机|战机|轰炸机))", by_one),
    rule(
        rf"(?<=号楼|单元|[A-Z][座栋幢]|[0-9][栋幢层楼门号])(\d{{3,4}})"
        rf"(?![\d余]|[.,:/%-]\d|{COUNTED}| ?(?:平|{UNIT}))",
        _called,
    ),
    # 图3-1; 4-3-3阵型.
    rule(
        rf"((?<![代发手外仪电填年报课列地])[图表]|公式|[例习]题)(\d{{1,3}})[-–—](?=\d{{1,3}}(?![\d-]|{COUNTED}))",
        r"\1\2杠",
    ),
    spoken(
        r"(?<![\w.])\d(?:-?\d){2,3}(?=[^\d，。；]{0,2}(?:阵型|阵式|站位|铁桶阵))",
        lambda digits: by_one(digits.replace("-", "")),
    ),
    # 京A·12345, room 3-2-501.
    rule(rf"(?<=[{_PROVINCES}][A-Z])[·•.]?(?=[A-Z0-9]{{5,6}}(?!\w))[A-Z0-9]*\d[A-Z0-9]*", _called),
    spoken(r"(?<![\w.-])(?!(?:19|20)\d\d-\d\d?-\d\d?(?!\d))\d{1,4}(?:-\d{1,4}){2,}(?![\w-])", _parts),
    spoken(rf"(?<![\w.-])\d{{1,2}}-\d{{3,4}}(?=室|房|号)|(?<=号)\d{{1,2}}-\d{{3,4}}(?!\d|{COUNTED})", _parts),
    rule(rf"({CODE_WORDS}[：: ]?\d{{2,5}})/(?=\d)", r"\1、"),
    rule(r"((?:门牌|房间?)号[：: ]?\d{1,4})-(?=\d)", r"\1杠"),
    # Digits after a word that announces a code, and short numbers that are called.
    rule(
        rf"({CODE_WORDS}[：:是为 #]{{0,3}}[A-Z]{{0,3}})(\d{{3,}})(?!\d|[.:/-]\d|[%年月]|{COUNTED}|{UNIT})",
        _code,
    ),
    spoken(
        rf"(?<![\w.,:/=-]){EMERGENCY}(?:[、或和/]{EMERGENCY})+(?![\w.%]|{COUNTED})",
        lambda numbers: called(numbers.replace("/", "、")),
    ),
    rule(
        rf"((?:火警|急救|报警|匪警|救护车|[打叫呼找给])[：: “了过]?)({EMERGENCY})"
        rf"(?![\w.%]| ?(?:[号平路多余几]|{COUNTED}))",
        _code,
    ),
    rule(
        rf"(?:(?<=^)|(?<=[，。！？；“]))({EMERGENCY})(?=(?:马上|已经?|很快|正在)?(?:[来到]了|赶[来到]|出动))",
        _called,
    ),
    rule(rf"({HOTLINE_WORDS}[：: ]?)(\d{{3,8}})(?!\d|[-.]\d|{COUNTED})", _code),
    rule(rf"(?<![\w.-])\d{{3,6}}(?={HOTLINES})", _called),
    rule(r"(?<![\w.-])[45][01][0-9](?=错误|状态|页面|报错)", _called),
    rule(rf"(返回[：: ]?)([45][01][0-9])(?!\w|{COUNTED})", _code),
    rule(rf"(?<![\w.,:/=-]){SERVICE_NUMBERS}(?![\w.:/%-]|{COUNTED})", _called),
    rule(
        r"(?<![\w.-])(?:\d{2}[1-9]|\d[1-9]0|\d{4}(?<!00))"
        r"(?=室|房(?!价)|教室|病房|路(?![人程口])|国道|省道|县道|次列车|次航班|医院|厂(?!家))",
        _called,
    ),
    rule(r"((?<![A-Za-z])[A-Z]{1,2})(\d{3,4})(?=次|航班|号|/)", _code),
    rule(r"((?:列车|乘坐|搭乘)[：: ]?[A-Z]{1,2})(\d{2,4})(?!\d)", _code),
    rule(rf"({FLIGHT})(\d{{3,4}})(?!\w)", _code),
    rule(
        r"(?<![\w.,:/-])(?!\d+\.\d\d(?!大促|狂欢|活动|当天|当日|预售|购物|促销|节))"
        rf"({any_of(NAMED_DATES)})(?!\w|[.,:/~-]\d|[%号]|(?!期间){COUNTED})",
        lambda m: NAMED_DATES[m[1]],
    ),
    # 0x80070005; 66666, 233333; abc_123.
    rule(r"(?<!\w)0x([0-9A-Fa-f]{2,16})(?!\w)", lambda m: f"零x{by_one(m[1])}"),
    spoken(rf"(?<![\w.,])(?:(\d)\1{{3,}}|23{{3,}})(?![\w.,:%-]|{COUNTED})", by_one),
    spoken(r"(?<=[A-Za-z]_)\d{2,}(?!\w)", by_one),
)
"""The first rules after addresses."""


NAMES: tuple[Rule, ...] = (
    # N95, x86; B2B; A1-A3.
    rule(r"(?<![A-Za-z])([A-Z])\.(\d{3})(?!\d)", lambda m: f"{m[1]}点{by_one(m[2])}"),
    spoken(r"(?<![A-Za-z])(?:N9[059]|[xX](?:86(?:[-_]64)?|64)|Windows 9[58])(?!\d)", by_one),
    rule(r"(?<![A-Za-z0-9])([BCDEGOPSV])2([BCDEGOPSV])(?![A-Za-z0-9])", r"\1 to \2"),
    rule(r"(?<![A-Za-z])([A-Z]\d+)[-~–—](?=[A-Z]\d)", r"\1到"),
    rule(r"(?<![A-Za-z])[Nn][Oo](?:\.|．) ?(\d{1,6})(?!\d|\.\d)", lambda m: f"number {ordinal(m[1])}"),
    rule(
        rf"(?<![A-Za-z])([Pp]{{1,2}}\.? ?)(\d{{1,4}}){TO}(\d{{1,4}})(?![\w-])",
        lambda m: f"{m[1]}{ordinal(m[2])}到{ordinal(m[3])}",
    ),
    # GPT-4, COVID-19, iPhone 15, RTX 4090, Mate60.
    rule(r"(?<![A-Za-z0-9])([A-Za-z]+)(-?)((?!2[A-Z](?![A-Za-z0-9]))\d+(?:[.-]\d+)*)", _latin_name),
    rule(
        rf"(?<![A-Za-z0-9])(?!{MEASURES} )(?=[A-Za-z]*[A-Z])([A-Za-z]+)( )(\d{{3,4}})"
        rf"(?! ?[×÷=乘加减到]|[a-z\d_]|K(?!F)|{UNIT}|[.,:/%-]\d|%|{COUNTED})",
        _latin_name,
    ),
    rule(rf"({MAKERS})(-?)(\d{{1,4}})(?!\d|\.\d|{COUNTED})", _latin_name),
    # README.md, user_name, ls -l, src/main.
    rule(rf"(?<=[A-Za-z0-9_])\.(?=(?:{FILE_ENDINGS})(?![A-Za-z0-9]))", "点"),
    rule(r"(?<=[A-Za-z0-9])_+(?=[A-Za-z0-9一-鿿])", "下划线"),
    rule(r"(?<=[A-Za-z0-9] )-{1,2}(?=[A-Za-z])", lambda m: "杠" * len(m[0])),
    spoken(
        rf"(?<!\S)~?(?:/[A-Za-z_.][\w.点-]*)+/?|(?<=[一-鿿])(?:~/|/(?:{_ROOTS}\b|[a-z_.][\w.点-]*/))[\w.点/-]*"
        rf"|(?<![\w./-])(?:(?=[\w/-]*[点._]|{_FOLDERS}/)[a-z_][a-z0-9_-]*(?:/[\w点.-]+){{2,}}|[A-Z][\w-]*(?:/[\w.-]+)*/[\w.-]+点\w+)",
        lambda path: path.replace("~", "波浪号").replace("/", "斜杠"),
    ),
    # 1080P, 24H2.
    rule(r"(?<![\w.])(\d{3,4})(?=[PpIi](?![A-Za-z0-9]))", lambda m: by_one(m[1])),
)
"""Names with a number in them."""
