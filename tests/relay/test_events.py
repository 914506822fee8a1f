"""Server-sent events as they are passed on: the parts in which they arrive make no difference."""

import itertools
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from myna.gateway.relay.events import BUFFERED_MAX_BYTES, BrokenEvents, EventRelay
from tests.http.cpu_time import cpu_s, reference
from tests.rig.answers import DONE, ERROR, HTML, chunk, event

ROLE = event(chunk("m", {"role": "assistant", "content": ""}))
WORD = event(chunk("m", {"content": "春 😀"}))
STOP = event(chunk("m", {}, "stop"))
GOOD = ROLE + WORD + STOP
READ_MAX_BYTES = 4 * BUFFERED_MAX_BYTES
LONG = event(chunk("m", {"content": "x" * (BUFFERED_MAX_BYTES + 10)}))
COMMENT = b": still here\n\n"


def relayed(body: bytes, sizes: list[int], relay: EventRelay | None = None) -> tuple[bytes, EventRelay]:
    """What is sent for a body that arrives in parts of these sizes, repeated."""
    relay, sent, at, number = relay or EventRelay(), b"", 0, 0
    while at < len(body):
        size = sizes[number % len(sizes)]
        sent += relay.feed(body[at : at + size])
        at, number = at + size, number + 1
    return sent + relay.close(), relay


def splits(size: int, *ends: int) -> Iterator[list[int]]:
    """Part sizes of a body: each split in two of a small one; of a large one those about its events' ends."""
    yield [size]
    small = size < 2000
    yield from ([1], [7], [1, 50, 3]) if small else ([1500], [16_000], [1, 60_000, 200])
    near = {at + step for at in (*ends, BUFFERED_MAX_BYTES) for step in range(-3, 4)}
    for at in range(1, size) if small else sorted(near):
        if 0 < at < size:
            yield [at, size - at]


def same(body: bytes) -> tuple[bytes, bytes]:
    """A stream that passes as it is, but for its end."""
    return body + DONE, body


CASES = {
    "done": (GOOD + DONE, GOOD),
    "no done": (GOOD, GOOD),
    "crlf": ((GOOD + DONE).replace(b"\n", b"\r\n"), GOOD),
    "cr": ((GOOD + DONE).replace(b"\n", b"\r"), GOOD),
    "mixed line ends": (ROLE.replace(b"\n", b"\r\n") + WORD + STOP.replace(b"\n", b"\r"), GOOD),
    "after done": (GOOD + DONE + WORD + b"rubbish", GOOD),
    "comments": (COMMENT + ROLE + COMMENT + WORD + STOP + DONE, ROLE + COMMENT + WORD + STOP),
    "blank lines": (b"\n\n\n" + ROLE + b"\n\n\n" + WORD + b"\n" + STOP + DONE, GOOD),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD + DONE, GOOD),
    "no space": ((GOOD + DONE).replace(b"data: ", b"data:"), GOOD.replace(b"data: ", b"data:")),
    "event names": (b"event: x\nid: 7\nretry: 10\n" + GOOD, b"event: x\nid: 7\nretry: 10\n" + GOOD),
    "a long event": (ROLE + LONG + WORD + STOP + DONE, ROLE + LONG + WORD + STOP),
    "a long event first": (LONG + STOP + DONE, LONG + STOP),
    "a long event last": (ROLE + LONG.replace(b'"finish_reason": null', b'"finish_reason": "stop"'),) * 2,
    "the end without a blank line": (GOOD + b"data: [DONE]", GOOD),
    "the last chunk without a blank line": (ROLE + STOP.rstrip(), ROLE + STOP),
    "no error": same(event(chunk("m", {"content": "x"}, error=None)) + GOOD),
    "done with a space": (GOOD + b"data: [DONE] \n\n", GOOD),
    "events without data": (
        b"data:\n\nevent: ping\ndata: \n\nretry: 5\n\nid: 7\n\n"
        + ROLE
        + b"event: ping\ndata:\n\n"
        + WORD
        + STOP
        + DONE,
        GOOD,
    ),
    "white space before the data": same(GOOD.replace(b"data: ", b"data: \t ")),
    "unknown fields": (
        b"a word\nx-server: up\n" + GOOD + b"nothing\n\n" + DONE,
        b"a word\nx-server: up\n" + GOOD,
    ),
    "half of a surrogate pair": same(
        rb'data: {"choices": [{"delta": {"content": "\ud83d"}}]}' + b"\n\n" + GOOD
    ),
    "not a number": same(b'data: {"choices": [], "error": "", "logprob": NaN}\n\n' + GOOD),
    "MiniMax's success": same(event(chunk("m", {}, base_resp={"status_code": 0})) + GOOD),
    "choices after an event without": (event({"conversation": 7}) + GOOD + DONE, GOOD),
    "done within a word": same(ROLE + event(chunk("m", {"content": "[DONE]"})) + STOP),
}


