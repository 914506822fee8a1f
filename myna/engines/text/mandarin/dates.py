"""Mandarin readings of dates, times, years and decades, and spans of them."""

import re

from myna.engines.text.mandarin.numerals import by_one, cardinal, ordinal
from myna.engines.text.mandarin.tables import COUNTED, HOLIDAYS, TWO_UNITS
from myna.engines.text.rule import SPACED_TO, TO, YEAR, Rule, rule, spoken

_MONTH, _DAY = r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
_CLOCK = r"(?:[01]?\d|2[0-4])[:：][0-5]\d(?:[:：][0-5]\d)?"
_HALVES = {"AM": "上午", "PM": "下午"}
_EVENTS = "(?:事件|晚会|消费者|打假|曝光|维权|购物节|运动|惨案|事变|革命|大地震|地震|空难|恐怖)"
_FESTIVALS = "(?:世界|国际|全国)[一-鿿]{2,5}日|(?:妇女|女[神生]|儿童|青年|植树|程序员|劳动|情人)节"
_RESUMED = "(?:[上下]午|[早晚](?!会)|中午|凌晨|次日|翌日|今|明天|周[一二三四五六日末\\d]|星期|礼拜)"
_LASTED = "(?:用时|耗时|历时|时长|配速|倒计时|跑[了出进完]|全马|半马|还剩|剩余|[净枪]时间?|PB|成绩|[纪记]录)"
_FINISHED = "(?:就|才)?(?:[跑游骑走]完|完赛|冲线|撞线|的成绩)"
_LASTS = (  # a number of years, not a year
    "(?:了|的?历史|的?文明|[以之]?[前后来间内久里](?!期)|以[上下]|老|多|左右|如一日|时间|期(?!间)|长|一遇|一度|一次|未|没|不[变见]|寿命|工龄|"
    "经验|陈|保质|质保|的(?:时间|光阴|努力|岁月|风雨|发展|奋斗|积累|等待)|河[东西]|租|产权|免费|制|树龄|合同)"
)


def _event(match: re.Match[str]) -> str:
    """The name of an event by its date: 9·11 as 九一一, 10·1 as 十一."""
    return "十一" if match.groups() == ("10", "1") else by_one(match[1] + match[2])


def _american(match: re.Match[str]) -> str:
    """05/01/2024: the month is first unless it is above 12."""
    first, second = sorted(match.group(1, 2), key=lambda part: int(part) > 12)
    return f"{by_one(match[3])}年{ordinal(first)}月{ordinal(second)}日"


def _sixtieth(digits: str) -> str:
    return ("零" if digits[0] == "0" and digits != "00" else "") + ordinal(digits)


def _time(written: str) -> str:
    hours, minutes, *seconds = re.split("[:：]", written)
    hour = "两" if int(hours) == 2 else ordinal(hours)
    if seconds:
        return f"{hour}点{_sixtieth(minutes)}分{_sixtieth(seconds[0])}秒"
    return f"{hour}点" + (f"{_sixtieth(minutes)}分" if int(minutes) else "")


def _times(match: re.Match[str]) -> str:
    """A time or a span of times; AM and PM come first in Mandarin."""
    half = re.sub("[^APM]", "", (match["half"] or "").upper())
    return _HALVES.get(half, "") + "到".join(_time(part.strip()) for part in re.split(TO, match["times"]))


def _hours(match: re.Match[str]) -> str:
    """`3pm`, `3-5pm`."""
    hours = ["两" if hour == "2" else ordinal(hour) for hour in match.group(1, 2) if hour]
    return _HALVES[match[3].upper() + "M"] + "到".join(f"{hour}点" for hour in hours)


def _lasting(match: re.Match[str]) -> str:
    return cardinal(match[0]) if int(match[0]) != 2 else "两"


