"""Messages for a request body that is refused: which field, what is wrong, what is right.

msgspec's errors carry no attributes, so their texts are parsed, here only. The texts may change with any
release. pyproject.toml bounds msgspec's version, and tests/wire checks each form that is parsed here against
the installed version.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect
from msgspec.inspect import FloatType, IntType, LiteralType, Metadata, NoneType, StructType, UnionType

from myna.errors import InvalidRequest

_AT: Final = re.compile(r"(?P<message>.*) - at `\$\.?(?P<path>[^`]*)`", re.DOTALL)
_FORMS: Final = re.compile(
    r"Object missing required field `(?P<missing>.*)`"
    r"|Object contains unknown field `(?P<unknown>.*)`"
    r"|Expected `(?P<expected>\w+(?: \| (?!null)\w+)*)(?: \| null)?`(?:, got `(?P<got>\w+)`| (?P<limit>.*))",
    re.DOTALL,
)
_MALFORMED: Final = "JSON is malformed: "
_TRUNCATED: Final = "Input data was truncated"
VALUE_MAX_CHARS = 40
"""The longest part of a wrong value that a message repeats."""
MESSAGE_MAX_CHARS = 300
SEARCHED_MAX_BYTES = 32 * 1024
"""A larger body is not searched for the wrong value: the search takes the event loop up to 1 µs a byte. The
message is then the strict parser's, with the byte."""
INTEGER_MAX_CHARS = 400
_TYPES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_TOO_LARGE = "is a number over 1.7e308; send a smaller one"
_NAN = "NaN is not a number of JSON; send one, or null"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE = "contains half of a surrogate pair, \\ud800 to \\udfff; send both halves or none"


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

    @property
    def pattern(self) -> bool:
        """Whether the value must match a pattern."""
        return "matching regex" in self.limit


def parsed_error(text: str) -> FieldError:
    """Parses the text of a ValidationError."""
    at = _AT.fullmatch(text)
    message, path = (at["message"], at["path"]) if at else (text, "")
    form = _FORMS.fullmatch(message)
    return FieldError(
        message, path, **{name: part or "" for name, part in form.groupdict().items()} if form else {}
    )


def of_bytes(body: bytes, error: Exception) -> InvalidRequest:
    """Why the body is refused as JSON. `error` is the strict parser's."""
    if not body.strip():
        return InvalidRequest("The body is empty; send a JSON object.")
    try:
        text = body.decode()
    except UnicodeDecodeError as wrong:
        return InvalidRequest(f"The body is not valid JSON: it isn't UTF-8 from byte {wrong.start} on.")
    if text.startswith("\N{BYTE ORDER MARK}"):
        return InvalidRequest("The body is not valid JSON: leave out the byte order mark in front.")
    truncated = str(error) == _TRUNCATED
    reason = "it ends too early" if truncated else cut(str(error).removeprefix(_MALFORMED))
    if len(body) > SEARCHED_MAX_BYTES:
        # msgspec also reports a lone surrogate as truncated input.
        surrogate = ", or a string contains half of a surrogate pair" if truncated else ""
        return InvalidRequest(f"The body is not valid JSON: {reason}{surrogate}.")
    try:
        refused_value = _refused_value(json.loads(text, parse_int=_integer))
    except ValueError:
        refused_value = None
    return refused_value or InvalidRequest(f"The body is not valid JSON: {reason}.")


def of_fields(
    fields: dict[str, Any], shape: type, error: msgspec.ValidationError, path: str
) -> InvalidRequest:
    """Which field of a JSON object at `path` does not match `shape`, and what is right."""
    field, wrong = explain(field_error(error), fields, shape)
    return InvalidRequest(wrong, field=f"{path}.{field}" if path else field)


def field_error(error: msgspec.ValidationError) -> FieldError:
    """The parsed error. Its text is cut: it repeats a wrong value of any length."""
    return parsed_error(cut(str(error)))


def explain(error: FieldError, fields: Mapping[str, Any], shape: type) -> tuple[str, str]:
    """The path of the field that is wrong, and the sentence that follows it: what is right."""
    path = cut(error.path)
    if error.missing:
        name = f"{path}.{error.missing}" if path else error.missing
        choices = _choices(shape, name)
        return name, f"is missing; send {choices}." if choices else "is missing."
    if choices := _choices(shape, path):
        elsewhere = _hint(shape, path)
        return path, f"must be {choices}, not {_shown(fields.get(path))}.{elsewhere and f' {elsewhere}'}"
    if error.got:
        value = fields.get(path)
        hint = f'; send "{_shown(value)}"' if error.expected == "str" and _is_short_number(value) else ""
        return path, f"must be {_named(error.expected)}, not {_named(error.got)}{hint}."
    if error.limit:
        if limits := _range(shape, path):
            return path, f"must be {_named(error.expected)} {limits}."
        return path, f"{cut(f'must be {_named(error.expected)} {error.limit}')}."
    return path, f"{cut(error.message)}."