@pytest.mark.parametrize("name", CASES)
def test_a_good_stream_leaves_whole_however_it_arrives(name: str) -> None:
    body, expected = CASES[name]
    ends = [found.end() for found in re.finditer(rb"[\r\n]", body)]
    for sizes in splits(len(body), *ends):
        sent, relay = relayed(body, sizes)
        assert sent == expected, sizes
        assert relay.finished


@pytest.mark.parametrize(
    ("body", "kind", "begun"),
    [
        (b"", "NoEvents", False),
        (COMMENT, "NoEvents", False),
        (HTML, "NoEvents", False),
        (event(ERROR), "ErrorEvent", False),
        (b"event: error\ndata: {}\n\n", "ErrorEvent", False),
        (b"data: no JSON\n\n", "NoEvents", False),
        (b"data: [1]\n\n", "NoEvents", False),
        (b"x" * (BUFFERED_MAX_BYTES + 1), "LongEvent", False),
        (ROLE + b"x" * (BUFFERED_MAX_BYTES + 1), "LongEvent", True),
        (ROLE + b"data: {not json\n\n", "NoEvents", True),
        (ROLE + b"data: [1,2]\n\n", "NoEvents", True),
        (ROLE + b"data: null\n\n", "NoEvents", True),
        (ROLE + WORD, "CutEvents", True),
        (ROLE + b"data: {\n" + b"data:\n" * 1000 + b"}\n\n", "LongEvent", True),
        (ROLE + WORD[:-9], "NoEvents", True),
        (ROLE + LONG[:-9], "CutEvents", True),
        (ROLE + HTML, "CutEvents", True),
        (ROLE + event(ERROR), "ErrorEvent", True),
        (ROLE + b'data: {"object":"error","message":"no"}\n\n', "ErrorEvent", True),
        (b'data: { "error" : {"message": "no"}}\n\n', "ErrorEvent", False),
        (ROLE + b'data: {"id": "x", "error": {"code": 502}, "choices": []}\n\n', "ErrorEvent", True),
        (ROLE + b'data: {"base_resp": {"status_code": 1027}, "choices": []}\n\n', "ErrorEvent", True),
        (ROLE + event(chunk("m", {"content": ""}, "error")), "ErrorEvent", True),
        (b'data: {"base_resp": {"status_code": 1008}, "choices": null}\n\n', "ErrorEvent", False),
        (b'data: {"ret": 400, "errmsg": "bad"}\n\n' + DONE, "ErrorEvent", False),
    ],
)
@pytest.mark.parametrize("size", [1, 50, 10**7])
def test_a_bad_stream_is_broken(body: bytes, kind: str, begun: bool, size: int) -> None:
    relay = EventRelay()
    if size == 1 and len(body) > BUFFERED_MAX_BYTES:
        size = 1000
    with pytest.raises(BrokenEvents) as broken:
        for at in range(0, len(body), size):
            relay.feed(body[at : at + size])
        relay.close()
    assert broken.value.kind == kind and relay.begun is begun


@pytest.mark.parametrize("nothing", ["null", "false", "0", '""', "{}", "[ ]"])
@pytest.mark.parametrize("much", ["", "x" * BUFFERED_MAX_BYTES])
def test_an_error_that_says_nothing_breaks_no_stream(nothing: str, much: str) -> None:
    first = f'data: {{"error": {nothing}, "choices": [{{"delta": {{"content": "{much}"}}}}]}}\n\n'.encode()
    assert relayed(first + STOP + DONE, [10**9])[0] == first + STOP


@pytest.mark.parametrize("model", ["m", '/srv/models/a "b".gguf'])
@pytest.mark.parametrize("size", [1, 50, 10**7])
def test_events_name_the_model_as_the_caller_does(model: str, size: int) -> None:
    said = '"model":"m" and "model": "/srv"'
    deltas = {"content": said}, {"content": "x" * BUFFERED_MAX_BYTES}, {}
    azures = {"id": "", "object": "", "created": 0, "model": "", "choices": []}
    events = [azures, *(chunk(model, delta, None if delta else "stop") for delta in deltas)]
    body = b"".join(map(event, events)).replace(b'"model": ', b'"model" :')
    sent, _ = relayed(body, [size if len(body) < 1000 else 1 + size * 100], EventRelay(model=b'"gpt"'))
    found = [json.loads(line.removeprefix(b"data: ")) for line in sent.split(b"\n\n") if line]
    assert [one["model"] for one in found] == ["gpt"] * 4
    assert found[1]["choices"][0]["delta"]["content"] == said


