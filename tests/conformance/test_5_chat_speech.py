"""POST /chat/completions when the instruction asks for speech."""

from typing import Any

import pytest
import regex

from tests.conformance.audio_urls import listen
from tests.conformance.caller import DELIVERED, UNCHARGED, Caller, assert_shape, check_error
from tests.conformance.conftest import CallerMaker
from tests.conformance.test_4_chat import COMPLETION, ask, text_of, user
from tests.rig.upstream import Upstream

KEYWORDS = ["配音", "朗读", "旁白", "语音合成", "文字转语音", "转成语音", "念出来"]
SPOKEN_COMPLETION = COMPLETION | {
    "audio": {"url": str, "task_id": int, "mode": str, "voice_id": str, "text": str, "chars": int}
}


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_each_keyword_orders_speech(caller: Caller, chat_upstream: Upstream, keyword: str) -> None:
    before = caller.stats()
    answer = caller.chat(f"请{keyword}：你好，世界")
    assert answer.status == 200
    assert_shape(answer.json, SPOKEN_COMPLETION)
    audio = answer.json["audio"]
    assert text_of(answer) == audio["url"]
    assert audio["text"] == "你好，世界"
    assert audio["chars"] == 5
    assert audio["mode"] == "sync"
    assert audio["voice_id"] == caller.get("/voices").json["default"]
    listen(caller.service, audio["url"])
    assert caller.stats() - before == DELIVERED
    assert not chat_upstream.requests


def test_the_answer_has_the_shape_of_a_completion(caller: Caller) -> None:
    answer = caller.chat("朗读：一二三", model="svc-agent", stream=True).json
    assert answer["id"].startswith("chatcmpl-")
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "svc-agent"
    [choice] = answer["choices"]
    assert (choice["index"], choice["finish_reason"]) == (0, "stop")
    assert choice["message"]["role"] == "assistant"


SPOKEN = {
    "朗读：你好": "你好",
    "朗读:你好": "你好",
    "用温柔的声音配音： 你好：世界 ": "你好：世界",
    "标题：晚安。朗读：你好": "你好",
    "朗读“你好世界”这句话": "你好世界",
    '朗读"hello world"': "hello world",
    "把「你好世界」转成语音": "你好世界",
    "把『你好世界』念出来": "你好世界",
    "朗读‘你好世界’": "你好世界",
    "朗读'你好世界'": "你好世界",
    "朗读你好世界": "你好世界",
    "请朗读你好世界": "你好世界",
    "请帮我朗读你好世界": "你好世界",
    "配音": "配音",
    "朗读：": "朗读：",
}


@pytest.mark.parametrize("instruction", SPOKEN)
def test_the_text_to_speak_is_taken_from_the_instruction(caller: Caller, instruction: str) -> None:
    answer = caller.chat(instruction)
    assert answer.status == 200
    assert answer.json["audio"]["text"] == SPOKEN[instruction]
    assert answer.json["audio"]["chars"] == len(SPOKEN[instruction])


@pytest.mark.parametrize(
    "text", ["朗讀：你好", "配 音：你好", "语音：合成", "dub this", "旁 白", "念出", "转成 语音"]
)
def test_without_a_keyword_the_request_is_a_chat(caller: Caller, chat_upstream: Upstream, text: str) -> None:
    answer = caller.chat(text)
    assert_shape(answer.json, COMPLETION)
    assert text_of(answer) == text
    assert len(chat_upstream.requests) == 1


def test_only_the_last_user_message_is_the_instruction(caller: Caller, chat_upstream: Upstream) -> None:
    elsewhere = [
        {"role": "system", "content": "朗读：一"},
        user("配音：二"),
        {"role": "assistant", "content": "旁白：三"},
        user("hello"),
        {"role": "assistant", "content": "念出来：四"},
    ]
    assert text_of(ask(caller, elsewhere)) == "hello"
    assert ask(caller, [user("hello"), user("朗读：五")]).json["audio"]["text"] == "五"


def test_a_keyword_in_a_text_part_orders_speech(caller: Caller) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    answer = ask(caller, [user([image, {"type": "text", "text": "朗读：你好"}])])
    assert answer.json["audio"]["text"] == "你好"


def test_usage_of_speech_counts_han_characters(caller: Caller) -> None:
    instruction = "朗读：你好, world"
    usage = caller.chat(instruction).json["usage"]
    prompt = len(regex.findall(r"\p{Script=Han}", instruction))
    assert usage == {"prompt_tokens": prompt, "completion_tokens": 0, "total_tokens": prompt}


def test_without_the_tts_scope_the_charge_is_refused(
    scoped: dict[tuple[str, ...], Caller], chat_upstream: Upstream
) -> None:
    caller = scoped["chat", "records"]
    before, records = caller.stats(), caller.get("/records").json["data"]
    check_error(caller.chat("朗读：你好"), 402, "insufficient_quota")
    assert caller.stats() - before == UNCHARGED
    assert not chat_upstream.requests
    assert caller.get("/records").json["data"] == records
    assert caller.chat("hello").status == 200


def test_without_units_the_charge_is_refused(new_caller: CallerMaker) -> None:
    caller = new_caller(units=0)
    check_error(caller.chat("朗读：你好"), 402, "insufficient_quota")
    assert caller.stats() == UNCHARGED
    assert caller.get("/records").json["data"] == []


@pytest.mark.parametrize("text", ["😀😀", "。。！？"])
def test_an_empty_text_to_speak_is_refused(caller: Caller, text: str) -> None:
    before = caller.stats()
    check_error(caller.chat(f"朗读：{text}"), 400, "invalid_request_error")
    assert caller.stats() - before == UNCHARGED


def test_the_text_is_validated_before_the_scope(
    scoped: dict[tuple[str, ...], Caller], tts_max_chars: int
) -> None:
    caller = scoped["chat", "records"]
    check_error(caller.chat("朗读：" + "字" * (tts_max_chars + 1)), 400, "invalid_request_error")
    check_error(caller.chat("朗读：" + "字" * tts_max_chars), 402, "insufficient_quota")


def test_the_limit_applies_to_the_text_and_not_to_the_instruction(caller: Caller, tts_max_chars: int) -> None:
    answer = caller.chat("请用最温柔的声音为我们大家朗读：" + "字" * tts_max_chars)
    assert answer.status == 200
    assert answer.json["audio"]["chars"] == tts_max_chars


def test_without_a_speech_channel_it_is_503_and_uncharged(caller_without_speech: Caller) -> None:
    before = caller_without_speech.stats()
    answer = caller_without_speech.chat("朗读：你好")
    check_error(answer, 503, "service_unavailable")
    assert answer.headers["retry-after"] == "0"
    assert caller_without_speech.stats() - before == UNCHARGED
    assert caller_without_speech.chat("hello").status == 200


def test_without_a_speech_channel_the_text_is_validated_first_and_the_scope_last(
    caller_without_speech: Caller,
) -> None:
    check_error(caller_without_speech.chat("朗读：😀"), 400)
    chat_only = Caller(
        caller_without_speech.service,
        caller_without_speech.account,
        caller_without_speech.account.key(scopes=("chat",)),
    )
    check_error(chat_only.chat("朗读：你好"), 503)


def test_speech_by_chat_is_a_record(new_caller: CallerMaker) -> None:
    caller = new_caller()
    audio: dict[str, Any] = caller.chat("朗读：你好，记录").json["audio"]
    [record] = caller.get("/records").json["data"]
    assert record["id"] == audio["task_id"]
    assert record["audio_url"] == audio["url"]
    assert (record["text"], record["chars"], record["status"]) == ("你好，记录", 5, 2)
