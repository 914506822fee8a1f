"""Web and mail addresses in words."""

from typing import Final

import regex

from myna.engines.text.mandarin.numerals import by_one

_ADDRESS: Final = regex.compile(
    r"(?:(?:https?|ftp)://|www\.)[!-~]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|(?<![\w.-])(?:[\w-]+\.)+(?:com|cn|net|org|io|ai|top|gov|edu|me|app|dev)(?![\w-])(?:/[!-~]*)?",
    regex.ASCII | regex.IGNORECASE,
)
_SCHEME: Final = regex.compile(r"^(?:(?:https?|ftp)://)?(?:www\.)?|/$", regex.IGNORECASE)
_STOPS: Final = ".,:;!?)'\""
_ADDRESS_PART: Final = regex.compile(r"[A-Za-z]+|[0-9]|[^A-Za-z0-9]")
_IN_MANDARIN: Final = {
    ".": "点",
    "/": "斜杠",
    "@": "艾特",
    ":": "冒号",
    "?": "问号",
    "=": "等于",
    "&": "和",
    "%": "百分号",
    "#": "井号",
    "_": "下划线",
    "+": "加",
    "~": "波浪号",
    "-": "杠",
}
_IN_ENGLISH: Final = {
    ".": "dot",
    "/": "slash",
    "@": "at",
    ":": "colon",
    "?": "question mark",
    "=": "equals",
    "&": "and",
    "%": "percent",
    "#": "hash",
    "_": "underscore",
    "+": "plus",
    "~": "tilde",
    "-": "dash",
}


def addresses_in_words(text: str, *, chinese: bool) -> str:
    """The text with its web and mail addresses in words; the scheme and www. are omitted."""
    said: str = _ADDRESS.sub(lambda found: _address(found[0], chinese), text)
    return said


def _address(address: str, chinese: bool) -> str:
    end = len(address.rstrip(_STOPS))
    names = _IN_MANDARIN if chinese else _IN_ENGLISH
    parts = _ADDRESS_PART.findall(_SCHEME.sub("", address[:end]))
    said = (by_one(part) if chinese and part.isdigit() else names.get(part, part) for part in parts)
    return f" {' '.join(said)} {address[end:]}"
