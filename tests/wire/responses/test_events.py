"""Chunks of a chat become events that openai-python's types accept and its client accumulates."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myna.wire.responses.events import UnusableAnswer
from tests.wire.responses.stream import (
    accumulated,
    chunk,
    function_call,
    message,
    output_text,
    parsed,
    response_to,
    translated,
    translator,
    usage,
)


def call(
    index: int | None, call_id: str | None = None, name: str | None = None, arguments: str | None = None
) -> Any:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": call_id, "type": "function", "function": function}


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_text_becomes_one_message() -> None:
    texts = [chunk(content="Hel"), chunk(content="lo\u2028!")]
    chunks = [chunk(role="assistant", content=""), *texts, chunk("stop"), usage(11, 22)]
    events = parsed(translated(chunks))
    assert kinds(events) == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.delta", "output_text.done", "content_part.done"),
        *("output_item.done", "completed"),
    ]
    part = output_text("Hello\u2028!")
    at = {"item_id": "msg_abc_0", "output_index": 0, "content_index": 0}
    assert events[2]["item"] == message("msg_abc_0", status="in_progress")
    assert events[3]["part"] == part | {"text": ""}
    assert [event["delta"] for event in events[4:6]] == ["Hel", "lo\u2028!"]
    assert (events[6]["text"], events[7]["part"]) == (part["text"], part)
    assert all(event | at == event for event in events[3:8])
    assert events[8]["item"] == message("msg_abc_0", part)


def test_parts_of_calls_may_alternate() -> None:
    chunks = [
        chunk(content="Let me look."),
        chunk(tool_calls=[call(0, "call_1", "weather", "")]),
        chunk(tool_calls=[call(0, None, None, '{"city":')]),
        chunk(tool_calls=[call(1, "call_2", "now", None), call(0, "", "", '"Oslo"}')]),
        chunk(tool_calls=[call(1, None, None, "{}")]),
        chunk("tool_calls"),
    ]
    events = parsed(translated(chunks))
    assert kinds(events)[6:] == [
        *("content_part.done", "output_item.done", "output_item.added", "function_call_arguments.delta"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done", "function_call_arguments.done"),
        *("output_item.done", "completed"),
    ]
    _, first, second = events[-1]["response"]["output"]
    assert first == function_call("fc_abc_1", "call_1", "weather", '{"city":"Oslo"}')
    assert second == function_call("fc_abc_2", "call_2", "now", "{}")


@pytest.mark.parametrize("index", [0, None])
def test_calls_of_one_index_are_distinguished_by_id(index: int | None) -> None:
    calls = [call(index, "call_1", "weather", "{}"), call(index, "call_2", "now", "{}")]
    output = parsed(translated([chunk(tool_calls=calls), chunk("tool_calls")]))[-1]["response"]["output"]
    assert [item["call_id"] for item in output] == ["call_1", "call_2"]


def test_a_call_whose_id_and_name_are_repeated_is_one_call() -> None:
    parts = [chunk(tool_calls=[call(0, "call_1", "weather", part)]) for part in ('{"ci', 'ty":1}')]
    (item,) = parsed(translated(parts))[-1]["response"]["output"]
    assert item["arguments"] == '{"city":1}'


def test_a_call_without_an_id_gets_one() -> None:
    (item,) = parsed(translated([chunk(tool_calls=[call(0, None, "now", "{}")])]))[-1]["response"]["output"]
    assert item["call_id"] == "call_abc_0"


def test_a_failure_is_the_last_event() -> None:
    events = translator()
    sent = events.feed(chunk(reasoning="Hm.")) + events.feed(chunk(content="Hel"))
    *_, last = parsed(b"".join(sent) + events.failed("The channel broke off."))
    assert last["type"] == "response.failed"
    response = last["response"]
    assert response["error"] == {"code": "server_error", "message": "The channel broke off."}
    assert response["status"] == "failed"
    assert [item["status"] for item in response["output"]] == ["completed", "in_progress"]


def test_log_probabilities_are_those_of_the_text_whole_and_streamed() -> None:
    other = {"token": "Yo", "logprob": None}
    tokens = [
        {"token": "He", "logprob": -0.5, "bytes": [72, 101]},
        {"token": "y", "logprob": -1, "top_logprobs": [other]},
    ]
    sent = [chunk(content=one["token"]) for one in tokens]
    for one, token in zip(sent, tokens, strict=True):
        one["choices"][0]["logprobs"] = {"content": [token], "refusal": None}
    events = parsed(translated([*sent, chunk("stop")]))
    rest = [{"token": "Yo", "logprob": -9999.0, "bytes": [89, 111]}]
    first = tokens[0] | {"top_logprobs": []}
    second = {"token": "y", "logprob": -1, "bytes": [121], "top_logprobs": rest}
    deltas = [event["logprobs"] for event in events if event["type"] == "response.output_text.delta"]
    assert deltas == [[first], [second]]
    (done,) = [event["logprobs"] for event in events if event["type"] == "response.output_text.done"]
    answer = {"message": {"content": "Hey"}, "logprobs": {"content": tokens}}
    whole = response_to({"choices": [answer]})
    for response in (events[-1]["response"], whole):
        (part,) = response["output"][0]["content"]
        assert part["logprobs"] == done == [first, second]


def test_only_the_first_choice_is_read() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": "length"}]}
    events = parsed(translated([chunk(content="Hello!"), other]))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello!"
    assert events[-1]["type"] == "response.completed"


def test_openai_python_accumulates_the_stream() -> None:
    chunks = [
        chunk(reasoning="Hm."),
        chunk(content="Let me "),
        chunk(content="look."),
        chunk(tool_calls=[call(0, "call_1", "weather", '{"city":')]),
        chunk(tool_calls=[call(1, "call_2", "weather", "{}"), call(0, None, None, '"Oslo"}')]),
        chunk("tool_calls"),
        usage(11, 22),
    ]
    events, final = accumulated(translated(chunks))
    snapshots = [event.snapshot for event in events if hasattr(event, "snapshot")]
    assert snapshots == ["Let me ", "Let me look.", '{"city":', "{}", '{"city":"Oslo"}']
    assert final.output_text == "Let me look."
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    assert final.usage is not None
    assert final.usage.total_tokens == 33


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
CALLS = st.tuples(TEXTS, st.lists(TEXTS, max_size=3))


@settings(max_examples=40)
@given(
    reasoning=st.lists(TEXTS, max_size=3),
    content=st.lists(TEXTS, max_size=3),
    refusal=st.lists(TEXTS, max_size=2),
    calls=st.lists(CALLS, max_size=3),
    finish_reason=st.sampled_from(["stop", "length", "content_filter", None]),
)
def test_a_stream_ends_with_the_response_of_the_whole_answer(
    reasoning: list[str],
    content: list[str],
    refusal: list[str],
    calls: list[tuple[str, list[str]]],
    finish_reason: str | None,
) -> None:
    chunks = [chunk(reasoning_content=part) for part in reasoning]
    chunks += [chunk(content=part) for part in content] + [chunk(refusal=part) for part in refusal]
    for index, (name, parts) in enumerate(calls):
        chunks.append(chunk(tool_calls=[call(index, f"call_{index}", name, "")]))
        chunks += [chunk(tool_calls=[call(index, None, None, part)]) for part in parts]
    said = {
        "content": "".join(content),
        "refusal": "".join(refusal),
        "reasoning_content": "".join(reasoning),
        "tool_calls": [
            call(None, f"call_{n}", name, "".join(parts)) for n, (name, parts) in enumerate(calls)
        ],
    }
    whole = {"choices": [{"index": 0, "message": said, "finish_reason": finish_reason}]}
    events = parsed(translated([*chunks, chunk(finish_reason)]))
    assert events[-1]["response"] == response_to(whole)


@pytest.mark.parametrize("wrong", [{"choices": [{"delta": {"content": 17}}]}, {"choices": {}}])
def test_another_chunk_is_unusable(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnusableAnswer):
        translator().feed(wrong)


@pytest.mark.parametrize(
    "part",
    [
        chunk(content="é" * 50),
        chunk(refusal="x" * 100),
        chunk(reasoning="x" * 100),
        chunk(tool_calls=[call(0, "call_1", "now", "x" * 100)]),
    ],
)
def test_an_answer_over_the_limit_is_unusable(part: dict[str, Any]) -> None:
    events = translator(answer_max_bytes=1300)
    events.feed(part)
    with pytest.raises(UnusableAnswer, match="larger than the limit"):
        for _ in range(3):
            events.feed(part)


def test_items_without_text_count_too() -> None:
    events = translator(answer_max_bytes=10_000)
    with pytest.raises(UnusableAnswer, match="larger than the limit"):
        for number in range(20):
            events.feed(chunk(tool_calls=[call(number)]))
