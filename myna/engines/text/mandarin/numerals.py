"""Mandarin readings of digits: one by one, or as a number, in any context.

1 is 幺 in digit strings such as phone, room and order numbers and codes, and 一 in years, decimals, versions
and IP addresses.
"""

_DIGITS = "零一二三四五六七八九"
_BY_ONE = str.maketrans("0123456789", _DIGITS)
_SPELLED = str.maketrans("0123456789", "零幺二三四五六七八九")
_PLACES = ("", "十", "百", "千")
_GROUPS = ("", "万", "亿", "万亿")
CARDINAL_DIGITS_MAX = 16


def by_one(digits: str) -> str:
    """Each ASCII digit separately, 1 as 一; other characters are unchanged."""
    return digits.translate(_BY_ONE)


def called(digits: str) -> str:
    """Each ASCII digit separately, 1 as 幺, as in a phone number; other characters are unchanged."""
    return digits.translate(_SPELLED)


def cardinal(digits: str) -> str:
    """The whole number written in ASCII `digits`, as in counting: a leading 2 before 百, 千, 万 or 亿 is 两.
    Over 16 digits they are read one by one."""
    digits = digits.lstrip("0")
    reading = ordinal(digits)
    leads = digits[:1] == "2" and len(digits) % 4 in (0, 1, 3) and 1 < len(digits) <= CARDINAL_DIGITS_MAX
    return "两" + reading[1:] if leads else reading


def ordinal(digits: str) -> str:
    """The same for a number that counts nothing: a leading 2 is 二."""
    digits = digits.lstrip("0")
    if not digits:
        return "零"
    if len(digits) > CARDINAL_DIGITS_MAX:
        return by_one(digits)
    reading = "".join(_groups(digits))
    return reading.removeprefix("一") if reading.startswith("一十") else reading


def _groups(digits: str) -> list[str]:
    """The groups of four digits from the left, each with its 万 or 亿, and 零 for skipped places."""
    width = -len(digits) % 4
    padded = "0" * width + digits
    groups = [padded[at : at + 4] for at in range(0, len(padded), 4)]
    readings: list[str] = []
    for index, group in enumerate(groups):
        if group == "0000":
            continue
        skipped = bool(readings) and (group[0] == "0" or groups[index - 1] == "0000")
        name = _GROUPS[len(groups) - 1 - index]
        rest = any(int(later) for later in groups[index + 1 : index + 2])
        if name == "万亿" and rest:
            name = "万"  # 两万三千亿 shares one 亿
        readings.append(("零" if skipped else "") + _four(group) + name)
    return readings


def _four(group: str) -> str:
    """The reading of four digits, not all zero, without a leading 零."""
    reading = ""
    for place, digit in zip((3, 2, 1, 0), group, strict=True):
        if digit != "0":
            reading += _DIGITS[int(digit)] + _PLACES[place]
        elif reading and not reading.endswith("零"):
            reading += "零"
    return reading.removesuffix("零")


def number(written: str) -> str:
    """A decimal such as `-1,234.50`: 负, the whole part as a number, 点, the decimals one by one."""
    sign = {"-": "负", "+": "正", "±": "正负"}.get(written[:1], "")
    whole, point, rest = written.lstrip("-+±").replace(",", "").partition(".")
    return sign + cardinal(whole) + ("点" + by_one(rest) if point else "")
