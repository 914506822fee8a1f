"""Patterns of names and references match the whole text, without a trailing newline."""

from typing import Any

import msgspec
import pytest

from myna.wire.farm import Lease, NodeVoice

VOICE = {"voice_id": "a-voice", "name": "A voice", "gender": "female", "language": "zh-CN"}


@pytest.mark.parametrize("field", ["voice_id", "language"])
def test_a_name_with_a_trailing_newline_is_invalid(field: str) -> None:
    assert msgspec.convert(VOICE, NodeVoice)
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert(VOICE | {field: VOICE[field] + "\n"}, NodeVoice)


def test_a_reference_with_a_trailing_newline_is_invalid() -> None:
    asked: dict[str, Any] = {"jobs": 1, "wait_s": 0, "references": ["a" * 64]}
    assert msgspec.convert(asked, Lease)
    with pytest.raises(msgspec.ValidationError, match="references"):
        msgspec.convert(asked | {"references": ["a" * 64 + "\n"]}, Lease)
