"""Bytes to structs: which bodies are accepted, which are refused, and the message of a refusal."""

import json
import time
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct

from myna.errors import InvalidRequest
from myna.wire.body import CONTAINERS_MAX, DEPTH_MAX, NAMES_MAX, decode, ignored
from myna.wire.farm import Lease, NodeVoice
from myna.wire.validation_errors import MESSAGE_MAX_CHARS, SEARCHED_MAX_BYTES, parsed_error


class Deep(Struct, frozen=True):
    """A nested struct."""

    word: str


class Order(Struct, frozen=True):
    """A struct for these tests."""

    text: str
    count: int = 1
    inner: dict[str, Any] | None = None
    words: Annotated[list[str], Meta(max_length=3)] | None = None
    deep: Deep | None = None
    model: Literal["a", "b"] = "a"
    form: Literal["a", "b", "c"] | None = None
    speed: Annotated[float, Meta(ge=0.25, le=4)] | None = None
    number: Annotated[int, Meta(ge=1, le=9)] = 1
    own: Annotated[Literal["a"], Meta(extra={"hint": "The others are elsewhere."})] = "a"


def refused(body: bytes) -> str:
    with pytest.raises(InvalidRequest) as raised:
        decode(body, Order)
    assert raised.value.message.isprintable()
    return raised.value.message


@pytest.mark.parametrize(
    "body",
    [
        *(b'{"text":"x","more":[1.0,-0.0,1e5,true,null],"inner":{"a":{"a":1}}}', b' {\t"text" :\r\n "x" } '),
        *(rb'{"text":"\u0078\/\ud83d\ude00"}', b'{"text":"\xe4\xbd\xa0","n":123456789012345678}'),
        *(b'{"text":"x","list":[{"a":1},{"a":1}]}', b'{"text":"x","\xe4\xbd\xa0":{"":{"":""}}}'),
    ],
)
def test_decode_returns_all_fields_beside_the_checked_ones(body: bytes) -> None:
    fields, order = decode(body, Order)
    assert fields == json.loads(body)
    assert order.text == fields["text"]
    assert order.count == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"text":"x","text":"x"}',
        rb'{"text":"x","\u0074ext":"y"}',
        # Written again it is as long: the float grows by as much as the second name takes.
        b'{"text":"x","a":1,"a":1,"n":1e5}',
        b'{"text":"x","a":1,"a":1,"n":1000e0}',
    ],
)
def test_a_duplicate_name_is_refused(body: bytes) -> None:
    assert "duplicate name" in refused(body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "it ends too early"),
        (b'{"text":"x', "it ends too early"),
        (b'{"text":"\xff"}', "it isn't UTF-8 from byte 9 on"),
        (b"\x00", "invalid character (byte 0)"),
        (b'{"text":"x",}', "trailing comma in object (byte 12)"),
        (b'\xef\xbb\xbf{"text":"x"}', "leave out the byte order mark in front"),
        ('{"text":"x"}'.encode("utf-16-le"), "object keys must be strings (byte 1)"),
    ],
)
def test_invalid_json_is_refused_with_its_position(body: bytes, why: str) -> None:
    assert refused(body) == f"The body is not valid JSON: {why}."


@pytest.mark.parametrize("body", [b"", b" \r\n"])
def test_an_empty_body_is_refused(body: bytes) -> None:
    assert refused(body) == "The body is empty; send a JSON object."


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (rb'{"text":"\ud800"}', "text"),
        (rb'{"text":"x\udc00x"}', "text"),
        (rb'{"text":"x","inner":{"a":[1,{"b":"\ud83dx"}]}}', "inner.a[1].b"),
        (rb'{"text":"x","inner":{"\ud800":1}}', "inner"),
        (rb'{"\ud800":1}', "The body"),
    ],
)
def test_the_error_of_an_unpaired_surrogate_names_its_field(body: bytes, field: str) -> None:
    said = refused(body)
    assert said.startswith(f"{field}: contains half of a surrogate pair")


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (b"1e999", "over 1.7e308"),
        (b"-1e999", "over 1.7e308"),
        (b"Infinity", "over 1.7e308"),
        (b"1" + b"0" * 5000, "over 1.7e308"),
        (b"NaN", "NaN"),
    ],
)
def test_the_error_of_an_invalid_or_too_large_number_names_its_field(number: bytes, why: str) -> None:
    said = refused(b'{"text":"x","inner":{"a":[0,' + number + b"]}}")
    assert said.startswith("inner.a[1]: ")
    assert why in said


def test_a_long_name_above_many_values_is_refused_in_bounded_time() -> None:
    body = b'{"%b":[%b0]}' % (b"x" * 400_000, rb'"\u0041",' * 30_000 + rb'"\ud800",')
    began_s = time.process_time()
    assert len(refused(body)) < 2 * MESSAGE_MAX_CHARS
    assert time.process_time() - began_s < 1


