"""Latin words, addresses and signs as people say them, within Mandarin or English text."""

from collections.abc import Iterator
from typing import Final

import msgspec
import regex

from myna.engines.text.numerals import by_one, cardinal

_ADDRESS: Final = regex.compile(
    r"(?:(?:https?|ftp)://|www\.)[!-~]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|(?<![\w.-])(?:[\w-]+\.)+(?:com|cn|net|org|io|ai|top|gov|edu|me|app|dev)(?![\w-])(?:/[!-~]*)?",
    regex.ASCII | regex.IGNORECASE,
)
_SCHEME: Final = regex.compile(r"^(?:https?|ftp)://(?:www\.)?|/$", regex.IGNORECASE)
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
_NAMED: Final = (
    (regex.compile(r"(?<![A-Za-z])([A-Za-z])\+\+"), r"\1 加加 "),
    (regex.compile(r"(?<![A-Za-z])([A-Z])#"), r"\1 sharp "),
    (regex.compile(r"(?<![A-Za-z0-9])([A-Z])2([A-Z])(?![A-Za-z0-9])"), r"\1 to \2"),
    (regex.compile(r"(?<=\p{Latin})\s*&\s*(?=\p{Latin})"), " and "),
    (regex.compile(r"&"), "和"),
    (regex.compile(r"(?<=[\p{L}\p{N}]\s?)\+(?=\s?[\p{L}\p{N}])"), "加"),
    (regex.compile(r"(?<=[\p{L}\p{N}]\s?)=(?=\s?[\p{L}\p{N}])"), "等于"),
)
_PART: Final = regex.compile(
    r"(?P<letters>(?:\p{Lu}{2,}|(?<!\p{L})\p{L})(?=s?(?!\p{Ll}))|\p{Lu}+(?=\p{Lu}\p{Ll}))"
    r"|(?P<word>\p{Lu}?(?:\p{Ll}|\p{M}|['’](?=\p{L}))+|\p{L}+)|(?P<digits>\d+)|."
)
_WORDS_IN_CAPITALS: Final = (
    "NASA NATO UNESCO UNICEF OPEC AIDS RAM ROM SIM PIN GIF COVID SARS JSON YAML CUDA BIOS DOS ASEAN APEC "
    "WIFI LASER RADAR OPPO VIVO SONY NIKE LEGO ZARA MUJI TOEFL IKEA HELLO WORLD THE AND FOR YOU ARE NOT ALL "
    "NEW HI NO GO TO OF IN IS IT ON MY WE SO UP DO BE"
)
_AS_WORDS: Final = frozenset(_WORDS_IN_CAPITALS.split())
_SPELLED_WORDS: Final = frozenset(("vip", "ai", "id", "ip", "ui", "ux", "tv", "pc", "dj", "ktv", "qq"))
"""Acronyms that people also write in lower case."""
_SAID_AS: Final = ((regex.compile(r"\bSaaS\b"), "sass"), (regex.compile(r"\bPaaS\b"), "pass"))
_LETTERS_MAX: Final = 5
"""A longer word in capitals is a word, not an acronym."""


class Spelled(msgspec.Struct, frozen=True):
    """Letters that are said one by one."""

    letters: str


def addresses_in_words(text: str, *, chinese: bool) -> str:
    """The text with its web and mail addresses in words; the scheme and www. are omitted."""
    said: str = _ADDRESS.sub(lambda found: _address(found[0], chinese), text)
    return said


def signs_in_mandarin(text: str) -> str:
    """The text with +, &, = and names such as C# as people say them in Mandarin."""
    for pattern, written in _NAMED:
        text = pattern.sub(written, text)
    return text


def spoken_words(text: str) -> Iterator[str | Spelled]:
    """A Latin run within Mandarin: its words, letters said one by one, and its digits in Han."""
    for pattern, written in _SAID_AS:
        text = pattern.sub(written, text)
    words: list[str] = []
    for found in _PART.finditer(text):
        part = found[0]
        if part in _SPELLED_WORDS or (found["letters"] and not _is_word(part)):
            if words:
                yield " ".join(words)
                words = []
            yield Spelled(part.upper())
        elif found["digits"]:
            if words:
                yield " ".join(words)
                words = []
            yield cardinal(part, pairs=False) if len(part) <= 2 else by_one(part)
        elif found["letters"] or found["word"]:
            words.append(part)
    if words:
        yield " ".join(words)


def _is_word(letters: str) -> bool:
    return letters in _AS_WORDS or len(letters) > _LETTERS_MAX or letters == "a"


def _address(address: str, chinese: bool) -> str:
    end = len(address.rstrip(_STOPS))
    names = _IN_MANDARIN if chinese else _IN_ENGLISH
    parts = _ADDRESS_PART.findall(_SCHEME.sub("", address[:end]))
    said = (by_one(part) if chinese and part.isdigit() else names.get(part, part) for part in parts)
    return f" {' '.join(said)} {address[end:]}"
