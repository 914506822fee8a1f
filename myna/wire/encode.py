"""Encodes structs as JSON: compact, keys in the order of the struct's fields."""

import msgspec

_encoder = msgspec.json.Encoder()
to_json = _encoder.encode
"""The JSON of a struct in UTF-8, for a response."""


def to_json_text(struct: msgspec.Struct) -> str:
    """The JSON of a struct as text, for a stored response."""
    return to_json(struct).decode()
