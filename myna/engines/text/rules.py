"""Rewrite rules applied before the normaliser, as one ordered table of patterns.

A rule either writes out a number in Han, so that no later rule matches it, or rewrites a notation to one that
the next rules and the normaliser read correctly (㎡ to 平方米, `3—5` to `3到5`). The order matters: the most
specific rules are first. Every rule needs a digit in or beside its match.
"""

import re
from collections.abc import Callable, Iterable

from myna.engines.text.numerals import by_one, called, cardinal, number

Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

_NUM = r"\d+(?:\.\d+)?"
_TO = r"[-~～–—]"
_COUNTED = (  # counters and units: the digits before them are a number
    "(?:[万亿元块个人名位次只件条张份篇台辆吨斤克米里度岁年天月日字步"
    "票点倍角分秒户亩家种页头匹颗粒瓶杯千层双多栋楼座间场轮支枚班]"
    "|小时|世纪|美元|欧元|英镑|港元|平方|立方|毫[米升克秒安]|公[里斤顷分升])"
)
_PAIRED = "次倍栋件本张条份篇台辆吨种家户间颗匹瓶杯场轮代批组队遍趟边只把片座袋盒款套节步部艘架支枚对双面"
_CODE_WORDS = (
    r"(?:房间|房|门牌|室|编|单|工|学|账|帐|卡|车|航班|座位|桌|群|订单|流水|身份证|序列|票|考|合同)号(?:码)?|"
    r"号码|验证码|密码|代码|尾号|车次|航班|邮编|分机|电话|手机|QQ|ID"
)
_BETTER = "战胜|击败|领先|取胜|大胜|险胜|完胜|逆转|落后|负于|输给|不敌|告负|战平|打平"
_CURRENCY = {
    "US$": "美元",
    "HK$": "港元",
    "RMB": "元",
    "￥": "元",
    "¥": "元",
    "＄": "美元",
    "$": "美元",
    "€": "欧元",
    "£": "英镑",
}
_UNITS = {
    "km/h": "公里每小时",
    "m/s": "米每秒",
    "km²": "平方公里",
    "km2": "平方公里",
    "㎢": "平方公里",
    "cm²": "平方厘米",
    "cm2": "平方厘米",
    "m²": "平方米",
    "m2": "平方米",
    "㎡": "平方米",
    "m³": "立方米",
    "m3": "立方米",
    "㎥": "立方米",
    "kWh": "千瓦时",
    "mAh": "毫安时",
    "kg": "千克",
    "㎏": "千克",
    "mg": "毫克",
    "㎎": "毫克",
    "g": "克",
    "km": "公里",
    "㎞": "公里",
    "cm": "厘米",
    "㎝": "厘米",
    "mm": "毫米",
    "㎜": "毫米",
    "nm": "纳米",
    "μm": "微米",
    "m": "米",
    "ml": "毫升",
    "mL": "毫升",
    "L": "升",
    "MHz": "兆赫",
    "GHz": "吉赫",
    "kHz": "千赫",
    "Hz": "赫兹",
    "kW": "千瓦",
    "dB": "分贝",
    "ms": "毫秒",
    "min": "分钟",
    "h": "小时",
    "w": "万",
    "°C": "摄氏度",
    "℃": "摄氏度",
    "°F": "华氏度",
    "℉": "华氏度",
}
_NAMED = {
    "618": "六一八",
    "315": "三一五",
    "996": "九九六",
    "520": "五二零",
    "211": "二幺幺",
    "985": "九八五",
}


def rewritten(text: str) -> str:
    """`text` with the rules applied in order."""
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text


