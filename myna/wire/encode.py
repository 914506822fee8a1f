"""Structs to JSON text, as it is both sent and stored."""

import msgspec

_encoder = msgspec.json.Encoder()


def to_json(struct: msgspec.Struct) -> str:
    """Compact JSON, keys in the order of the struct's fields."""
    return _encoder.encode(struct).decode()