def _refused_value(root: Any) -> InvalidRequest | None:
    """The error of the first value that only a lenient parser accepts: a lone surrogate, NaN or a number that
    is too large."""
    stack: list[tuple[_Path | None, Any]] = [(None, root)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, dict):
            stack += reversed([(_Path(place, f".{name}"), part) for name, part in value.items()])
            stack += ((place, name) for name in value)
        elif isinstance(value, list):
            stack += reversed([(_Path(place, f"[{number}]"), part) for number, part in enumerate(value)])
        elif isinstance(value, str) and _LONE_SURROGATE.search(value):
            return _wrong_value(place, _SURROGATE)
        elif isinstance(value, float) and not math.isfinite(value):
            return _wrong_value(place, _NAN if math.isnan(value) else _TOO_LARGE)
    return None


class _Path(NamedTuple):
    """A linked list of steps from the root to a value. It is joined only for the reported value: with long
    names and many values, joining each path takes quadratic time."""

    parent: "_Path | None"
    step: str


def _wrong_value(place: _Path | None, wrong: str) -> InvalidRequest:
    steps = []
    while place is not None:
        steps.append(place.step)
        place = place.parent
    path = cut("".join(reversed(steps)).removeprefix("."))
    return InvalidRequest(f"{wrong}.", field=path) if path else InvalidRequest(f"The body: {wrong}.")


def _integer(digits: str) -> float:
    """Parses an integer. More than INTEGER_MAX_CHARS digits become infinity: int() takes quadratic time."""
    return float(digits) if len(digits) > INTEGER_MAX_CHARS else int(digits)


def _choices(shape: type, name: str) -> str:
    """The values of a Literal field, in JSON; empty for other fields."""
    match _field_type(shape, name):
        case LiteralType(values=values):
            *others, last = map(json.dumps, values)
            return f"{', '.join(others)} or {last}" if others else last
    return ""


def _range(shape: type, name: str) -> str:
    """The limits of a number field that has a least and a largest value; empty for other fields."""
    match _field_type(shape, name):
        case IntType(ge=least, le=most) | FloatType(ge=least, le=most) if None not in (least, most):
            return f"from {least} to {most}"
    return ""


def _hint(shape: type, name: str) -> str:
    """The sentence that a field has for a wrong value, as `Meta(extra={"hint": …})`; empty without one."""
    match _declared(shape, name):
        case Metadata(extra={"hint": str(hint)}):
            return hint
    return ""


def _field_type(shape: type, name: str) -> inspect.Type | None:
    """The type of a field, of an optional one without null; None without such a field."""
    found = _declared(shape, name)
    if isinstance(found, Metadata):
        found = found.type
    if isinstance(found, UnionType):
        kinds = [kind for kind in found.types if not isinstance(kind, NoneType)]
        found = kinds[0] if len(kinds) == 1 else None
    return found


def _declared(shape: type, name: str) -> inspect.Type | None:
    struct = inspect.type_info(shape)
    if not isinstance(struct, StructType):
        return None
    return next((field.type for field in struct.fields if field.encode_name == name), None)


def _named(types: str) -> str:
    """msgspec's names of types, separated by ` | `, as words."""
    return " or ".join(_TYPES.get(name, name) for name in types.split(" | "))


def _is_short_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _shown(value: Any) -> str:
    """A value in JSON, shortened. Of an object, an array or a long number, only the type."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, int | float) and not _is_short_number(value) and not isinstance(value, bool):
        return "such a number"
    if isinstance(value, str):
        value = cut(value)
    return cut(json.dumps(value, ensure_ascii=False), VALUE_MAX_CHARS)


def cut(text: str, max_chars: int = MESSAGE_MAX_CHARS) -> str:
    """The text in one printable line; of a longer text the beginning and the end."""
    short = text if len(text) <= max_chars else f"{text[: max_chars // 2]}…{text[-max_chars // 2 :]}"
    return "".join(char if char.isprintable() else "�" for char in short)