def _duration(match: re.Match[str]) -> str:
    """`2:30:15` as 2小时30分15秒, `25:00` as 25分钟."""
    parts = zip(match.groups("")[1:], ("小时", "分", "秒"), strict=True)
    said = "".join(digits + unit for digits, unit in parts if digits.strip("0"))
    return (match[1] or "") + said + ("钟" if said.endswith("分") else "")


def _two_years(match: re.Match[str]) -> str:
    """Two years that follow each other: `2023/24`."""
    follows = (int(match[1]) + 1) % 100 == int(match[2])
    return f"{by_one(match[1])}到{by_one(match[2])}" if follows else match[0]


DATES: tuple[Rule, ...] = (
    # 2024-11-05T08:30:00Z; 2024.08.14–08.20; （2021）, （1881—1936）.
    rule(r"(?<=\d-\d\d)T(?=\d\d:\d\d)", " "),
    rule(
        rf"(?<![\w.])({YEAR})([-/.])({_MONTH})\2({_DAY}) ?[~–—-] ?(?:({YEAR})\2)?({_MONTH})\2({_DAY})"
        r"(?![\w-]|[./]\d)",
        lambda m: f"{m[1]}年{m[3]}月{m[4]}日到{m[5] + '年' if m[5] else ''}{m[6]}月{m[7]}日",
    ),
    spoken(rf"(?<=[(（〔\[【]){YEAR}(?=[)）〕\]】])|(?<![\d.]){YEAR}(?= ?{TO} ?[)）])", by_one),
    rule(
        rf"(?<=[(（])({YEAR})年? ?{TO} ?({YEAR})年?(?=[)）])", lambda m: f"{by_one(m[1])}到{by_one(m[2])}年"
    ),
    # 2024-05-01, 2024/5/1, 2024.5.1; 20240501 is a code.
    rule(rf"(?<![\w.])({YEAR})([-/.])({_MONTH})\2({_DAY})(?:日|号)?(?![\w-]|\.\d)", r"\1年\3月\4日"),
    rule(rf"(?<![\w.-])({YEAR})[-/]0?([1-9]|1[0-2])月?(?![\w/-]|[.:]\d|年|学年|赛季)", r"\1年\2月"),
    rule(rf"(?<![\w.])({YEAR})\.0?([1-9]|1[0-2])月", r"\1年\2月"),
    rule(rf"(?<![\w./])({_DAY})/({_DAY})/({YEAR})(?![\w/])", _american),
    rule(rf"(?<![\w.])(20\d\d)\.(?:0(?=[1-9])|(?=1[0-2]))(\d\d?)(?![\w.%]|{COUNTED}|倍)", r"\1年\2月"),
    rule(
        rf"(?<![\w./])(?:(?<=定于)|(?<=[时期]间[:：])|(?<=日期[:：])|(?=[\d./]+{TO}[\d./]+[号日]?{HOLIDAYS}))"
        rf"({_MONTH})[./]({_DAY}){TO}({_MONTH})[./]({_DAY})(?![\d%])[号日]?",
        r"\1月\2日到\3月\4日",
    ),
    rule(rf"(?<![\w./:-])(0[1-9]|1[0-2])-(0[1-9])(?![\w:/%-]|[.,]\d|{COUNTED})", r"\1月\2日"),
    rule(
        r"(?<!\w)(1[5-9]|20)(\d)0['’]?s(?!\w)",
        lambda m: f"{ordinal(str(int(m[1]) + 1))}世纪{ordinal(m[2])}十年代",
    ),
    # 用时2:30:15, 配速5:42, 视频3:45处; 周五17:00 with a pause, which is not 五十七点.
    rule(
        rf"(?:({_LASTED}[^\d，。；,;]{{0,4}}|[视音]频(?=[\d:]+(?:处(?![理罚置])|的?位置)))"
        rf"|(?<![\w.:])(?=\d+:\d+:\d+{_FINISHED}))(?:(\d\d?):)?(\d\d?):([0-5]\d)(?![\w:开公发揭准]|\.\d)",
        _duration,
    ),
    rule(
        r"(?:(?<=[周期拜][一二三四五六])|(?<=[五十]一)|(?<=初[一二三四五六七八九十]))"
        r"(?=\d{2}(?!\d|周年)|\d[:：点时])",
        "，",
    ),
    # 1:45.32; 14:30, 9:00-18:00, 8:05 AM, AM 8:05.
    rule(
        r"(?<![\w.:])(\d?\d):([0-5]\d)\.(\d{1,3})(?![\w.%])",
        lambda m: f"{ordinal(m[1])}分{_sixtieth(m[2])}秒{by_one(m[3])}",
    ),
    rule(r"(?<![\w])(?<!\d )([AaPp])\.?[Mm]\.? ?(?=\d{1,2}[:：]\d\d)", lambda m: _HALVES[m[1].upper() + "M"]),
    rule(
        rf"(?<![\w.])(?<!\d[:=])(?P<times>{_CLOCK}(?: ?{TO} ?{_CLOCK})?)(?:分|(?<=00)点)?"
        r"(?: ?(?P<half>[AaPp]\.?[Mm]\.?)(?!\w))?(?![\w:]|\.\d)",
        _times,
    ),
    rule(rf"(?<![\w:.])(?:(\d{{1,2}}) ?{TO} ?)?(\d{{1,2}}) ?([AaPp])\.?[Mm]\.?(?!\w)", _hours),
    # 12/25是圣诞节, 5/1放假, 5.20号; 1.2024年 is an item of a list.
    rule(rf"(?<![\w./])({_MONTH})/({_DAY})(?=(?:[(（]|日|号)?{HOLIDAYS})(?:日|号)?", r"\1月\2日"),
    rule(rf"(?<=[(（])({_MONTH})/(1[3-9]|2\d|3[01])(?=[)）])", r"\1月\2日"),
    rule(rf"(?<![\w./])({_MONTH})[./]({_DAY})(?:日|号(?![线楼]))", r"\1月\2日"),
    rule(rf"(?<![等大小低高多少]于)(?<=[于在到至从日期：:期])({_MONTH})/({_DAY})(?![\w./%]|的)", r"\1月\2日"),
    rule(
        rf"(?<![\d.])(\d{{1,2}})[·•.](\d{{1,2}})(?={_EVENTS}|放假|小?长假|大促|假期|黄金周|国庆|促销|{_FESTIVALS})",
        _event,
    ),
    rule(r"(?<![\d.])(\d{1,2})[·•](\d{1,2})(?!\d)", _event),
    spoken(rf"(?<![\w.-])\d{{3}}(?={_EVENTS})", by_one),
    rule(r"(?<![\w.])(\d{1,2})\.(?=(?:19|20)\d\d年)", r"\1、"),
    rule(
        rf"([\d零〇一二两三四五六七八九十周期月年][日号月年点分一二三四五六末初底])(?:{TO}|{SPACED_TO}(?=\d+[日号月年点分:：]|[一-鿿]))"
        rf"(?=\d(?!\d?(?:\.\d)? ?(?:°|度))|[一二][一二三四五六七八九零]{{3}}年|{_RESUMED})",
        r"\1到",
    ),
    rule(rf"(?<![\w.])({_MONTH})月({_DAY})(?=[日号])", lambda m: f"{ordinal(m[1])}月{ordinal(m[2])}"),
    # 2023-24赛季, 98/99赛季, 2020—2024年, 80、90后.
    rule(
        rf"(?<![\w./-])({YEAR}|\d\d(?=[/–-]\d\d(?:赛季|学年|财年)))(?:[/~–—-]| [~–—-] |到|至)"
        rf"({YEAR}|\d\d)(?=年(?!级)|赛季|财年|学年|度|届)",
        lambda m: f"{by_one(m[1])}到{by_one(m[2])}",
    ),
    rule(
        rf"(?<![\d.])({YEAR})(?<!00)(年?)(?:{SPACED_TO}|到|至)({YEAR})(?<!00)(?![\d%‰°A-Za-z]|[.-]\d|{COUNTED})",
        lambda m: f"{by_one(m[1])}{m[2]}到{by_one(m[3])}",
    ),
    rule(rf"(?<![\d.])({YEAR})[-/–](\d\d)(?![\w/%-]|[.:]\d|{COUNTED})", _two_years),
    spoken(
        rf"(?<![\d.])({YEAR})(?=届|款|赛季|财年|学年|(?:[一-鿿]{{2,4}})?(?:奥运|世博|大运)|冬奥|亚运|世界杯|欧洲杯|春晚|高考|新年|财报|版|级|秋|春|夏|冬|Q\d|H\d)",
        by_one,
    ),
    spoken(r"(?<![\d.])(?:[5-9]\d|[01]\d|[05])(?=[后前](?![来面边天退续后期])|、\d\d后)", by_one),
    rule(
        rf"(?<![\d.])\d{{1,2}}(?:{TO}\d{{1,2}})?(?=世纪|年代)",
        lambda m: "到".join(map(ordinal, re.split(TO, m[0]))),
    ),
    # 1500年了 and 距今1800多年 last; 618年唐朝建立, 98年抗洪, 2012年以来, 2025全球报告 are years.
    spoken(r"(?:(?<=公元前)|(?<=民国))\d{1,4}(?=年)", ordinal),
    spoken(r"(?<=公元)\d{1,4}(?=年)", by_one),
    spoken(r"(?<![\d.])(?:19|20)\d\d(?<!00)(?=年[之以]?[前后来])", by_one),
    rule(rf"(?<![\d.])(?:{YEAR}|[12]000)(?=年{_LASTS})", _lasting),
    rule(r"(?<=[近超过约逾历经整足共达余用花等住了活隔满有])(?!20[1-3]0)(?:\d{1,3}0{1,3})(?=年)", _lasting),
    spoken(r"(?<![\d.])0\d(?=年)|(?<=['’])\d\d(?=[款年届级])", by_one),
    spoken(r"(?<=\d秒)\d\d(?!\d)|(?<=零[一二三四五六七八九]秒)\d\d(?!\d)", by_one),
    spoken(rf"(?<![\d.])(?<![了近过约第满前])[7-9]\d(?=年(?!{_LASTS}|[代的。，,！]|$))", by_one),
    spoken(
        rf"(?:(?<=^)|(?<=[，。；！？、\s（(在于至到从自]))\d{{2}}[1-9](?=年(?!{_LASTS}|[的。，,]|$))", by_one
    ),
    spoken(
        r"(?<![\d.])\d\d(?=年(?:(?:\d|[一二三四五六七八九十]{1,2}|[01]\d)月|[底初末春夏秋冬]|年[初底]|[上下]半年"
        r"|高考|中考|奥运|冬奥|世界杯|欧洲杯|大选|毕业|入学|出生|生人|考上|参军|结婚|入职))",
        by_one,
    ),
    spoken(r"(?<!\d)(?!1000)(?:1\d|20|21)\d\d(?=年)", by_one),
    rule(r"(?<![\d.~–—-])\d+(?=年(?!级))", _lasting),
    spoken(rf"(?<=[立生始建卒办业作版逝]于){YEAR}(?![\w%‰]|[.:/-]\d|{COUNTED})", by_one),
    spoken(
        r"(?<![\w.,/:~-])(?<![等大小]于)(?<![达涨跌]到)(?<![约共超达近过有足第量价额分数费从])20[0-3]\d(?<!00)"
        rf"(?= ?[一-鿿])(?! ?(?:[余多来几]|手(?!机)|{COUNTED}|{TWO_UNITS}|大?卡))",
        by_one,
    ),
)
