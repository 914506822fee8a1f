"""English words for numbers: counts, ordinals, years, and digits one by one."""

from typing import Final

_BELOW_TWENTY: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_ONES: Final = _BELOW_TWENTY.split()
_TENS: Final = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES: Final = ("", "thousand", "million", "billion", "trillion", "quadrillion")
_ORDINALS: Final = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
_DENOMINATORS: Final = {2: "half", 4: "quarter"}
CARDINAL_DIGITS_MAX: Final = 18


def by_one(digits: str, zero: str = "zero") -> str:
    """Each ASCII digit separately; other characters are omitted."""
    return " ".join(zero if digit == "0" else _ONES[int(digit)] for digit in digits if "0" <= digit <= "9")


def cardinal(digits: str) -> str:
    """The whole number written in ASCII `digits`; over 18 digits they are read one by one."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > CARDINAL_DIGITS_MAX:
        return by_one(digits)
    if digits == "0":
        return "zero"
    padded = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [int(padded[at : at + 3]) for at in range(0, len(padded), 3)]
    words = [
        f"{_below_thousand(group)} {_SCALES[len(groups) - 1 - place]}".strip()
        for place, group in enumerate(groups)
        if group
    ]
    return " ".join(words)


def number(written: str) -> str:
    """A decimal such as `-1,234.50`: minus, the whole part, point, the decimals one by one."""
    sign = {"-": "minus ", "+": "plus ", "±": "plus or minus "}.get(written[:1], "")
    whole, point, rest = written.lstrip("-+±").replace(",", "").partition(".")
    return sign + cardinal(whole or "0") + (f" point {by_one(rest)}" if point else "")


def ordinal(digits: str) -> str:
    """`21` as twenty first."""
    words, _, last = cardinal(digits).rpartition(" ")
    named = _ORDINALS.get(last) or (last[:-1] + "ieth" if last.endswith("y") else last + "th")
    return f"{words} {named}".strip()


def year(digits: str) -> str:
    """Four digits as a year: nineteen ninety nine, twenty ten, two thousand five, nineteen oh five."""
    if digits.startswith("200"):
        return cardinal(digits)
    return in_pairs(digits)


def in_pairs(digits: str) -> str:
    """Three or four digits of a name: seven forty seven, one oh one, forty ninety, three hundred."""
    first, second = digits[:-2], digits[-2:]
    if second == "00":
        return cardinal(digits) if first[-1] == "0" else f"{cardinal(first)} hundred"
    return f"{cardinal(first)} {'oh ' if second[0] == '0' else ''}{cardinal(second)}"


def plural(words: str) -> str:
    """The plural of the last word of a number: nineties, tens, hundreds."""
    return words[:-1] + "ies" if words.endswith("y") else words + ("es" if words.endswith("x") else "s")


def fraction(upper: str, lower: str) -> str:
    """3/4 as three quarters, 1/2 as one half, 5/8 as five eighths."""
    below = _DENOMINATORS.get(int(lower)) or ordinal(lower).removeprefix("one ")
    if int(upper) != 1:
        below = "halves" if below == "half" else below + "s"
    return f"{cardinal(upper)} {below}"


def _below_thousand(value: int) -> str:
    words = []
    if value >= 100:
        words.append(f"{_ONES[value // 100]} hundred")
    rest = value % 100
    if rest >= 20:
        words.append(_TENS[rest // 10])
        rest %= 10
    if rest:
        words.append(_ONES[rest])
    return " ".join(words)
