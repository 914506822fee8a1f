"""The JSON of upstream servers, read as OpenAI's SDKs read it: what only counts or decorates is no reason to
refuse an answer.

Strict readers fail on a byte order mark, on NaN, and on half of a surrogate pair, by which servers cut an
emoji in two: those are read by Python's `json`.
"""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
BOM = b"\xef\xbb\xbf"
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised for what is no JSON."""
_FALSY = (b"null", b"false", b"0", b'""', b"{}", b"[]")
_REASONS = ("stop", "length", "tool_calls", "content_filter", "function_call", "error")
_OTHER_REASONS = {
    "length": "length", "max_tok": "length", "tool": "tool_calls", "function": "tool_calls",
    "filter": "content_filter", "safety": "content_filter", "sensitive": "content_filter",
    "prohibited": "content_filter",
}  # fmt: skip
"""By a part of a server's word."""
TEXT_PARTS = (None, "text", "output_text")
"""The kinds of parts of a content whose `text` is a part of its text."""
_SURROGATES = frozenset(map(chr, range(0xD800, 0xE000)))
_decode = msgspec.json.Decoder().decode


def loads(data: bytes) -> Any:
    """The value; NaN is None. Raises UNREADABLE."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            text = data.removeprefix(BOM).decode()
            return json.loads(text, parse_constant=lambda _: None)
        except ValueError:
            raise error from None


def is_json(text: str) -> bool:
    """Whether it is whole."""
    try:
        loads(text.encode(errors="surrogatepass"))
    except UNREADABLE:
        return False
    return True


def dumps(value: Any) -> bytes:
    """The JSON of what `loads` returns. Halves of surrogate pairs are escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def repaired(data: bytes) -> tuple[bytes, bytes]:
    """What `loads` reads as JSON for strict readers: the same for one that passes it on, and for one that
    decodes texts, with U+FFFD for halves of surrogate pairs. Raises UNREADABLE."""
    value = loads(data)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return dumps(value), joined(text).encode()


def strict(decode: Callable[[bytes], T], data: bytes) -> T:
    """What `decode` makes of the data, repaired if it must be. Raises UNREADABLE."""
    try:
        return decode(data)
    except UNREADABLE:
        return decode(repaired(data)[1])


def joined(text: str) -> str:
    """The text with its surrogate pairs joined, which arrived in parts. U+FFFD is put in for lone halves."""
    if text.isascii() or _SURROGATES.isdisjoint(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_set(value: Any) -> bool:
    """Whether an optional member says something: an `error` of null, false, 0, "", {} or [] is none."""
    if isinstance(value, msgspec.Raw):
        data = bytes(value)
        return len(data) > 32 or b"".join(data.split()) not in _FALSY
    return bool(value)


def count_of(value: Any) -> int | None:
    """A number of tokens, also if it is a float or a string."""
    try:
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        return None


def text_of(value: Any) -> str:
    """A text, or the text parts of a list joined; empty for anything else."""
    if isinstance(value, list):
        texts = [part for part in objects_of(value) if part.get("type") in TEXT_PARTS]
        return "".join(text_of(part.get("text")) for part in texts)
    return value if isinstance(value, str) else ""


def thought_of(value: Any) -> str:
    """The parts of a list that are thinking (Mistral), joined."""
    return "".join(text_of(part.get("thinking")) for part in objects_of(value))


def json_text_of(value: Any) -> str:
    """A text, or the JSON of an object: the arguments of a function."""
    return dumps(value).decode() if isinstance(value, dict) else text_of(value)


def reason_of(value: Any) -> str:
    """Why an answer has ended, in one of OpenAI's words: clients with types know no others, and servers have
    their own, such as `eos`, `model_length` and `end_turn`. Empty for no text."""
    if not isinstance(value, str) or not value or value in _REASONS:
        return value if isinstance(value, str) else ""
    return next((reason for mark, reason in _OTHER_REASONS.items() if mark in value.lower()), "stop")


def objects_of(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none for anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def object_of(value: Any) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}
