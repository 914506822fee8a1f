"""What is said of a body that can't be taken: which field, what is wrong with it, what would be right."""

import json
import math
import re
from typing import Any, NamedTuple

import msgspec
from msgspec.inspect import LiteralType, StructType, type_info

VALUE_MAX_CHARS = 40
"""What is repeated of a wrong value."""
COMPLAINT_MAX_CHARS = 300
INTEGER_MAX_CHARS = 400

_KINDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_AT = re.compile(r"(?P<what>.*) - at `\$\.?(?P<path>[^`]*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`", re.DOTALL)
_ENDS_EARLY = "Input data was truncated"
_TOO_LARGE = "is a number over 1.7e308; send a smaller one"
_NO_NUMBER = "NaN is no number of JSON; send one, or null"
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")
_HALF = "holds half of a surrogate pair, \\ud800 to \\udfff; send both halves or none"
_EXPECTED = re.compile(r"Expected `(\w+)(?: \| null)?`")
_WRONG_KIND = re.compile(_EXPECTED.pattern + r", got `(\w+)`")


def of_bytes(body: bytes, error: Exception) -> str:
    """Why these bytes are no JSON that is taken; `error` is what the strict parser said."""
    if not body.strip():
        return "The body is empty; send a JSON object."
    if isinstance(error, RecursionError):
        return "The body is nested too deeply."
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        return f"The body is no valid JSON: it isn't UTF-8 from byte {wrong.start} on."
    if text.startswith("\N{BYTE ORDER MARK}"):
        return "The body is no valid JSON: leave out the byte order mark in front."
    try:
        unfit = _unfit(json.loads(text, parse_int=_integer))
    except (ValueError, RecursionError):
        unfit = ""
    return unfit or f"The body is no valid JSON: {_said_of_json(error)}."


def of_fields(fields: dict[str, Any], shape: type, error: msgspec.ValidationError) -> str:
    """What is wrong with a field of a JSON object; `error` is what the check against `shape` said."""
    found = _AT.fullmatch(str(error))
    what, path = (found["what"], found["path"]) if found else (str(error), "")
    if missing := _MISSING.fullmatch(what):
        name = f"{path}.{missing['name']}" if path else missing["name"]
        return f"{name}: is missing{_instead(_choices(shape, name))}."
    if choices := _choices(shape, path):
        return f"{path}: must be {choices}, not {_shown(fields.get(path))}."
    if kinds := _WRONG_KIND.fullmatch(what):
        return f"{path}: {_other_kind(kinds[1], kinds[2], fields.get(path))}."
    limit = _EXPECTED.sub(lambda kind: f"must be {_KINDS.get(kind[1], kind[1])}", what)
    return f"{cut(path)}: {cut(limit)}."


def _unfit(whole: Any) -> str:
    """What is said of the first value in which a lenient parser took what isn't taken: half a surrogate pair,
    or a number that is none or too large. Empty where there is no such value."""
    waiting: list[tuple[_Place | None, Any]] = [(None, whole)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, dict):
            waiting += reversed([(_Place(place, f".{name}"), part) for name, part in value.items()])
            waiting += ((place, name) for name in value)
        elif isinstance(value, list):
            waiting += reversed([(_Place(place, f"[{number}]"), part) for number, part in enumerate(value)])
        elif isinstance(value, str) and _HALF_A_PAIR.search(value):
            return f"{_path(place)}: {_HALF}."
        elif isinstance(value, float) and not math.isfinite(value):
            return f"{_path(place)}: {_NO_NUMBER if math.isnan(value) else _TOO_LARGE}."
    return ""


class _Place(NamedTuple):
    """A step into a value, and the place it is taken from. A path is only written out for the one place that
    is named: names may be long and many places lie below one."""

    above: "_Place | None"
    step: str


def _path(place: _Place | None) -> str:
    steps = []
    while place is not None:
        steps.append(place.step)
        place = place.above
    return cut("".join(reversed(steps)).removeprefix(".")) or "The body"


def _integer(digits: str) -> float:
    """An integer that no number of another program holds is as good as infinite."""
    return float(digits) if len(digits) > INTEGER_MAX_CHARS else int(digits)


def _said_of_json(error: Exception) -> str:
    said = str(error).removeprefix("JSON is malformed: ")
    return "it ends too early" if said == _ENDS_EARLY else cut(said)


def _choices(shape: type, name: str) -> str:
    """The values of a field that only takes some; empty for any other field."""
    described = type_info(shape)
    if not isinstance(described, StructType):
        return ""
    for field in described.fields:
        if field.encode_name == name and isinstance(field.type, LiteralType):
            return " or ".join(json.dumps(value) for value in field.type.values)
    return ""


def _instead(choices: str) -> str:
    return f"; send {choices}" if choices else ""


def _other_kind(wanted: str, got: str, value: Any) -> str:
    """Where a number stands for a string, it is shown as one."""
    said = f"must be {_KINDS.get(wanted, wanted)}, not {_KINDS.get(got, got)}"
    if wanted == "str" and _is_short_number(value):
        return f'{said}; send "{_shown(value)}"'
    return said


def _is_short_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _shown(value: Any) -> str:
    """A value as it stands in JSON; of a longer one its kind."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, int | float) and not _is_short_number(value) and not isinstance(value, bool):
        return "such a number"
    return cut(json.dumps(value, ensure_ascii=False), VALUE_MAX_CHARS)


def cut(text: str, most: int = COMPLAINT_MAX_CHARS) -> str:
    """Begin and end of what is too long, in one printable line."""
    plain = "".join(char if char.isprintable() else "�" for char in text)
    return plain if len(plain) <= most else f"{plain[: most // 2]}…{plain[-most // 2 :]}"
