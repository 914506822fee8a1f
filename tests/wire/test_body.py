"""Bytes to structs: what is taken, what is refused, and how a refusal reads."""

import json
from typing import Any, Literal

import pytest
from msgspec import Struct

from myna.errors import InvalidRequest
from myna.wire.body import COMPLAINT_MAX_CHARS, decode


class Order(Struct, frozen=True):
    """A shape for these tests."""

    text: str
    count: int = 1
    inner: dict[str, Any] | None = None


def refused(body: bytes) -> str:
    with pytest.raises(InvalidRequest) as raised:
        decode(body, Order)
    assert raised.value.message.isprintable()
    return raised.value.message


@pytest.mark.parametrize(
    "body",
    [
        b'{"text":"x","more":[1.0,-0.0,1e5,true,null],"inner":{"a":{"a":1}}}',
        b' {\t"text" :\r\n "x" } ',
        rb'{"text":"\u0078\/\ud83d\ude00"}',
        b'{"text":"\xe4\xbd\xa0","n":123456789012345678}',
        b'{"text":"x","list":[{"a":1},{"a":1}]}',
        b'{"text":"x","\xe4\xbd\xa0":{"":{"":""}}}',
    ],
)
def test_all_fields_come_back_beside_the_checked_ones(body: bytes) -> None:
    fields, order = decode(body, Order)
    assert fields == json.loads(body)
    assert order.text == fields["text"]
    assert order.count == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"text":"x","text":"y"}',
        b'{"text":"x","text":"x"}',
        b'{"text":"x", "inner": {"a": 1, "a": 1}}',
        b'{"text":"x","list":[[{"a":1,"b":2,"a":3}]]}',
        rb'{"text":"x","\u0074ext":"y"}',
        # As long when it is written again: the float grows by what the second name takes.
        b'{"text":"x","a":1,"a":1,"n":1e5}',
        b'{"text":"x","a":1,"a":1,"n":1000e0}',
    ],
)
def test_a_name_that_stands_twice_is_refused(body: bytes) -> None:
    assert "twice" in refused(body)


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"text":"\xff"}', rb'{"text":"\ud800"}', b'{"text":NaN}', b"\x00"]
)
def test_what_is_no_json_says_so(body: bytes) -> None:
    assert "no valid JSON" in refused(body)


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"text"'])
def test_what_is_no_object_says_so(body: bytes) -> None:
    assert "object" in refused(body)


def test_a_wrong_field_is_named() -> None:
    assert "$.text" in refused(b'{"text":1}')
    assert "text" in refused(b"{}")
    assert "$.count" in refused(b'{"text":"x","count":"1"}')
    assert "$.count" in refused(b'{"text":"x","count":true}')


@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_bottomless_nesting_is_refused(depth: int) -> None:
    refused(b'{"text":"x","inner":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}")


def test_a_long_complaint_is_cut_and_still_names_the_field() -> None:
    class Choice(Struct):
        """What is wrong with its value is told together with the value."""

        word: Literal["a", "b"]

    with pytest.raises(InvalidRequest) as raised:
        decode(b'{"word":"%b"}' % (b"x" * 100_000), Choice)
    assert len(raised.value.message) < COMPLAINT_MAX_CHARS + 100
    assert "$.word" in raised.value.message
