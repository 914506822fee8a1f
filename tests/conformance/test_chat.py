"""POST /chat/completions answered by the chat upstream, and when the upstream fails: an error without details
of the upstream, and a refund."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import regex

from tests.conformance.caller import (
    COPY_WAIT_S,
    DELIVERED,
    REFUNDED,
    UNCHARGED,
    Caller,
    Stats,
    assert_shape,
    check_error,
    make_caller,
)
from tests.rig.service import Service
from tests.rig.upstream import COUNTED_TEXT, Upstream
from tests.rig.waiting import wait_until

COMPLETION = {
    "id": str,
    "object": str,
    "created": int,
    "model": str,
    "choices": [{"index": int, "message": {"role": str, "content": str}, "finish_reason": str}],
    "usage": {"prompt_tokens": int, "completion_tokens": int, "total_tokens": int},
}


def text_of(answer: Any) -> str:
    return str(answer.json["choices"][0]["message"]["content"])


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


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


def test_a_request_to_stream_gets_the_same_answer_whole(caller: Caller, chat_upstream: Upstream) -> None:
    for stream in (True, False):
        answer = caller.chat("hello", stream=stream)
        assert answer.status == 200
        assert_shape(answer.json, COMPLETION)
        assert chat_upstream.requests[-1].json.get("stream", False) is False


def test_the_messages_are_forwarded_unchanged(caller: Caller, chat_upstream: Upstream) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}
    messages = [
        {"role": "system", "content": "Be brief. 朗读 nothing."},
        {"role": "user", "content": "配音：an earlier one", "name": "ann"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
        {"role": "moderator", "content": "an unknown role"},
        user([image, {"type": "text", "text": "the last 😀"}, {"type": "text", "text": "!"}]),
        {"role": "assistant", "content": "a prefill"},
    ]
    answer = ask(caller, messages)
    assert answer.status == 200
    assert text_of(answer) == "the last 😀!"
    assert chat_upstream.requests[0].json["messages"] == messages


def test_the_upstream_gets_its_model_and_key_not_a_callers(caller: Caller, chat_upstream: Upstream) -> None:
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


def test_parameters_are_forwarded_and_unknown_fields_ignored(caller: Caller, chat_upstream: Upstream) -> None:
    assert caller.chat("hello", **FORWARDED).status == 200
    sent = chat_upstream.requests[0].json
    assert {name: sent[name] for name in FORWARDED} == FORWARDED
    assert caller.chat("hello", no_such_field={"a": [1, None]}, 字段=True).status == 200


def test_usage_counts_the_han_characters_of_all_messages_and_of_the_answer(caller: Caller) -> None:
    text = "汉字 and kana かな 한글 𠀀𠀁 人々 〇 ，。！？ 123 😀"
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


def test_the_content_of_a_tool_call_answer_is_a_string(caller: Caller) -> None:
    answer = caller.chat("fault=tool-calls", tools=FORWARDED["tools"])
    assert answer.status == 200
    [choice] = answer.json["choices"]
    assert choice["message"]["content"] == ""
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "weather"
    assert choice["finish_reason"] == "tool_calls"


WITHOUT_INSTRUCTION: list[Any] = [
    *(..., None, [], "hello", [1], [{"content": "x"}], [{"role": 1, "content": "x"}], [{"role": "user"}]),
    *([user(content)] for content in (None, 5, {"text": "x"}, " \n\t", [], [1, 2])),
    *([user([part])] for part in ({"type": "text", "text": None}, {"type": "image_url", "image_url": {}})),
    [{"role": "User", "content": "x"}, {"role": "system", "content": "x"}],
    [user("hello"), {"role": "assistant", "content": "x"}, user("")],
]


def test_messages_without_an_instruction_are_refused(caller: Caller, chat_upstream: Upstream) -> None:
    before = caller.stats()
    for messages in WITHOUT_INSTRUCTION:
        data = {"model": "svc-chat"} if messages is ... else {"model": "svc-chat", "messages": messages}
        message = check_error(caller.post("/chat/completions", data), 400, "invalid_request_error")
        assert re.search(r"messages|content|role|user", message), messages
    assert caller.stats() - before == UNCHARGED
    assert not chat_upstream.requests


def test_an_unknown_model_is_refused(caller: Caller) -> None:
    before = caller.stats()
    for model in (None, "", "gpt-4", "SVC-CHAT", " svc-chat", 5, ["svc-chat"]):
        message = check_error(caller.chat("hello", model=model), 400, "invalid_request_error")
        assert "model" in message
    assert caller.stats() - before == UNCHARGED


KINDS = {
    "status:503": "Status503",
    "close": "ConnectionBroken",
    "broken": "NoCompletion",
    "no-choices": "NoChoices",
    "empty": "EmptyAnswer",
}
FAILURES = [*KINDS, "status:400", "status:429", "redirect", "garbage", "oversized"]


def test_every_failure_of_an_upstream_is_500_refunded_and_counted_by_its_kind(
    caller: Caller, chat_upstream: Upstream
) -> None:
    def counted() -> list[float]:
        kinds = (rf'myna_upstream_failures_total{{.*fault="{kind}"}}' for kind in KINDS.values())
        return caller.service.counted(*kinds)

    counts = counted()
    for fault in FAILURES:
        before = caller.stats()
        check_error(caller.chat(f"fault={fault}"), 500, "upstream_error")
        assert caller.stats() - before == REFUNDED, fault
    assert len(chat_upstream.requests) >= len(FAILURES)
    assert chat_upstream.trapped == 0, "no redirect is followed"
    assert caller.chat("hello").status == 200

    def all_counted() -> bool:
        return all(now > then for now, then in zip(counted(), counts, strict=True))

    wait_until(all_counted, COPY_WAIT_S, "the copy of the metrics is a new one")


def test_hanging_and_slow_upstreams_end_at_the_deadline_and_leave_no_open_call(
    hasty_service: Service, chat_upstream: Upstream
) -> None:
    caller = make_caller(hasty_service)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(caller.chat, f"fault={fault}") for fault in ("hang", "drip", "hang", "drip")]
        for answer in asked:
            check_error(answer.result(60), 500, "upstream_error")
    assert caller.stats() == Stats(calls=4, cost=0, ok_calls=0)
    wait_until(lambda: chat_upstream.abandoned == 4, 60, "the connection to the upstream is closed")
