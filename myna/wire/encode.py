"""Encodes structs as JSON text, for answers and for stored responses."""

import msgspec

_encoder = msgspec.json.Encoder()


def to_json(struct: msgspec.Struct) -> str:
    """Compact JSON, keys in the order of the struct's fields."""
    return _encoder.encode(struct).decode()