def test_a_body_that_is_not_an_object_is_refused() -> None:
    for body in (b"[]", b"null", b"1", b'"text"'):
        assert "object" in refused(body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "text: is missing."),
        (b'{"text":null}', "text: must be a string, not null."),
        (b'{"text":true}', "text: must be a string, not true or false."),
        (b'{"text":"x","count":"1"}', "count: must be an integer, not a string."),
        (b'{"text":"x","count":true}', "count: must be an integer, not true or false."),
        (b'{"text":"x","inner":[]}', "inner: must be an object, not an array."),
        (b'{"text":"x","words":[1,"2"]}', "words[0]: must be a string, not an integer."),
        (b'{"text":"x","deep":{}}', "deep.word: is missing."),
        (b'{"text":"x","words":["1","2","3","4"]}', "words: must be an array of length <= 3."),
        (b'{"text":"x","form":"d"}', 'form: must be "a", "b" or "c", not "d".'),
        (b'{"text":"x","speed":4.5}', "speed: must be a number from 0.25 to 4."),
        (b'{"text":"x","speed":"1"}', "speed: must be a number, not a string."),
        (b'{"text":"x","number":0}', "number: must be an integer from 1 to 9."),
        (b'{"text":"x","own":"b"}', 'own: must be "a", not "b". The others are elsewhere.'),
    ],
)
def test_the_error_names_the_field_and_what_it_must_be(body: bytes, said: str) -> None:
    assert refused(body) == said


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b'"gpt-4"', '"gpt-4"'),
        (b"5", "5"),
        (b"null", "null"),
        (b"true", "true"),
        (b"{}", "an object"),
        (b"[1]", "an array"),
        (b"9" * 4000, "such a number"),
    ],
)
def test_the_error_of_a_wrong_value_lists_the_allowed_values(value: bytes, shown: str) -> None:
    assert refused(b'{"text":"x","model":' + value + b"}") == f'model: must be "a" or "b", not {shown}.'


def test_the_error_of_a_missing_field_lists_the_allowed_values() -> None:
    class Choice(Struct):
        """One required field."""

        model: Literal["a", "b"]

    with pytest.raises(InvalidRequest) as raised:
        decode(b"{}", Choice)
    assert raised.value.message == 'model: is missing; send "a" or "b".'


@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, CONTAINERS_MAX, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    inner = depth - 1
    assert "objects and arrays" in refused(b'{"inner":' + b'{"a":' * inner + b"1" + b"}" * inner + b"}")
    assert "objects and arrays" in refused(b"[{" * depth)


def test_nesting_is_refused_at_the_same_depth_by_every_interpreter() -> None:
    """What is taken can be written again. Brackets in strings and containers side by side are not nested."""
    inner = DEPTH_MAX - 1
    body = rb'{"text":"[\"{\\","a":%b}' % (b"[" * inner + b"[],{}" * 300 + b"]" * inner)
    assert "nested deeper than 500 " in refused(body)
    body = body.replace(b"[],{}" * 300, b"1,2")
    assert json.loads(msgspec.json.encode(decode(body, Order)[0])) == json.loads(body)
    decode(b'{"text":"x","a":[%b]}' % b",".join([b"[]"] * (2 * DEPTH_MAX)), Order)


def test_a_long_validation_error_is_truncated_and_names_the_field() -> None:
    class Choice(Struct):
        """The error of a wrong value quotes it."""

        word: Literal["a", "b"]

    with pytest.raises(InvalidRequest) as raised:
        decode(b'{"word":"%b"}' % (b"x" * 100_000), Choice)
    assert len(raised.value.message) < MESSAGE_MAX_CHARS + 100
    assert raised.value.message.startswith('word: must be "a" or "b", not "xxx')


class Members(list[Any]):
    """The members of an object, duplicates included."""


NAMES = st.sampled_from(["a", "b", ":", "\\", '"', "\\u003a"])
VALUES = st.recursive(
    NAMES | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=3).map(Members),
    max_leaves=8,
)


def written(value: Any, colon: str) -> str:
    """JSON, with the colons of strings written as they are or escaped."""
    if isinstance(value, Members):
        return "{" + ",".join(f"{written(k, colon)}: {written(v, colon)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(item, colon) for item in value) + "]"
    return json.dumps(value).replace(":", colon)


def has_duplicate(value: Any) -> bool:
    if isinstance(value, Members):
        names = [name for name, _ in value]
        return len(set(names)) < len(names) or any(has_duplicate(part) for _, part in value)
    return isinstance(value, list) and any(has_duplicate(part) for part in value)


