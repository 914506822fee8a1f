"""The texts of the installed msgspec's errors have the forms that are parsed."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from myna.wire.msgspec_errors import field_error, is_truncated, syntax_error


class Inner(Struct, forbid_unknown_fields=True):
    """A nested object."""

    word: Annotated[str, Meta(pattern="^a+$")]


class Outer(Struct, forbid_unknown_fields=True):
    """One field for each form of error."""

    text: str
    count: Annotated[int, Meta(ge=1)] | None = None
    words: Annotated[list[str], Meta(max_length=2)] = []
    inner: list[Inner] = []
    model: Literal["a", "b"] = "a"
    either: str | list[str] | None = None


def parse(value: Any) -> dict[str, Any]:
    """The fields of the parsed error that are set, without the message."""
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, Outer)
    parsed = field_error(str(raised.value))
    assert parsed.message in str(raised.value)
    assert " - at " not in parsed.message
    return {name: part for name, part in parsed._asdict().items() if part and name != "message"}


@pytest.mark.parametrize(
    ("value", "parsed"),
    [
        ({}, {"missing": "text"}),
        ({"text": "", "inner": [{}]}, {"path": "inner[0]", "missing": "word"}),
        ({"text": "", "extra": 1}, {"unknown": "extra"}),
        ({"text": "", "inner": [{"word": "a", "a`b\n": 1}]}, {"path": "inner[0]", "unknown": "a`b\n"}),
        ({"text": 1}, {"path": "text", "expected": "str", "got": "int"}),
        ({"text": "", "count": "1"}, {"path": "count", "expected": "int", "got": "str"}),
        ({"text": "", "words": [None]}, {"path": "words[0]", "expected": "str", "got": "null"}),
        ({"text": "", "either": 1}, {"path": "either", "expected": "str | array", "got": "int"}),
        ([], {"expected": "object", "got": "array"}),
        ({"text": "", "count": 0}, {"path": "count", "expected": "int", "limit": ">= 1"}),
        (
            {"text": "", "words": ["", "", ""]},
            {"path": "words", "expected": "array", "limit": "of length <= 2"},
        ),
        ({"text": "", "model": "c"}, {"path": "model"}),
        (
            {"text": "", "inner": [{"word": "b"}]},
            {"path": "inner[0].word", "expected": "str", "limit": "matching regex '^a+$'", "pattern": True},
        ),
    ],
)
def test_each_form_of_validation_error_is_parsed(value: Any, parsed: dict[str, Any]) -> None:
    assert parse(value) == parsed


def test_a_text_of_another_form_is_the_message() -> None:
    assert field_error("Something else").message == "Something else"


@pytest.mark.parametrize(
    ("body", "truncated", "syntax"),
    [
        (b"{", True, "Input data was truncated"),
        (b"[1,]", False, "trailing comma in array (byte 3)"),
    ],
)
def test_each_form_of_decode_error_is_parsed(body: bytes, truncated: bool, syntax: str) -> None:
    with pytest.raises(msgspec.DecodeError) as raised:
        msgspec.json.decode(body)
    assert (is_truncated(raised.value), syntax_error(raised.value)) == (truncated, syntax)
