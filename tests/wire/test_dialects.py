"""What servers send that is not quite OpenAI's shape, and what the readers of chat completions make of it."""

import json
from typing import Any

import pytest

from myna.channels.channels import Channel
from myna.gateway.relay import answers
from myna.gateway.relay.answers import RequestSummary
from myna.gateway.relay.events import EventRelay
from myna.gateway.relay.v1 import first_choice
from myna.wire import lenient
from myna.wire.body import to_event
from tests.rig.answers import event
from tests.wire.responses.stream import parsed, response_to, translated

CHANNEL = Channel(kind="chat", name="up", url="http://127.0.0.1", model="m", key="k")
REQUEST = RequestSummary("m", 1)
HELLO = {"role": "assistant", "content": "Hello"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
MISTRAL = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "Let me "}, {"type": "text", "text": "see."}]},
    {"type": "text", "text": "Hel"},
    {"type": "text", "text": "lo"},
]
FUNCTION = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {"city": "Oslo"}}}


def completion(message: Any, usage: Any = None, finish: Any = "stop", **members: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": finish, **members}
    about = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return {**about, "choices": [choice], "usage": usage}


WHOLE: dict[str, dict[str, Any]] = {
    "parts": completion(HELLO | {"content": MISTRAL}),
    "texts": completion(HELLO | {"content": ["Hel", {"text": "lo"}]}),
    "a part alone": completion(HELLO | {"content": {"text": "Hello"}}),
    "an error that says nothing": completion(HELLO) | {"error": {}},
    "an error of a choice that says nothing": completion(HELLO, error={"message": "", "code": 0}),
    "half of a surrogate pair": completion(HELLO | {"content": "Hello\ud83d"}),
    "not a number": completion(HELLO, logprobs=float("nan")),
    "a byte order mark": completion(HELLO),
    "odd counts": completion(HELLO, {"prompt_tokens": "3", "completion_tokens": 2.0}),
    "a reason that is none": completion(HELLO, finish=7),
    "an index that is text": completion(HELLO, index="0"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer_is_read_by_each_reader(name: str) -> None:
    body, text = json.dumps(WHOLE[name]).encode(), "Hello\ufffd" if "surrogate" in name else "Hello"
    if name == "a byte order mark":
        body = lenient.BOM + body
    assert first_choice(body, CHANNEL).message.content == text
    passed = answers.completion(body, REQUEST, CHANNEL)
    assert json.loads(passed)["choices"][0]["message"]["role"] == "assistant"
    assert b"NaN" not in passed and not passed.startswith(lenient.BOM)
    (sent,) = answers.as_events(body, with_usage=False)
    assert "delta" in json.loads(sent.removeprefix(b"data: "))["choices"][0]
    members, choices = answers.normalized(body, REQUEST, CHANNEL)
    response = response_to(members | {"choices": choices})
    assert response["output"][-1]["content"][0]["text"] == text
    assert response["status"] == "completed"


@pytest.mark.parametrize(
    ("reason", "known"),
    [
        ("eos", "stop"), ("end_turn", "stop"), ("STOP", "stop"), ("model_length", "length"),
        ("MAX_TOKENS", "length"), ("tool_use", "tool_calls"), ("SAFETY", "content_filter"),
    ],
)  # fmt: skip
def test_a_reason_to_finish_is_one_of_openais_for_each_reader(reason: str, known: str) -> None:
    answer = completion(HELLO, finish=reason)
    body = json.dumps(answer).encode()
    assert first_choice(body, CHANNEL).finish_reason == known
    assert json.loads(answers.completion(body, REQUEST, CHANNEL))["choices"][0]["finish_reason"] == known
    choice = {"index": 0, "delta": {}, "finish_reason": reason}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    sent = EventRelay(model=b'"m"').feed(event(chunk))
    assert json.loads(sent[6:]) == chunk | {"choices": [choice | {"finish_reason": known}]}
    response = response_to(answer)
    assert response["status"] == ("completed" if known in ("stop", "tool_calls") else "incomplete")


def test_thinking_among_the_parts_of_a_content_is_reasoning() -> None:
    response = response_to(completion(HELLO | {"content": MISTRAL}))
    thought, said = response["output"]
    assert thought["content"][0]["text"] == "Let me see." and said["content"][0]["text"] == "Hello"


def test_the_arguments_of_a_call_may_be_an_object() -> None:
    answer = completion({"content": None, "tool_calls": [CALL]}, finish="tool_calls")
    body = json.dumps(answer).encode()
    (called,) = first_choice(body, CHANNEL).message.tool_calls or []
    passed = json.loads(answers.completion(body, REQUEST, CHANNEL))["choices"][0]
    assert (passed["message"]["tool_calls"], passed["finish_reason"]) == ([called], "tool_calls")
    (item,) = response_to(answer)["output"]
    assert called["function"]["arguments"] == item["arguments"] == '{"city":"Oslo"}'


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (USAGE, (3, 2)),
        ({"prompt_tokens": 3.0, "completion_tokens": "2"}, (3, 2)),
        ({"prompt_tokens": None, "completion_tokens": {}}, (0, 0)),
        ({"prompt_tokens": float("inf"), "completion_tokens": 2, "completion_tokens_details": []}, (0, 2)),
    ],
)
def test_the_tokens_of_a_response_are_whole_numbers(usage: Any, tokens: tuple[int, int]) -> None:
    found = response_to(completion(HELLO, usage))["usage"]
    assert (found["input_tokens"], found["output_tokens"]) == tokens


CHUNKS: list[Any] = [
    {"choices": [{"index": "0", "delta": {"role": "assistant", "content": MISTRAL}}], "error": False},
    {"choices": [{"delta": {"content": "\ud83d"}}]},
    {"choices": [{"delta": {"content": "\ude00"}, "logprobs": float("nan")}]},
    {"choices": [{"delta": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]},
    {"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}]},  # MiniMax's whole
    {"choices": None, "x_groq": {"id": 1}},
]


def test_a_stream_is_translated_whatever_its_members_are() -> None:
    chunks = [lenient.loads(json.dumps(one).encode()) for one in CHUNKS]
    events = parsed(translated(chunks))
    assert [one["delta"] for one in events if one["type"].endswith("output_text.delta")] == [
        "Hello", "\ud83d", "\ude00",
    ]  # fmt: skip
    response = events[-1]["response"]
    assert [item["content"][0]["text"] for item in response["output"]] == ["Let me see.", "Hello😀"]
    assert response["usage"]["total_tokens"] == 5


@pytest.mark.parametrize("indexes", [(0, 0, 0), ("0", "1", "1"), (None, None, None), (1, 2, 2)])
def test_calls_have_an_index_of_their_own(indexes: tuple[Any, ...]) -> None:
    calls: list[Any] = [FUNCTION, FUNCTION | {"id": "call_2"}, {"id": None, "function": {"arguments": " "}}]
    relay, found = EventRelay(model=b'"gpt"'), []
    for index, call in zip(indexes, calls, strict=True):
        one = {"choices": [{"delta": {"tool_calls": [call | {"index": index}]}}]}
        sent = relay.feed(event(one))
        found.append(json.loads(sent[6:])["choices"][0]["delta"]["tool_calls"][0]["index"])
    first = 1 if indexes[0] == 1 else 0
    assert found == [first, first + 1, first + 1]


def test_calls_without_index_and_id_as_gemini_sends_them_are_told_apart() -> None:
    functions = [{"name": name, "arguments": "{}"} for name in ("f", "g")]
    chunks = [{"choices": [{"delta": {"tool_calls": [{"id": "", "function": one}]}}]} for one in functions]
    response = parsed(translated(chunks))[-1]["response"]
    assert [item["name"] for item in response["output"]] == ["f", "g"]
    relay = EventRelay(model=b'"gpt"')
    sent = b"".join(relay.feed(event(one)) for one in chunks)
    deltas = [json.loads(each[6:])["choices"][0]["delta"] for each in sent.split(b"\n\n") if each]
    calls = [delta["tool_calls"][0] for delta in deltas]
    assert [(call["index"], call["type"], call["function"]) for call in calls] == [
        (0, "function", functions[0]), (1, "function", functions[1]),
    ]  # fmt: skip
    assert calls[0]["id"].startswith("call_") and calls[0]["id"] != calls[1]["id"]


def test_a_usage_within_a_choice_is_that_of_the_stream() -> None:
    relay = EventRelay(prompt_tokens=1)
    for one in CHUNKS:
        body = b"data: %b\n\n" % json.dumps(one).encode()
        assert relay.feed(body) == body
    relay.close()
    counted = json.loads(relay.ending().split(b"\n\n")[0].removeprefix(b"data: "))
    assert (counted["choices"], counted["usage"]) == ([], USAGE)
    relay = EventRelay(prompt_tokens=1)
    relay.feed(event({"choices": [], "usage": {}}))  # which says nothing
    counted = json.loads(relay.ending().split(b"\n\n")[0].removeprefix(b"data: "))
    assert counted["usage"]["prompt_tokens"] == 1


def test_an_event_has_no_character_that_ends_a_line() -> None:
    assert to_event({"text": "a\u2028b\u2029c\u0085d\n"}, "name") == (
        b'event: name\ndata: {"text":"a\\u2028b\\u2029c\\u0085d\\n"}\n\n'
    )


COUNTS = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
IMAGE = [{"type": "image_url", "image_url": {"url": "data:,"}}]
STRICT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "numbers": ({"id": 7, "created": 1.5, "object": ""}, {"id": "7", "created": 1}),
    "texts": ({"created": "1"}, {"created": 1}),
    "milliseconds": ({"created": 1_700_000_000_123}, {"created": 1_700_000_000}),
    "a usage without counts": ({"usage": {"prompt_tokens": "3", "total_tokens": 5}}, {"usage": COUNTS}),
    "another API's usage": (
        {"usage": {"input_tokens": 3, "output_tokens": 2.0}},
        {"usage": {"input_tokens": 3, "output_tokens": 2.0} | COUNTS},
    ),
    "details": (
        {"usage": COUNTS | {"prompt_tokens_details": {"n": 1.0}, "completion_tokens_details": []}},
        {"usage": COUNTS | {"prompt_tokens_details": {"n": 1}, "completion_tokens_details": None}},
    ),
}
SAID: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "parts": ({"content": MISTRAL}, {"content": "Hello", "reasoning_content": "Let me see."}),
    "a part": ({"content": {"text": "Hello"}}, {"content": "Hello"}),
    "an image": ({"content": IMAGE}, {"content": IMAGE}),
    "strings": ({"content": ["Hel", "lo"]}, {"content": "Hello"}),
    "a refusal among the parts": (
        {"content": [{"type": "refusal", "refusal": "no"}]},
        {"content": None, "refusal": "no"},
    ),
    "a mark that is none": (
        {"content": "x", "annotations": [{"type": "url_citation", "url": "u"}], "audio": {}},
        {"content": "x", "annotations": [], "audio": None},
    ),
    "a call without its function": (
        {"content": None, "tool_calls": [{"id": "call_1", "type": "tool", "name": "f", "arguments": "{}"}]},
        {"content": None, "tool_calls": [FUNCTION]},
    ),
    "a role": ({"role": "model", "content": "Hello"}, {"role": "assistant", "content": "Hello"}),
    "a refusal that is none": ({"content": "x", "refusal": False}, {"content": "x", "refusal": None}),
    "calls that are none": ({"content": "x", "tool_calls": {}}, {"content": "x"}),
    "a call by numbers": (
        {"content": None, "tool_calls": [{"id": 1, "function": {"name": "f", "arguments": {}}}]},
        {"content": None, "tool_calls": [FUNCTION | {"id": "1"}]},
    ),
    "a legacy call": (
        {"content": None, "function_call": {"name": "f", "arguments": {"a": 1}}},
        {"content": None, "function_call": {"name": "f", "arguments": '{"a":1}'}},
    ),
}


def passed(choice: dict[str, Any], members: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A whole answer, and a chunk of a stream, after a good one, as clients get them."""
    whole = completion(None) | members | {"choices": [choice]}
    answer: dict[str, Any] = json.loads(answers.completion(json.dumps(whole).encode(), REQUEST, CHANNEL))
    delta = {"delta": choice["message"], "finish_reason": None, "index": 0}
    good = completion(None) | {"object": "chat.completion.chunk", "choices": [delta | {"delta": {}}]}
    relay = EventRelay(model=b'"m"')
    rest = {name: value for name, value in choice.items() if name not in ("message", "finish_reason")}
    chunk = whole | {"choices": [delta | rest]}
    sent = [relay.feed(event(one)) for one in (good, chunk)]
    return answer, json.loads(sent[1].removeprefix(b"data: "))


@pytest.mark.parametrize("name", STRICT)
def test_the_members_of_an_answer_have_the_types_of_strict_clients(name: str) -> None:
    given, needed = STRICT[name]
    for found in passed({"message": HELLO, "finish_reason": "stop"}, given):
        changed = json.dumps(found | needed, sort_keys=True)  # 1.0 == 1
        assert changed == json.dumps(found, sort_keys=True)
        assert found["object"].startswith("chat.completion")


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_has_the_types_of_strict_clients(name: str) -> None:
    given, needed = SAID[name]
    answer, chunk = passed({"message": given, "finish_reason": "stop"}, {})
    message, delta = answer["choices"][0]["message"], chunk["choices"][0]["delta"]
    assert message == {"role": "assistant"} | needed
    for call in delta.get("tool_calls") or []:
        assert call.pop("index") == 0
    assert delta == needed


@pytest.mark.parametrize("function", [{"name": "f"}, {"name": "f", "arguments": None}])
def test_the_begin_of_a_call_has_arguments_to_which_more_can_be_added(function: dict[str, Any]) -> None:
    said = {"content": None, "tool_calls": [FUNCTION | {"function": function}]}
    answer, chunk = passed({"message": said, "finish_reason": "tool_calls"}, {})
    assert answer["choices"][0]["message"]["tool_calls"] == [FUNCTION]
    (begun,) = chunk["choices"][0]["delta"]["tool_calls"]
    assert begun["function"] == {"name": "f", "arguments": ""}


def test_words_that_strict_clients_do_not_know_are_left_out() -> None:
    odd = {"service_tier": "on_demand", "system_fingerprint": 7}
    tokens = [{"token": "x", "logprob": -1, "bytes": None, "top_logprobs": None}]
    choice = {"message": HELLO, "finish_reason": "stop", "index": "0", "logprobs": {"content": tokens}}
    for found in passed(choice, odd):
        assert not found.keys() & odd.keys()
        (one,) = found["choices"]
        assert one["index"] == 0
        assert one["logprobs"]["content"] == [tokens[0] | {"bytes": [120], "top_logprobs": []}]
    (one,) = passed(choice | {"logprobs": []}, {})[0]["choices"]
    assert one["logprobs"] is None


@pytest.mark.parametrize("text", ["tok", 'quote " and \\ and \n', "春", ""])
def test_a_chunk_like_the_one_before_passes_as_it_is(text: str) -> None:
    relay = EventRelay(model=b'"m"')
    chunk = completion(None) | {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    for _ in range(3):
        body = b"data: %b\n\n" % json.dumps(chunk, separators=(",", ":")).encode()
        assert relay.feed(body) == body
    odd = json.dumps(chunk | {"created": 1.5}).encode()
    assert json.loads(relay.feed(b"data: %b\n\n" % odd)[6:])["created"] == 1
