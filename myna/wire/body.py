"""Strict decoding of bodies to structs, and JSON of structs. Invalid JSON is an InvalidRequest."""

import json
import re
from collections import Counter
from collections.abc import Collection
from itertools import accumulate, islice
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from myna.errors import InvalidRequest
from myna.wire import validation_errors
from myna.wire.lenient import dumps

T = TypeVar("T")

CONTAINERS_MAX = 50_000
"""Objects and arrays in one body. 1 MiB of empty ones would block the event loop for 0.2 s."""

DEPTH_MAX = 500
"""Nested objects and arrays. The parser's own limit is Python's recursion limit: 1,000 on 3.11, 10,000 on
3.13."""

NAMES_MAX = 10
"""Names of ignored fields in the header; the others are counted."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")

_OTHER_BYTES = bytes(set(range(256)) - set(b"{}[]"))
_STEP = [1 if byte in b"{[" else -1 for byte in range(256)]

_decoder = msgspec.json.Decoder()


def decode(body: bytes, shape: type[T], *, empty_is_absent: bool = False) -> tuple[dict[str, Any], T]:
    """All fields of a JSON object, and the validated struct. Raises InvalidRequest. With `empty_is_absent`
    an empty text is no value of an optional field: forms of clients send one for what was not filled in.

    Invalid UTF-8, lone surrogates, NaN, duplicate names and deep nesting are refused, so an upstream parses
    the body as this function did. The time is linear in the size of the body.
    """
    if has_too_many_containers(body):
        raise InvalidRequest(f"The body has more than {CONTAINERS_MAX} objects and arrays; send fewer.")
    if _is_too_deep(body):
        raise InvalidRequest(
            f"The body is nested deeper than {DEPTH_MAX} objects and arrays; send it flatter."
        )
    try:
        fields = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise validation_errors.of_bytes(body, error) from None
    if not isinstance(fields, dict):
        raise InvalidRequest("The body must be a JSON object, in braces.")
    _refuse_duplicates(body, fields)
    given = fields
    if empty_is_absent:
        members = msgspec.structs.fields(cast("type[Struct]", shape))
        optional = {member.name for member in members if not member.required}
        given = {name: value for name, value in given.items() if value != "" or name not in optional}
    return fields, convert(given, shape)


def convert(fields: dict[str, Any], shape: type[T], path: str = "") -> T:
    """The validated struct of a decoded object. `path` is where the body has the object, such as `items[2]`.
    Raises InvalidRequest."""
    try:
        return msgspec.convert(fields, shape)
    except msgspec.ValidationError:
        given = {  # 1.0 is a whole number in JSON
            name: int(value) if type(value) is float and value.is_integer() else value
            for name, value in fields.items()
        }
    try:
        return msgspec.convert(given, shape)
    except msgspec.ValidationError as error:
        raise validation_errors.of_fields(given, shape, error, path) from None


def ignored(fields: dict[str, Any], shape: type[Struct]) -> str:
    """The names of the fields that `shape` doesn't have, as the value of a header: `voice, format, 2 more`.
    Empty if there are none.

    Names are untrusted: a long name, or one with other characters than [A-Za-z0-9_.-], is only counted.
    """
    known = shape.__struct_encode_fields__
    return listed([name for name in fields if name not in known])


def listed(names: Collection[str]) -> str:
    """Names that a caller chose, as the value of a header."""
    named = [name for name in islice(names, NAMES_MAX) if _NAME.fullmatch(name)]
    more = len(names) - len(named)
    return ", ".join([*named, f"{more} more"] if more else named)


def has_too_many_containers(body: bytes) -> bool:
    """True for JSON with more than CONTAINERS_MAX objects and arrays. Strings are removed only if all
    brackets together exceed the limit, and those are counted only in a body that could contain as many."""
    if len(body) <= CONTAINERS_MAX or body.count(b"{") + body.count(b"[") <= CONTAINERS_MAX:
        return False
    outside = _outside_strings(body)
    return outside.count(b"{") + outside.count(b"[") > CONTAINERS_MAX


def _is_too_deep(body: bytes) -> bool:
    """True for JSON with more than DEPTH_MAX nested objects and arrays."""
    if len(body) <= DEPTH_MAX or body.count(b"{") + body.count(b"[") <= DEPTH_MAX:
        return False
    brackets = _outside_strings(body).translate(None, _OTHER_BYTES)
    return max(accumulate(_STEP[bracket] for bracket in brackets), default=0) > DEPTH_MAX


def _outside_strings(body: bytes) -> bytes:
    """The body without its strings."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(unescaped.split(b'"')[::2])


def _refuse_duplicates(body: bytes, fields: dict[str, Any]) -> None:
    """Raises InvalidRequest for an object with a duplicate name. The parser keeps the last member.

    Each member of an object has one colon. All other colons are in strings, literally or as \\u003a. If the
    encoded `fields` have fewer colons than the body, the parser dropped a member.
    """
    kept = msgspec.json.encode(fields).count(b":")
    escaped = body.replace(b"\\\\", b"").lower().count(b"\\u003a") if b"\\u003" in body else 0
    if body.count(b":") + escaped != kept:
        if len(body) <= validation_errors.SEARCHED_MAX_BYTES:
            json.loads(body, object_pairs_hook=_unique)
        raise InvalidRequest("The body has an object with a duplicate name; send each name once.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        (duplicate, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise InvalidRequest(
            "duplicate name in one object; send it once.", field=validation_errors.cut(duplicate)
        )
    return members


_encoder = msgspec.json.Encoder()
to_json = _encoder.encode
"""The JSON of a struct in UTF-8, for a response."""


def to_json_text(struct: msgspec.Struct) -> str:
    """The JSON of a struct as text, for a stored response."""
    return to_json(struct).decode()


_LINE_ENDS = {"\u2028": b"\\u2028", "\u2029": b"\\u2029", "\u0085": b"\\u0085"}
"""Characters that many readers of lines take for an end of line, and their escapes."""


def to_event(data: Any, name: str = "") -> bytes:
    """A server-sent event with this JSON."""
    line = dumps(data)
    for character, escape in _LINE_ENDS.items():
        line = line.replace(character.encode(), escape)
    return (f"event: {name}\n".encode() if name else b"") + b"data: %b\n\n" % line
