"""Bytes to structs, strictly: what isn't the documented JSON is a 400 that names the field, never a crash."""

import json
from typing import Any, TypeVar

import msgspec

from myna.errors import InvalidRequest

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
        raise InvalidRequest(f"The body is no valid JSON: {error}.") from None
    if not isinstance(fields, dict):
        raise InvalidRequest("The body must be a JSON object.")
    _refuse_doubles(body, fields)
    try:
        return fields, msgspec.convert(fields, shape)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The body isn't as documented: {error}.") from None


def _refuse_doubles(body: bytes, fields: dict[str, Any]) -> None:
    """A compact body written again has the same length, so nothing stood in it twice: the usual case.

    All others are read a second time by a parser that shows every name.
    """
    try:
        if len(msgspec.json.encode(fields)) != len(body):
            json.loads(body, object_pairs_hook=_once)
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidRequest(f"{name[:40]}: stands twice in one object.")
        found[name] = value
    return found
