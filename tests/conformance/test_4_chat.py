"""POST /chat/completions answered by the chat upstream."""

import re
import time
from typing import Any

import pytest
import regex

from tests.conformance.caller import DELIVERED, UNCHARGED, Caller, assert_shape, check_error
from tests.rig.upstream import COUNTED_TEXT, ODD_TEXT, Upstream

COMPLETION = {
    "id": str,
    "object": str,
    "created": int,
    "model": str,
    "choices": [{"index": int, "message": {"role": str, "content": str}, "finish_reason": str}],
    "usage": {"prompt_tokens": int, "completion_tokens": int, "total_tokens": int},
}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def text_of(answer: Any) -> str:
    return str(answer.json["choices"][0]["message"]["content"])


def ask(caller: Caller, messages: Any, **fields: Any) -> Any:
    return caller.post("/chat/completions", {"model": "svc-chat", "messages": messages} | fields)


@pytest.mark.parametrize("model", ["svc-chat", "svc-agent"])
def test_an_answer_has_exactly_the_documented_shape(caller: Caller, model: str) -> None:
    before = caller.stats()
    answer = caller.chat("hello there", model=model)
    assert answer.status == 200
    assert_shape(answer.json, COMPLETION)
    completion = answer.json
    assert re.fullmatch(r"chatcmpl-[0-9a-f]+", completion["id"])
    assert completion["object"] == "chat.completion"
    assert abs(completion["created"] - time.time()) < 60
    assert completion["model"] == model
    [choice] = completion["choices"]
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": "hello there"},
        "finish_reason": "stop",
    }
    assert caller.stats() - before == DELIVERED


def test_two_answers_have_two_ids(caller: Caller) -> None:
    assert caller.chat("one").json["id"] != caller.chat("one").json["id"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_with_stream_gets_the_same_answer_unstreamed(
    caller: Caller, chat_upstream: Upstream, stream: bool
) -> None:
    answer = caller.chat("hello", stream=stream)
    assert answer.status == 200
    assert_shape(answer.json, COMPLETION)
    assert chat_upstream.requests[0].json.get("stream", False) is False


def test_the_messages_are_forwarded_unchanged(caller: Caller, chat_upstream: Upstream) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "Be brief. 朗读 nothing."},
        {"role": "user", "content": "配音：an earlier one", "name": "ann"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
        {"role": "moderator", "content": "an unknown role"},
        {"role": "user", "content": [{"type": "text", "text": "the last 😀"}, {"type": "text", "text": "!"}]},
        {"role": "assistant", "content": "a prefill"},
    ]
    answer = ask(caller, messages)
    assert answer.status == 200
    assert text_of(answer) == "the last 😀!"
    assert chat_upstream.requests[0].json["messages"] == messages


def test_content_parts_without_text_are_forwarded(caller: Caller, chat_upstream: Upstream) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}
    messages = [user([image, {"type": "text", "text": "what is it?"}])]
    assert ask(caller, messages).status == 200
    assert chat_upstream.requests[0].json["messages"] == messages


def test_the_upstream_gets_its_own_model_and_key_not_the_callers(
    caller: Caller, chat_upstream: Upstream
) -> None:
    caller.chat("hello")
    [seen] = chat_upstream.requests
    assert seen.path == "/v1/chat/completions"
    assert seen.json["model"] == chat_upstream.model
    assert seen.headers["authorization"] == f"Bearer {chat_upstream.key}"
    assert caller.key.plain not in str(seen.headers) + seen.body.decode()


FORWARDED: dict[str, Any] = {
    "temperature": 0.25,
    "top_p": 0.5,
    "max_tokens": 17,
    "stop": ["\n", "。"],
    "seed": 9007199254740991,
    "response_format": {"type": "json_object"},
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "tool_choice": "auto",
    "presence_penalty": -0.5,
    "frequency_penalty": 1,
}


@pytest.mark.parametrize("name", FORWARDED)
def test_model_parameters_are_forwarded(caller: Caller, chat_upstream: Upstream, name: str) -> None:
    assert caller.chat("hello", **{name: FORWARDED[name]}).status == 200
    assert chat_upstream.requests[0].json[name] == FORWARDED[name]


def test_unknown_fields_are_ignored(caller: Caller) -> None:
    assert caller.chat("hello", no_such_field={"a": [1, None]}, 字段=True).status == 200