@settings(max_examples=60)
@given(VALUES, st.sampled_from([":", r"\u003a", r"\u003A"]))
def test_a_body_is_refused_if_and_only_if_it_has_a_duplicate_name(value: Any, colon: str) -> None:
    body = b'{"text":"x","more":%b}' % written(value, colon).encode()
    if has_duplicate(value):
        assert "duplicate name" in refused(body)
    else:
        assert decode(body, Order)[0] == json.loads(body)


def test_the_error_of_a_large_body_gives_the_position() -> None:
    for wrong, why in ((b"NaN", "byte"), (rb'"\ud800"', "surrogate pair")):
        said = refused(b'{"text":"x","a":[%b%b]}' % (b"1," * SEARCHED_MAX_BYTES, wrong))
        assert said.startswith("The body is not valid JSON: ")
        assert why in said
    assert "duplicate name" in refused(b'{"text":"%b","a":1,"a":1}' % (b"x" * SEARCHED_MAX_BYTES))


def test_objects_and_arrays_are_counted_outside_of_strings() -> None:
    many = b",".join([b"[]"] * (CONTAINERS_MAX - 2))
    assert decode(rb'{"text":"[\"{\\","a":[%b]}' % many, Order)
    assert "objects and arrays" in refused(rb'{"text":"[\"{\\","a":[%b,{}]}' % many)


@pytest.mark.parametrize(
    "names, message",
    [
        ([], ""),
        (["text", "count"], ""),
        (["text", "voice", "format"], "voice, format"),
        ([f"n{n}" for n in range(NAMES_MAX)], "n0, n1, n2, n3, n4, n5, n6, n7, n8, n9"),
        (
            ["count", *(f"n{n}" for n in range(NAMES_MAX + 3))],
            "n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, 3 more",
        ),
        (["a\r\nSet-Cookie: b", "voice", "", "好", "c\n", "d, e", "f" * 41], "voice, 6 more"),
        (["a\x00"], "1 more"),
        (["f" * 40], "f" * 40),
    ],
    ids=["none", "known", "two", "ten", "thirteen", "hostile", "no name", "longest"],
)
def test_ignored_fields_are_listed_as_a_valid_header_value(names: list[str], message: str) -> None:
    assert ignored(dict.fromkeys(names), Order) == message


class Strict(Struct, forbid_unknown_fields=True):
    """Forms of error that no other struct here has."""

    word: Annotated[str, Meta(pattern="^a$")]
    either: str | list[str] | None = None


@pytest.mark.parametrize(
    ("value", "parsed"),
    [
        ({"word": "a", "a`b\n": 1}, {"unknown": "a`b\n"}),
        ({"word": "a", "either": 1}, {"path": "either", "expected": "str | array", "got": "int"}),
        ({"word": "b"}, {"path": "word", "expected": "str", "limit": "matching regex '^a$'"}),
    ],
)
def test_an_error_of_the_installed_msgspec_has_a_form_that_is_parsed(value: Any, parsed: Any) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, Strict)
    found = parsed_error(str(raised.value))._asdict()
    assert {name: part for name, part in found.items() if part and name != "message"} == parsed
    assert parsed_error(str(raised.value)).pattern is ("limit" in parsed)
    assert parsed_error("Something else").message == "Something else"


@pytest.mark.parametrize(
    ("field", "value"), [("voice_id", "a-voice"), ("language", "zh-CN"), ("references", ["a" * 64])]
)
def test_a_name_with_a_trailing_newline_is_invalid(field: str, value: Any) -> None:
    voice = {"voice_id": "a-voice", "name": "A voice", "gender": "female", "language": "zh-CN"}
    given, shape = (voice, NodeVoice) if field in voice else ({"jobs": 1, "wait_s": 0}, Lease)
    assert msgspec.convert(given | {field: value}, shape)
    longer = [each + "\n" for each in value] if isinstance(value, list) else value + "\n"
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert(given | {field: longer}, shape)


class Optional(Struct):
    needed: str
    speed: float | None = None
    kind: Literal["a", "b"] | None = None


def test_an_empty_text_is_no_value_of_an_optional_field_where_forms_send_one() -> None:
    body = b'{"needed":"","speed":"","kind":"","more":""}'
    fields, found = decode(body, Optional, empty_is_absent=True)
    assert found == Optional("") and fields["speed"] == ""
    with pytest.raises(InvalidRequest):
        decode(body, Optional)


class Counted(Struct):
    n: Annotated[int, Meta(ge=1, le=128)]
    speed: float


def test_a_whole_number_may_have_a_fraction_of_zero() -> None:
    fields, found = decode(b'{"n":1.0,"speed":2.0}', Counted)
    assert (found.n, type(found.n)) == (1, int) and type(fields["n"]) is float
    for wrong in (b"1.5", b"200.0", b"1e300"):
        with pytest.raises(InvalidRequest, match=r"^n: "):
            decode(b'{"n":%b,"speed":1}' % wrong, Counted)
