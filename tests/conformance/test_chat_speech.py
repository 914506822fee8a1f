"""POST /chat/completions when the instruction asks for speech."""

import regex

from tests.conformance.audio_urls import listen
from tests.conformance.caller import DELIVERED, UNCHARGED, Caller, assert_shape, check_error
from tests.conformance.conftest import CallerMaker
from tests.conformance.test_chat import COMPLETION, ask, text_of, user
from tests.rig.upstream import Upstream

SPOKEN_COMPLETION = COMPLETION | {
    "audio": {"url": str, "task_id": int, "mode": str, "voice_id": str, "text": str, "chars": int}
}


def test_a_keyword_orders_speech(new_caller: CallerMaker, chat_upstream: Upstream) -> None:
    caller = new_caller()
    answer = caller.chat("请朗读：你好，世界")
    assert answer.status == 200
    assert_shape(answer.json, SPOKEN_COMPLETION)
    audio = answer.json["audio"]
    assert text_of(answer) == audio["url"]
    assert (audio["text"], audio["chars"], audio["mode"]) == ("你好，世界", 5, "sync")
    assert audio["voice_id"] == caller.get("/voices").json["default"]
    listen(caller.service, audio["url"])
    assert caller.stats() == DELIVERED
    assert not chat_upstream.requests
    [record] = caller.get("/records").json["data"]
    assert (record["id"], record["audio_url"]) == (audio["task_id"], audio["url"])
    assert (record["text"], record["chars"], record["status"]) == ("你好，世界", 5, 2)
    assert caller.get(f"/task?id={audio['task_id']}").json["data"]["audio_url"] == audio["url"]


def test_the_answer_has_the_shape_of_a_completion_and_counts_the_han_characters(caller: Caller) -> None:
    instruction = "朗读：你好, world"
    answer = caller.chat(instruction, model="svc-agent", stream=True).json
    assert answer["id"].startswith("chatcmpl-")
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "svc-agent"
    [choice] = answer["choices"]
    assert (choice["index"], choice["finish_reason"]) == (0, "stop")
    assert choice["message"]["role"] == "assistant"
    prompt = len(regex.findall(r"\p{Script=Han}", instruction))
    assert answer["usage"] == {"prompt_tokens": prompt, "completion_tokens": 0, "total_tokens": prompt}


def test_only_a_keyword_in_the_last_user_message_orders_speech(
    caller: Caller, chat_upstream: Upstream
) -> None:
    elsewhere = [
        {"role": "system", "content": "朗读：一"},
        user("配音：二"),
        {"role": "assistant", "content": "旁白：三"},
        user("hello"),
        {"role": "assistant", "content": "念出来：四"},
    ]
    assert text_of(ask(caller, elsewhere)) == "hello"
    answer = caller.chat("朗讀：你好")
    assert_shape(answer.json, COMPLETION)
    assert text_of(answer) == "朗讀：你好"
    assert len(chat_upstream.requests) == 2
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    spoken = ask(caller, [user("hello"), user([image, {"type": "text", "text": "朗读：五"}])])
    assert spoken.json["audio"]["text"] == "五"


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


def test_the_text_is_validated_before_the_scope(
    scoped: dict[tuple[str, ...], Caller], tts_max_chars: int
) -> None:
    caller = scoped["chat", "records"]
    check_error(caller.chat("朗读：" + "字" * (tts_max_chars + 1)), 400, "invalid_request_error")
    check_error(caller.chat("朗读：" + "字" * tts_max_chars), 402, "insufficient_quota")
