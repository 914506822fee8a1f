"""Parses the texts of msgspec's errors, which carry no attributes. No other module parses them.

The texts may change with any release. pyproject.toml bounds msgspec's version, and tests/wire checks each
form that is parsed here against the installed version.
"""

import re
from typing import Final, NamedTuple

_AT: Final = re.compile(r"(?P<message>.*) - at `\$\.?(?P<path>[^`]*)`", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_EXPECTED: Final = r"Expected `(\w+(?: \| (?!null)\w+)*)(?: \| null)?`"
_WRONG_TYPE: Final = re.compile(_EXPECTED + r", got `(\w+)`")
_LIMIT: Final = re.compile(_EXPECTED + r" (.*)", re.DOTALL)
_PATTERN: Final = "matching regex"
_MALFORMED: Final = "JSON is malformed: "
_TRUNCATED: Final = "Input data was truncated"


class FieldError(NamedTuple):
    """A ValidationError. `path` is such as `deep.words[0]`, empty for the whole object; for a missing or an
    unknown field it is that of the object. `expected` and `got` are msgspec's names of JSON types, of which
    `expected` may have several, such as `str | array`; `limit` is what else the value must be, such as
    `of length <= 3`."""

    message: str
    path: str = ""
    missing: str = ""
    unknown: str = ""
    expected: str = ""
    got: str = ""
    limit: str = ""
    pattern: bool = False


def field_error(text: str) -> FieldError:
    """Parses the text of a ValidationError."""
    at = _AT.fullmatch(text)
    message, path = (at["message"], at["path"]) if at else (text, "")
    if missing := _MISSING.fullmatch(message):
        return FieldError(message, path, missing=missing[1])
    if unknown := _UNKNOWN.fullmatch(message):
        return FieldError(message, path, unknown=unknown[1])
    if types := _WRONG_TYPE.fullmatch(message):
        return FieldError(message, path, expected=types[1], got=types[2])
    if limit := _LIMIT.fullmatch(message):
        return FieldError(message, path, expected=limit[1], limit=limit[2], pattern=_PATTERN in limit[2])
    return FieldError(message, path)


def is_truncated(error: Exception) -> bool:
    """Whether a DecodeError says that the JSON ends too early."""
    return str(error) == _TRUNCATED


def syntax_error(error: Exception) -> str:
    """The message of a DecodeError for malformed JSON, with the position in bytes."""
    return str(error).removeprefix(_MALFORMED)
