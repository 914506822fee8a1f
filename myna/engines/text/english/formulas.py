"""English readings of formulas: operators, powers, and numbers beside variables."""

import re

from myna.engines.text.english.numerals import cardinal, number
from myna.engines.text.english.tables import OPERATORS, UNITS
from myna.engines.text.rule import NUM, SUPERSCRIPTS, Rule, exponent, rule

_VARIABLES = "(?!st|nd|rd|th)[abcnpqrtuvxyz]{1,3}"
_RIGHT, _LEFT = r"[\w(√π∞.-]", r"[\w)%°²³π]"


def _power(match: re.Match[str]) -> str:
    power = exponent(match)
    if power in ("2", "3"):
        return " squared" if power == "2" else " cubed"
    return " to the power of " + (number(power) if power.lstrip("-+").isdigit() else power)


def _operator(match: re.Match[str]) -> str:
    return f" {OPERATORS[match[0].strip()]} "


def _term(match: re.Match[str]) -> str:
    """A number and the variables that it multiplies: minus two x."""
    sign = "minus " if match[2] else ""
    return f"{match[1]}{sign}{cardinal(match[3])} {' '.join(match[4])}"


FORMULAS: tuple[Rule, ...] = (
    rule(r"(= ?\d*[a-z]?[²³]?) - (?=\d)", r"\1 minus "),
    rule(r"(?<![\w'’.-])([b-hj-z][²³]?) - (?=\d|[a-z][²³])", r"\1 minus "),
    rule(r"(?<=\d)!(?=\s?[=+×]|\s?[*/]\s?\d|\s?-\s?\d+!)", " factorial"),
    rule(r"(?<![\w./])(\d{1,3})/(?=[a-z](?![\w/]))", r"\1 over "),
    rule(r"\|([^|\s]{1,8})\|(?=\s?[-+=≈<>≤≥×]|$|[.,])", r"the absolute value of \1"),
    rule(
        r"(?<=\()(\w{1,3})\s?-\s?(\w{1,3})(?=\)[(²³^/*×])|(?<=\)\()(\w{1,3})-(\w{1,3})(?=\))",
        lambda m: f"{m[1] or m[3]} minus {m[2] or m[4]}",
    ),
    # 2x, 4ac, mc² in an equation.
    rule(
        rf"((?<=[=+×÷*^<>≤≥≈])\s?|(?<=[(/]))(-?)(\d+)({_VARIABLES})"
        r"(?=$|[²³^)+=*/,.;]|\s[-+=×*/<>≤≥])",
        _term,
    ),
    rule(rf"(?<![\w.,])()(-?)(\d+)({_VARIABLES})(?=[²³^]|\s?[=+≤≥]|\s-\s[\dA-Za-z])", _term),
    rule(
        rf"(?<![A-Za-z])([a-z]{{2}})(?=[{SUPERSCRIPTS}])", lambda m: m[0] if m[0] in UNITS else " ".join(m[0])
    ),
    rule(r"(?:(?<=^)|(?<=[\s(,]))-(?=\d+/\d)|(?<=[=(×÷*<>≤≥≈])\s?-\s?(?=[A-Za-zπ√(\d])", " minus "),
    rule(rf"(?<![\w.-])({NUM}|[A-Za-z])\s?-\s?(?={NUM}\s?[-+×÷*=≈≥≤<>]|[A-Za-z]\s?[=≈≥≤<>])", r"\1 minus "),
    # BMI > 30 is obese has its verb.
    rule(
        rf"(?<=[\w)]) ?([<>≥≤]) ?({NUM}) (?=(?:is|are|was|were|means?|indicates?|suggests?)(?!\w))",
        lambda m: f"{OPERATORS[m[1]].removeprefix('is')} {number(m[2])} ",
    ),
    rule(rf"(?<=[=≈+×÷])(\s?{NUM})\s?-\s?(?={NUM})", r"\1 minus "),
    rule(rf"(?<=[\w)π])(?:([{SUPERSCRIPTS}]+)|\^(\([^()\s]{{1,8}}\)|[-+]?\d+|[A-Za-z]))", _power),
    rule(r"(?<=[\w)²³]) - (?=[\w(][^.!?;=]*=)", " minus "),
    rule(
        r"(?<![\w.])(\d+(?:\.\d+)?)(?:x|(?<!\d{4})X)(?!\w|\s?[-+=^²³)]|\s?(?:minus|plus|equals))",
        lambda m: f"{number(m[1])} times",
    ),
    rule(rf"\s?[×÷≈≠≥≤≡∝≫≪∈→]\s?(?={_RIGHT})", _operator),
    rule(r"(?<=[\w)])\s?\*\s?(?=[\w(])", " times "),
    rule(
        rf"(?<={_LEFT})\s[<>]\s(?={_RIGHT})|(?<=[\w)])[<>](?=\d)|(?<=\d)[<>](?=[A-Za-z](?![A-Za-z]*>))",
        _operator,
    ),
    rule(rf"(?<={_LEFT})\s?=\s?(?={_RIGHT})", " equals "),
    rule(r"(?<=[\w)π])\s?\+\s?(?=[\w(π√])", " plus "),
    rule(r"(?:(?<=\d)|(?<=percent)|(?<=dollars))\+(?![\w+])", " plus"),
    rule(r"±\s?(?=[\dA-Za-z])", "plus or minus "),
    rule(r"√\s?(?=[\w(π])", "the square root of "),
)