def _any(words: Iterable[str]) -> str:
    """A pattern that matches any of `words`, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _one_by_one(match: re.Match[str]) -> str:
    return by_one(match[0])


def _address(match: re.Match[str]) -> str:
    return by_one(match[0]).replace(".", "点").replace(":", "冒号")


def _version(match: re.Match[str]) -> str:
    return "点".join(_name_part(part) for part in match[0].split("."))


def _name_part(digits: str) -> str:
    """A number inside a name: up to two digits and round ones as a number, others digit by digit."""
    plain = len(digits) <= 2 or digits.endswith("00")
    return cardinal(digits, pairs=False) if plain and not digits.startswith("0") else by_one(digits)


def _latin_name(match: re.Match[str]) -> str:
    """GPT-4 is not negative: removes the hyphen, keeps a decimal, and joins further parts by 杠."""
    name, joint, digits = match.groups()
    reading = number(digits) if re.fullmatch(r"\d+\.\d+", digits) else _parts_of(digits)
    return name + joint.strip("-") + reading


def _parts_of(digits: str) -> str:
    if len(digits) > 4 and digits.isdigit():
        return called(digits)
    return "".join(
        {".": "点", "-": "杠"}.get(part) or _name_part(part) for part in re.split(r"([.-])", digits)
    )


def _parts(match: re.Match[str]) -> str:
    return _parts_of(match[0])


def _code(match: re.Match[str]) -> str:
    return match[1] + called(match[2])


def _angle(match: re.Match[str]) -> str:
    degrees, minutes, seconds = match.groups()
    return f"{degrees}度{minutes}分" + (f"{seconds}秒" if seconds else "")


def _money(match: re.Match[str]) -> str:
    sign, currency, low, high, scale = match.group("sign", "cur", "low", "high", "scale")
    return (
        ("负" if sign else "")
        + _counted(low)
        + (f"到{_counted(high)}" if high else "")
        + (scale or "")
        + _CURRENCY[currency]
    )


def _counted(written: str) -> str:
    """A number before a unit: a bare 2 is 两."""
    return "两" if written == "2" else number(written)


def _phone(match: re.Match[str]) -> str:
    return ("加" if match[0][0] == "+" else "") + called(re.sub(r"[^\d转]", "", match[0]))


def _long_run(match: re.Match[str]) -> str:
    """Eight digits and more: a number before a unit or if it is round, else digit by digit."""
    digits, unit = match[1], match[2]
    counts = unit or re.fullmatch(r"[1-9]\d{0,3}0{6,}", digits)
    return cardinal(digits) if counts and not digits.startswith("0") and len(digits) <= 16 else called(digits)


def _percent(match: re.Match[str]) -> str:
    low, high, sign = match.group("low", "high", "of")
    of = "百分之" if sign == "%" else "千分之"
    return "到".join(_signed_share(of, part) for part in (low, high) if part)


def _signed_share(of: str, written: str) -> str:
    plain = written.lstrip("-+")
    return ("负" if written[0] == "-" else "") + of + ("百" if plain == "100" else number(plain))


def _range_of_years(match: re.Match[str]) -> str:
    return f"{by_one(match[1])}到{by_one(match[2])}"


def _range(match: re.Match[str]) -> str:
    """`3-5` is a range; a falling one (`3-2`) is a score; `2024-05` is a month, left to the normaliser."""
    low, high = match[1], match[2]
    if re.fullmatch(r"(?:19|20)\d\d-(?:0?[1-9]|1[0-2])", match[0]):
        return match[0]
    if float(low) <= float(high) or high[0] == "-":
        return f"{low}到{high}"
    return f"{low}比{high}" if low.isdigit() and high.isdigit() else match[0]


def _time(match: re.Match[str]) -> str:
    hours, minutes, seconds = match.groups()
    hour = "两" if int(hours) == 2 else cardinal(hours)
    if seconds:
        return f"{hour}点{_sixtieth(minutes)}分{_sixtieth(seconds)}秒"
    return f"{hour}点" + (f"{_sixtieth(minutes)}分" if int(minutes) else "")


def _sixtieth(digits: str) -> str:
    return ("零" if digits[0] == "0" and digits != "00" else "") + cardinal(digits, pairs=False)


def _plain(digits: str) -> str:
    return cardinal(digits, pairs=False)


def _fraction(match: re.Match[str]) -> str:
    """`120/80` is two numbers; a possible fraction or date is left to the normaliser."""
    upper, lower = int(match[1]), int(match[2])
    is_date = 1 <= upper <= 12 and lower <= 31
    is_month = 1900 <= upper <= 2099 and 1 <= lower <= 12
    return match[0] if upper < lower or is_date or is_month else f"{_plain(match[1])}、{_plain(match[2])}"


def _long_year(match: re.Match[str]) -> str:
    return cardinal(match[1]) + match[2]


def _rule(pattern: str, replacement: str | Callable[[re.Match[str]], str]) -> Rule:
    return re.compile(pattern, re.ASCII), replacement


RULES: tuple[Rule, ...] = (
    # Other hyphens that belong to a number.
    _rule(r"[−－](?=\d)", "-"),
    # Web and mail addresses keep their letters; their digits are read one by one.
    _rule(r"(?:https?|ftp)://[!-~]+|(?<![\w.-])www\.[!-~]+", _one_by_one),
    _rule(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+", _one_by_one),
    _rule(
        r"(?<![\w.-])(?:[\w-]+\.)+(?:com|cn|net|org|io|ai|top|gov|edu|me|app|dev)(?!\w)(?:/[!-~]*)?",
        _one_by_one,
    ),
    # IP addresses, dotted dates, versions.
    _rule(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?!\d|\.\d)", _address),
    _rule(r"(?<![\w.])((?:19|20)\d\d)\.(0?[1-9]|1[0-2])\.(0?[1-9]|[12]\d|3[01])(?!\d|\.\d)", r"\1/\2/\3"),
    _rule(r"(?<![\d.])\d+(?:\.\d+){2,}(?!\d)", _version),
    # Units: Latin and squared ones become Han, whether the number before them is rewritten yet or not.
    _rule(rf"(?<![\w.])({_NUM}) ?({_any(_UNITS)})(?![A-Za-z0-9])", lambda m: m[1] + _UNITS[m[2]]),
    _rule(rf"(时速[^\d，。；]{{0,4}}{_NUM}公里)每小时", r"\1"),
    _rule(r"(\d+)°(\d+)[′'](?:(\d+)[″\"])?", _angle),
    # Money with a sign in front.
    _rule(
        rf"(?P<sign>-?)(?P<cur>{_any(_CURRENCY)})\s?(?P<low>\d[\d,]*(?:\.\d+)?)(?:{_TO}(?P<high>{_NUM}))?"
        r"(?P<scale>万亿|千万|百万|万|亿)?(?:美元|欧元|英镑|港元|元)?",
        _money,
    ),
    # Thousands.
    _rule(
        r"(?:(?<![\w.,)）])-)?(?<![\d.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d|,\d)",
        lambda match: number(match[0]),
    ),
    _rule(rf"(?<=[元块角分万亿])/({_any(_UNITS)})(?![A-Za-z0-9])", lambda m: "每" + _UNITS[m[1]]),
    _rule(r"(?<=[元块角分万亿])/(?=[一-鿿])", "每"),
    # Telephones, and long runs of digits.
    _rule(r"(?<![\d.])(?:\+?86[- ]?)?1[3-9]\d([- ]?)\d{4}\1\d{4}(?!\d|\.\d|[万元个人])", _phone),
    _rule(r"(?<![\d.])(?:[(（]0\d{2,3}[)）]|0\d{2,3}-?) ?\d{7,8}(?:[-转]\d{1,6})?(?!\d|\.\d)", _phone),
    _rule(r"(?<![\d.])[48]00([- ])(?:\d{3}\1\d{4}|\d{4}\1\d{3})(?!\d)", _phone),
    _rule(r"(?<![\d.])[48]00\d{7}(?!\d|[万元个人])", _phone),
    _rule(rf"(?<![\w.])(\d{{8,}})(?!\d|\.\d)(?=({_COUNTED})?)", _long_run),
    # Scores, ratios and times.
    _rule(r"((?:比分|比例|配比|比率|比值|宽高比)[^\d，。；]{0,4}\d+)[:–—-](?=\d)", r"\1比"),
    _rule(rf"(?<![\w.:-])(\d{{1,3}})[:–—-](\d{{1,3}})(?=的?(?:比分|{_BETTER}))", r"\1比\2"),
    _rule(rf"(以\d{{1,3}})[–—-](\d{{1,3}})(?!\d|{_COUNTED})", r"\1比\2"),
    _rule(rf"(:\d\d){_TO}(?=\d\d?:\d\d)", r"\1到"),
    _rule(r"(?<![\d:.])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?分?(?![\d:]| ?[ap]m)", _time),
    # Dates and years.
    _rule(rf"(?<!\d)((?:19|20)\d\d)(?:{_TO}|到|至)((?:19|20)\d\d)(?=年|赛季|财年|学年|届)", _range_of_years),
    _rule(
        r"(?<!\d)((?:19|20)\d\d)(?=届|款|赛季|财年|学年|奥运|冬奥|亚运|世界杯|欧洲杯|春晚|高考|新年)",
        _one_by_one,
    ),
    _rule(r"(?<!\d)(2[2-9]\d\d|[3-9]\d{3}|1000|\d{5,})(年)", _long_year),
    _rule(r"(?<!\d)([12]000)(年的?(?:历史|前|来|文明|时间))", _long_year),
    _rule(r"(?<!\d)(?:[5-9]\d|0[05])(?=后(?![来面边天退续]))", _one_by_one),
    _rule(r"(?<![\w.])(\d{1,2})\.(\d{1,2})(?=[号日])", r"\1月\2"),
    _rule(r"(?<![\d.])(\d{1,2})[·•](\d{1,2})(?!\d)", lambda m: by_one(m[1] + m[2])),
    _rule(
        r"(?<![\w.])(\d{1,2})\.(\d{1,2})(?=事件|晚会|妇女节|购物节|大促|假期|黄金周)",
        lambda m: by_one(m[1] + m[2]),
    ),
    _rule(r"(?<![\w.])(\d{1,2})\.(?=(?:19|20)\d\d年)", r"\1、"),
    # Numbers that are read digit by digit or in a special way.
    _rule(rf"((?:{_CODE_WORDS})[：:是为# ]{{0,3}})(\d{{3,7}})(?!\d|[.:/-]\d|[%年月]|{_COUNTED})", _code),
    _rule(rf"((?:热线|拨打|拨|致电|呼叫)[：: ]?)(\d{{3,6}})(?!\d|[-.]\d|{_COUNTED})", _code),
    _rule(r"()(?<![\w.-])(\d{3,6})(?=热线|客服|报警|急救|指挥中心)", _code),
    _rule(rf"()(?<![\w.-])(1234[58]|123[01][056]|12366|100[18][06]|95\d{{3}})(?![\w.]|{_COUNTED})", _code),
    _rule(
        r"()(?<![\w.-])(\d{2}[1-9]|\d[1-9]0|\d{4}(?<!00))(?=室|房|教室|病房|路(?![人程])|国道|省道|号(?!线))",
        _code,
    ),
    _rule(r"((?<![A-Za-z])[A-Z]{1,2})(\d{3,4})(?=次|航班)", _code),
    _rule(rf"(?<![\w.,:/-])(11[09])(?={_COUNTED}|级|以[上下])", lambda m: cardinal(m[1])),
    _rule(rf"(?<![\w.,:/-])(12[02])(?!\w|[.,:/%-]\d|%|{_COUNTED})", lambda m: cardinal(m[1])),
    _rule(rf"(?<![\w.,:/-])({_any(_NAMED)})(?!\w|[.,:/~-]\d|%|{_COUNTED})", lambda m: _NAMED[m[1]]),
    # Percents and ranges.
    _rule(
        rf"(?<![\w.])(?P<low>[-+]?{_NUM})(?:[%‰]?(?:{_TO}|到|至)(?P<high>-?{_NUM}))? ?(?P<of>[%‰])", _percent
    ),
    _rule(r"(?<![\w.-])(?!(?:19|20)\d\d-\d\d?-\d\d?(?!\d))\d{1,4}(?:-\d{1,4}){2,}(?![\w-])", _parts),
    _rule(r"(?<![\w.-])\d{1,2}-\d{3,4}(?=室|房|号)", _parts),
    _rule(rf"(?<![\w.:/+*×÷=-])(-?{_NUM}){_TO}(-?{_NUM})(?!\d|[.:/-]\d|[=+*×÷]|等于|{_TO})", _range),
    _rule(rf"(\d(?:{_any(_UNITS.values())}|[元块个天月日号年岁人次页章节度时分点])){_TO}(?=\d)", r"\1到"),
    # Names with a number in them.
    _rule(rf"(?<![A-Za-z])([A-Z]\d+){_TO}(?=[A-Z]\d)", r"\1到"),
    _rule(r"(?<![A-Za-z0-9])([A-Za-z]+)(-?)((?!2[A-Z](?![A-Za-z0-9]))\d+(?:[.-]\d+)*)", _latin_name),
    _rule(
        rf"(?<![A-Za-z0-9])(?=[A-Za-z]*[A-Z])([A-Za-z]+)( )(\d{{3,4}})(?!\w|[.,:/%-]\d|%|{_COUNTED})",
        _latin_name,
    ),
    _rule(r"((?:歼|轰|运|直|苏|米格|神舟|嫦娥|长征|东风|红旗|天问|鹰击))(-)(\d+)(?!\d)", _latin_name),
    # Other numbers that the normaliser would read wrongly.
    _rule(r"第(\d{1,16})(?!\d|\.\d)", lambda m: "第" + cardinal(m[1], pairs=False)),
    _rule(r"(?<![\w.)）\]])[-+±]?\d+\.\d+(?!\d|\.\d|[A-Za-z])", lambda m: number(m[0])),
    _rule(r"(?<![\w.)）\]-])-\d+(?![\w.:/=+*×÷])", lambda m: number(m[0])),
    _rule(r"(?<![\w.])(\d\d?)月(\d\d?)(?=[日号])", lambda m: f"{_plain(m[1])}月{_plain(m[2])}"),
    _rule(r"(?<![\w.])2(?=日)", "二"),
    _rule(r"(?<=\d) ?= ?(\d{1,16})(?![\w.])", lambda m: "等于" + cardinal(m[1])),
    _rule(rf"(?<![\w./])2(?=点(?:[0-5]\d(?!\d)|\d分|\D|$)|[{_PAIRED}]|美元|欧元|英镑|港元|日元)", "两"),
    _rule(r"(?<![\w./])(\d{1,7})/(\d{1,7})(?![\w./])", _fraction),
    _rule(r"(?<=\d)\*(?=\d)", "乘"),
    _rule(r">(?=\d)", "大于"),
    _rule(r"<(?=\d)", "小于"),
    _rule(r"(?<=[A-Za-z一-鿿])\+(?=\d)|(?<=\d)\+(?![\d+])", "加"),
)
