"""English numbers in words where espeak-ng reads them otherwise than people: money, years, phone numbers."""

import re
from collections.abc import Callable
from typing import Final

_Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

_CURRENCIES: Final = {"$": ("dollar", "cents"), "€": ("euro", "cents"), "£": ("pound", "pence")}
_UNITS: Final = {
    "km/h": "kilometers per hour",
    "mph": "miles per hour",
    "km": "kilometers",
    "cm": "centimeters",
    "mm": "millimeters",
    "kg": "kilograms",
    "mg": "milligrams",
    "ml": "milliliters",
    "lbs": "pounds",
    "°C": "degrees Celsius",
    "°F": "degrees Fahrenheit",
}
_HALVES: Final = {
    "1/2": "one half",
    "1/3": "one third",
    "2/3": "two thirds",
    "1/4": "one quarter",
    "3/4": "three quarters",
}


def in_words(text: str) -> str:
    """The text with such numbers in words, or in digits that espeak-ng reads as wanted."""
    for pattern, written in _RULES:
        text = pattern.sub(written, text)
    return text


def _money(found: re.Match[str]) -> str:
    sign, whole, decimals, scale = found.group("sign", "whole", "decimals", "scale")
    large, small = _CURRENCIES[sign]
    many = large if (whole, decimals, scale) == ("1", None, None) else large + "s"
    if scale or (decimals and len(decimals) != 2):
        return f"{whole}{'.' + decimals if decimals else ''}{' ' + scale if scale else ''} {many}"
    return f"{whole} {many}" + (f" {int(decimals)} {small}" if decimals and int(decimals) else "")


def _money_after(found: re.Match[str]) -> str:
    return f"{found[1]} {_CURRENCIES[found[2]][0]}s"


def _phone(found: re.Match[str]) -> str:
    """The digits one by one, with a pause between the groups."""
    return ", ".join(" ".join(group) for group in re.findall(r"\d+", found[0]))


def _rule(pattern: str, written: str | Callable[[re.Match[str]], str]) -> _Rule:
    return re.compile(pattern, re.ASCII), written


_RULES: Final[tuple[_Rule, ...]] = (
    _rule(
        r"(?P<sign>[$€£])\s?(?P<whole>\d+(?:,\d{3})*)(?:\.(?P<decimals>\d+))?"
        r"(?: (?P<scale>thousand|million|billion|trillion)\b)?(?!\.?\d)",
        _money,
    ),
    _rule(r"(?<![\d.,])(\d+(?:,\d{3})*(?:\.\d+)?)\s?([€£$])", _money_after),
    _rule(r"(?<![\w.])(?:\+?\d{1,3}[ -]?)?(?:\(\d{3}\) ?|\d{3}[ -])?\d{3}-\d{4}(?![\w-])", _phone),
    _rule(r"(?<=\d)\s?(km/h|mph|km|cm|mm|kg|mg|ml|lbs|°C|°F)(?!\w)", lambda found: " " + _UNITS[found[1]]),
    _rule(r"(?<![\w./])(?:[123]/[234])(?![\w/])", lambda found: _HALVES.get(found[0], found[0])),
    _rule(r"(?<![\w.,-])(\d{1,4})[-–](\d{1,4})(?![\w-]|[.,]\d)", r"\1 to \2"),
    _rule(r"(?<![\w.,-])(1[6-9])0([1-9])(?![\w-]|[.,]\d)", r"\1 oh \2"),
    _rule(r"(?<![\w.,-])(1[6-9])([1-9]\d)(?![\w-]|[.,]\d)", r"\1 \2"),
    _rule(r"\bPh\.D\b", "PHD"),
)
