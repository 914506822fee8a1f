"""Bytes to structs, strictly: what isn't the documented JSON is a 400 that names the field, never a crash."""

import json
from collections import Counter
from typing import Any, TypeVar

import msgspec

from myna.errors import InvalidRequest
from myna.wire import complaint

T = TypeVar("T")

_whole = msgspec.json.Decoder()


def decode(body: bytes, shape: type[T]) -> tuple[dict[str, Any], T]:
    """All fields of a JSON object, and those of `shape` checked. Raises InvalidRequest.

    Invalid UTF-8, lone surrogates, NaN, names that stand twice and bottomless nesting are refused: what goes
    on upstream is then exactly what was looked at here.
    """
    try:
        fields = _whole.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(complaint.of_bytes(body, error)) from None
    if not isinstance(fields, dict):
        raise InvalidRequest("The body must be a JSON object, in braces.")
    _refuse_doubles(body, fields)
    try:
        return fields, msgspec.convert(fields, shape)
    except msgspec.ValidationError as error:
        raise InvalidRequest(complaint.of_fields(fields, shape, error)) from None


def _refuse_doubles(body: bytes, fields: dict[str, Any]) -> None:
    """A body in which nothing stood twice is, less its blanks, the same when it is written again: the usual
    case. Where it isn't, escapes and numbers may be the reason too, so a parser that shows every name reads
    it once more.
    """
    try:
        if msgspec.json.encode(fields) != msgspec.json.format(body, indent=-1):
            json.loads(body, object_pairs_hook=_once)
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise InvalidRequest(f"{complaint.cut(twice)}: stands twice in one object; send it once.")
    return found