def objects(body: bytes) -> list[Any]:
    return [json.loads(part.rpartition(b"data:")[2]) for part in body.split(b"\n\n") if part]


def test_events_without_the_members_that_clients_need_get_them() -> None:
    odd = [
        b'{"choices": [{"delta": {"content": "x"}, "finish_reason": ""}]}',
        b"{}",
        b'{\ndata: "choices": null, "usage": {}\ndata: }',
        b'{"id":"a","choices":[],"created":7,"usage":{"total_tokens":1.0}}',
    ]  # fmt: skip
    body = b"".join(b"event: ping\ndata: %b\n\n" % one for one in odd)
    for sizes in splits(len(body + DONE)):
        sent, relay = relayed(body + DONE, sizes, EventRelay(model=b'"gpt"'))
        first, empty, nothing, last, end = objects(sent)
        assert relay.done and sent.count(b"event: ping") == 4
        assert (last["id"], last["created"], last["usage"]["prompt_tokens"]) == ("a", 7, 1)
        for one in (first, empty, nothing, end):
            assert (one["object"], one["model"], one["id"]) == ("chat.completion.chunk", "gpt", first["id"])
            assert abs(one["created"] - time.time()) < 60
        assert first["choices"] == [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]
        assert empty["choices"] == nothing["choices"] == [] and nothing["usage"] is None
        assert end["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]


CALLS = event(chunk("m", {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]}))
PROMPT = event({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [
    {"index": 0, "text": "x", "finish_reason": None}]})  # fmt: skip


