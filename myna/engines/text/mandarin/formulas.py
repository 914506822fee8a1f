"""Mandarin readings of formulas: Roman numbers, powers, operators and minus signs."""

import re

from myna.engines.text.mandarin.codes import name_part
from myna.engines.text.mandarin.numerals import number, ordinal
from myna.engines.text.mandarin.tables import MONARCHS, OPERATORS, PRICED, UNIT, UNITS
from myna.engines.text.rule import (
    EXPONENTS,
    NUM,
    SUBSCRIPTS,
    SUPERSCRIPTS,
    Rule,
    exponent,
    roman_value,
    rule,
    spoken,
)

_FORMULA = rf"[\w|.()（）+×÷*/^√π=≈≠≥≤<>{SUPERSCRIPTS} -]"
_MINUS = re.compile(rf"(?<=[0-9a-z)）π{SUPERSCRIPTS}]) ?- ?(?=[\w(（√π])|(?<=[A-Z])-(?=[A-Z])", re.ASCII)
_IS_FORMULA = re.compile(rf"[=≈≠×÷√*+{SUPERSCRIPTS}]|-[^-]*[<>≥≤]")
_IS_NAMES = re.compile(r"(?!sin|cos|tan|log|lim)[A-Za-z]{3}|\d{4}-\d\d?-\d|^\d+-\d+-")
_LEFT, _RIGHT = r"[\w)）\]}一-鿿%°′!Ͱ-Ͽ∞|]", r"[\w(（\[{√∛Ͱ-Ͽ∞±一-鿿|.△∠∅-]"


def power(match: re.Match[str]) -> str:
    power = exponent(match)
    if power == "2":
        return "的平方"
    read = number(power) if re.fullmatch(r"[-+]?\d+(?:\.\d+)?", power) else power.replace("-", "负")
    return f"的{read}次方"


def _minus(match: re.Match[str]) -> str:
    """The hyphens of a formula are minus signs: `x²-2x+1=0`, `-15-(-8)=-7`."""
    run = match[0]
    return _MINUS.sub("减", run) if _IS_FORMULA.search(run) and not _IS_NAMES.search(run) else run


def _roman(letters: str) -> str:
    return ordinal(str(roman_value(letters)))


def _operator(match: re.Match[str]) -> str:
    return OPERATORS[match[0].strip()]


FORMULAS: tuple[Rule, ...] = (
    # 第III章, 伊丽莎白II世; CO₂, H2O.
    spoken(
        r"(?<=第)[IVXL]{1,6}(?![A-Za-z])|(?<![A-Za-z0-9])(?![VXL][型区]|X ?世代)[IVXL]{1,6}"
        r"(?= ?(?:世|期|型|级|类|度烧伤|区))",
        _roman,
    ),
    rule(r"(?<=路易)([IVX]{1,5})(?![A-Za-z])", lambda m: _roman(m[1])),
    rule(rf"({MONARCHS})([IVX]{{1,5}})(?![A-Za-z世])", lambda m: f"{m[1]}{_roman(m[2])}世"),
    # Fe³⁺, SO₄²⁻, ¹⁴C.
    rule(
        r"(?<=[\w₀-₉)）\]])([¹²³⁴-⁹]?)([⁺⁻])(?![⁰-⁹¹²³])",
        lambda m: (number(m[1].translate(EXPONENTS)) if m[1] else "") + {"⁺": "正", "⁻": "负"}[m[2]],
    ),
    rule(r"(?<![\w)）\]⁰-⁹¹²³])([⁰-⁹¹²³]{1,3})(?=[A-Z])", lambda m: name_part(m[1].translate(EXPONENTS))),
    rule(r"[₀-₉]+(?:\.[₀-₉]+)*", lambda m: "点".join(map(name_part, m[0].translate(SUBSCRIPTS).split(".")))),
    rule(
        r"(?<=[一-鿿])(I{2,3}|IV|VI{2,3}|IX|X{1,2}(?:IV|IX|VI{0,3}|I{1,3}))(?![\w·])", lambda m: _roman(m[1])
    ),
    # 10-3=7, 计算10-3, x-1>0.
    rule(rf"(?<!{_FORMULA}){_FORMULA}{{3,200}}", _minus),
    rule(rf"((?:计算|算|求|等于|口算|得数|结果是?)[：: ]?{NUM})\s?-\s?(?={NUM})", r"\1减"),
    rule(
        rf"(?<=[\w)）\]π])(?:([{SUPERSCRIPTS}]+)|\^(\([^()\s]{{1,8}}\)|[-+]?\d+(?:\.\d+)?|[A-Za-z]))", power
    ),
    rule(rf"(?<=方) ?/ ?({UNIT})", lambda m: "每" + UNITS[m[1]]),
    rule("(?<=次方) ?- (?=[0-9])", "减"),
    rule(r"(?<=[\dπ)）]) ?[xX×✕*] ?(?=[\d√π(（])", "乘"),
    rule(
        rf"(?<=[\w)）])\s?\*\s?(?=[\w(（])"
        rf"|(?:(?<={PRICED}) ?\*|(?<=[米寸]) ?[xX]) ?(?=[\d一二两三四五六七八九十])"
        r"|(?<=[一-鿿])(?: \* |\*)(?=[\d.]+[^*，。；]{0,12}(?:[)），。；]|$))",
        "乘",
    ),
    rule(r"(?<=[a-z]) ?→ ?(?=[-+±]?(?:\d|∞))", "趋于"),
    rule(r"\|([\w.+减-]{1,12})\|(?=\s?[=<>≥≤])", r"\1的绝对值"),
    rule(rf"(?:(?<={_LEFT})|(?<=^))\s?[×÷≈≠≥≤≡∝≫≪∈∉⊂∪∩→⇒⊥∥∽≌]\s?(?={_RIGHT})", _operator),
    rule(
        r"(?<=[\w)）%°一-鿿])\s?(?:>|<(?![A-Za-z]+>))\s?(?=[\w√π±零一二两三四五六七八九十百千负-])",
        _operator,
    ),
    rule(r"^[<>≥≤≈](?=\s?[\d-])|(?<=[，。；：、（(\s])[<>≥≤≈](?=\s?[\d-])", _operator),
    rule(r"(?<=[\w)）²³%°一-鿿])\s?=\s?(?=[\w(（√π+-])", _operator),
    rule(r"(?<=[\w)）πa-z方])\s?\+\s?(?=[\w(（√π])", _operator),
    rule(r"(?<=[等大小]于)-(?=[A-Za-z√π(（])", "负"),
)