@pytest.mark.parametrize(
    "text",
    ["汉字 and kana かな 한글", "𠀀𠀁 extension B", "人々 〇", "，。！？ 123 😀", "", "﨑 ⺀ ⼀"],
    ids=["mixed", "extension-b", "iteration-mark", "punctuation", "none", "compatibility"],
)
def test_usage_counts_the_han_characters_of_all_messages_and_of_the_answer(caller: Caller, text: str) -> None:
    messages = [
        {"role": "system", "content": text},
        {"role": "assistant", "content": None},
        user([{"type": "text", "text": "你好"}, {"type": "text", "text": text}]),
        user("fault=count 问"),
    ]
    usage = ask(caller, messages).json["usage"]
    prompt = 2 * len(regex.findall(r"\p{Script=Han}", text)) + len("你好") + len("问")
    completion = len(regex.findall(r"\p{Script=Han}", COUNTED_TEXT))
    assert usage == {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def test_unusual_characters_are_returned_unchanged(caller: Caller) -> None:
    assert text_of(caller.chat("fault=odd")) == ODD_TEXT


def test_unusual_characters_are_forwarded_unchanged(caller: Caller) -> None:
    text = 'nul \u0000, tab \t, quote ", slash \\, 😀, \u2028, 𠀀, e\u0301'
    assert text_of(caller.chat(text)) == text


def test_the_content_of_a_tool_call_answer_is_a_string(caller: Caller) -> None:
    answer = caller.chat("fault=tool-calls", tools=FORWARDED["tools"])
    assert answer.status == 200
    [choice] = answer.json["choices"]
    assert choice["message"]["content"] == ""
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "weather"
    assert choice["finish_reason"] == "tool_calls"


WITHOUT_INSTRUCTION: dict[str, Any] = {
    "missing": ...,
    "null": None,
    "empty": [],
    "text": "hello",
    "object": {"role": "user", "content": "x"},
    "of-numbers": [1],
    "of-nulls": [None],
    "of-empty-objects": [{}],
    "without-role": [{"content": "x"}],
    "role-number": [{"role": 1, "content": "x"}],
    "no-user": [{"role": "system", "content": "x"}, {"role": "assistant", "content": "x"}],
    "role-in-capitals": [{"role": "User", "content": "x"}],
    "no-content": [{"role": "user"}],
    "null-content": [user(None)],
    "number-content": [user(5)],
    "object-content": [user({"text": "x"})],
    "empty-content": [user("")],
    "blank-content": [user(" \n\t")],
    "no-parts": [user([])],
    "no-text-part": [user([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}])],
    "empty-text-part": [user([{"type": "text", "text": ""}])],
    "null-text-part": [user([{"type": "text", "text": None}])],
    "number-parts": [user([1, 2])],
    "only-an-earlier-one-has-text": [user("hello"), {"role": "assistant", "content": "x"}, user("")],
}


@pytest.mark.parametrize("case", WITHOUT_INSTRUCTION)
def test_messages_without_an_instruction_are_refused(
    caller: Caller, chat_upstream: Upstream, case: str
) -> None:
    before = caller.stats()
    messages = WITHOUT_INSTRUCTION[case]
    data = {"model": "svc-chat"} if messages is ... else {"model": "svc-chat", "messages": messages}
    message = check_error(caller.post("/chat/completions", data), 400, "invalid_request_error")
    assert re.search(r"messages|content|role|user", message)
    assert caller.stats() - before == UNCHARGED
    assert not chat_upstream.requests


@pytest.mark.parametrize("model", [..., None, "", "gpt-4", "SVC-CHAT", " svc-chat", 5, ["svc-chat"], True])
def test_an_unknown_model_is_refused(caller: Caller, model: Any) -> None:
    data = {"messages": [user("hello")]} | ({} if model is ... else {"model": model})
    before = caller.stats()
    message = check_error(caller.post("/chat/completions", data), 400, "invalid_request_error")
    assert "model" in message
    assert caller.stats() - before == UNCHARGED


@pytest.mark.parametrize("stream", ["true", 1, [], {}])
def test_a_stream_that_is_not_a_boolean_is_refused(caller: Caller, stream: Any) -> None:
    check_error(caller.chat("hello", stream=stream), 400, "invalid_request_error")