@pytest.mark.parametrize(
    ("body", "choices", "ends"),
    [
        (ROLE + WORD, 1, [{"index": 0, "delta": {}, "finish_reason": "stop"}]),
        (ROLE + CALLS, 1, [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]),
        (ROLE + STOP, 2, [{"index": 1, "delta": {}, "finish_reason": "stop"}]),
        (PROMPT, 1, [{"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}]),
        (ROLE + STOP + WORD * 6, 1, None),
    ],
)
def test_choices_that_a_server_does_not_end_are_ended(body: bytes, choices: int, ends: Any) -> None:
    for sizes in ([10**9], [50], [len(ROLE)]):
        sent, _ = relayed(body + DONE, sizes, EventRelay(choices=choices, model=b'"m"'))
        added = objects(sent)[len(objects(body)) :]
        assert [one["choices"] for one in added] == ([] if ends is None else [ends])
        assert all(one.keys() == {"id", "object", "created", "model", "choices"} for one in added)


def double(data: bytes) -> bytes:
    """Sends each event twice."""
    return event(msgspec.json.decode(data)) * 2


def test_an_observer_gets_a_long_event_whole() -> None:
    relay = EventRelay(double, read_max_bytes=READ_MAX_BYTES)
    assert relayed(ROLE + LONG + STOP, [16_000], relay)[0] == ROLE * 2 + LONG * 2 + STOP * 2
    longer = event(chunk("m", {"content": "x" * (READ_MAX_BYTES + 16_000)}))
    with pytest.raises(BrokenEvents) as broken:
        relayed(ROLE + longer, [16_000], EventRelay(double, read_max_bytes=READ_MAX_BYTES))
    assert broken.value.kind == "LongEvent"


ANOTHER = STOP.replace(b'"index": 0', b'"index": 1')


@pytest.mark.parametrize(
    ("body", "complete"),
    [
        (ROLE + STOP + ANOTHER, True),
        (ROLE + STOP + DONE, True),
        (ROLE + STOP, False),
        (ROLE + STOP + STOP, False),
        (ROLE + ANOTHER + WORD, False),
    ],
)
def test_all_choices_must_finish_without_done(body: bytes, complete: bool) -> None:
    relay = EventRelay(choices=2)
    if complete:
        assert relayed(body, [50], relay)[1].finished
        return
    with pytest.raises(BrokenEvents):
        relayed(body, [50], relay)


def test_a_reason_anywhere_in_a_long_event_counts() -> None:
    choice = {"delta": {"content": "x" * BUFFERED_MAX_BYTES}, "finish_reason": "stop", "more": "x" * 9000}
    body = ROLE + event({"choices": [choice]})
    reason = body.index(b'"finish_reason"')
    for at in range(reason - 1, reason + 25):  # every split of the reason, after the beginning was passed on
        sent, relay = relayed(body, [at, len(body) - at])
        assert sent == body and relay.finished, at
    assert relayed(body, [300])[1].finished


def test_a_long_event_with_the_name_of_an_error_breaks_the_stream() -> None:
    with pytest.raises(BrokenEvents) as broken:
        relayed(ROLE + b"event: error\n" + LONG, [16_000])
    assert broken.value.kind == "ErrorEvent"


def of_response(kind: str, text: str, *, name: str, type_first: bool) -> bytes:
    """An event of a response, which has its type in the JSON, and perhaps a name beside it."""
    fields = {"type": kind, "text": text} if type_first else {"n": 1, "text": text, "type": kind}
    return (f"event: {name}\n".encode() if name else b"") + event(fields)


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete"])
@pytest.mark.parametrize("chars", [10, BUFFERED_MAX_BYTES - 40, 3 * BUFFERED_MAX_BYTES])
def test_the_last_event_of_a_response_is_left_for_last(kind: str, chars: int) -> None:
    began = "response.created"
    for named, type_first in itertools.product((True, False), repeat=2):
        first = of_response(began, "", name=began if named else "", type_first=type_first)
        last = of_response(kind, "x" * chars, name=kind if named else "message", type_first=type_first)
        body = first + last + first
        for sizes in splits(len(body), len(first), len(first + last)):
            relay = EventRelay(typed=True, read_max_bytes=READ_MAX_BYTES)
            sent, _ = relayed(body, sizes, relay)
            assert (sent, relay.last) == (first, last), (named, type_first, sizes)
            assert relay.finished and not relay.passes_long


@pytest.mark.parametrize("kind", ["response.failed", "error"])
@pytest.mark.parametrize("name", ["", "message", "response.failed"])
@pytest.mark.parametrize("chars", [10, 2 * BUFFERED_MAX_BYTES])
def test_a_typed_event_that_reports_an_error_breaks_the_stream(kind: str, name: str, chars: int) -> None:
    body = of_response(kind, "x" * chars, name=name, type_first=True)
    with pytest.raises(BrokenEvents) as broken:
        relayed(body, [16_000], EventRelay(typed=True, read_max_bytes=READ_MAX_BYTES))
    assert broken.value.kind == "ErrorEvent"


@pytest.mark.parametrize("rest", [b"", DONE, STOP])
def test_typed_events_end_with_an_event(rest: bytes) -> None:
    with pytest.raises(BrokenEvents) as broken:
        relayed(event({"type": "response.created"}) + rest, [50], EventRelay(typed=True))
    assert broken.value.kind == "CutEvents"


@pytest.mark.parametrize("line_end", [b"\n", b"\r", b"\r\n"])
def test_a_flood_of_empty_lines_takes_little_time(line_end: bytes) -> None:
    """What the event loop reads from a busy connection in one iteration, in parts of 16 KiB."""
    part = line_end * (16_384 // len(line_end))

    def flood(relay: EventRelay) -> None:
        assert relay.feed(ROLE) == ROLE
        for _ in range(32):
            assert relay.feed(part) == b""
        assert relay.feed(WORD + STOP) == WORD + STOP

    flooded_s = min(cpu_s(flood, EventRelay(), runs=1) for _ in range(3))
    assert flooded_s < 0.2 * cpu_s(reference, None)


def test_an_observer_refuses_what_is_no_json() -> None:
    relay = EventRelay(double)
    with pytest.raises(BrokenEvents):
        relay.feed(ROLE + b"data: {half\n\n")


def test_a_long_event_leaves_as_it_arrives() -> None:
    relay, received, sent = EventRelay(), 0, 0
    body = ROLE + event(chunk("m", {"content": "x" * 2**20}))
    for at in range(0, len(body), 16_000):
        received += len(body[at : at + 16_000])
        sent += len(relay.feed(body[at : at + 16_000]))
        assert received - sent <= BUFFERED_MAX_BYTES + 16_000


@pytest.mark.parametrize(
    ("parts", "says_nothing"),
    [
        ([b"event: ping\n", b"data:\n\n"], [True, True]),
        ([b"data:\n\n: waiting\n\n"], [False]),
        ([b'data: {"choices"', b":[]}\n\n", b"data:\n\n"], [False, False, True]),
        ([b"retry: 1\n\ndata: [DONE]\n\n"], [False]),
    ],
)
def test_events_without_data_say_nothing(parts: list[bytes], says_nothing: list[bool]) -> None:
    relay, found = EventRelay(model=b'"gpt"'), []
    for part in parts:
        relay.feed(part)
        found.append(relay.says_nothing)
    assert found == says_nothing
