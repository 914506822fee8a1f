"""Encodes structs as JSON: compact, keys in the order of the struct's fields. And JSON as events."""

from typing import Any

import msgspec

from myna.wire.lenient import dumps

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
