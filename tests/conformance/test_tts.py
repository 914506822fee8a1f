"""POST /tts."""

import pytest

from tests.conformance.audio_urls import listen
from tests.conformance.caller import DELIVERED, UNCHARGED, Caller, assert_shape, check_error
from tests.conformance.conftest import BODY_MAX_BYTES, CallerMaker

IDEMPOTENT = {"Idempotency-Key": "once"}
SYNC = {"ok": int, "mode": str, "audio_url": str, "chars": int, "cost": int}


@pytest.mark.parametrize("text", ["你好，世界 1.5。", "混合 text 😀 𠀀 e\u0301", 'a "<&>\\\n\t7'])
def test_a_text_is_spoken(caller: Caller, text: str) -> None:
    before = caller.stats()
    answer = caller.speak(text)
    assert answer.status == 200, answer
    assert_shape(answer.json, SYNC)
    assert (answer.json["ok"], answer.json["mode"], answer.json["cost"]) == (1, "sync", 1)
    assert answer.json["chars"] == len(text)
    listen(caller.service, answer.json["audio_url"])
    assert caller.stats() - before == DELIVERED


def test_without_a_voice_the_first_of_the_list_speaks(caller: Caller) -> None:
    default = caller.get("/voices").json["default"]
    by_name = caller.speak("你好", voice_id=default).json["audio_url"]
    # Lengths vary between utterances, by far less than the speech rates of two voices differ.
    named = listen(caller.service, by_name).duration_s
    for fields in ({}, {"voice_id": None}, {"voice_id": ""}):
        by_default = caller.speak("你好", **fields).json["audio_url"]
        assert listen(caller.service, by_default).duration_s == pytest.approx(named, rel=0.02)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("voice_id", {"text": "你好", "voice_id": "no-such-voice"}),
        ("voice_id", {"text": "你好", "voice_id": "a\0b"}),
        ("text", {}),
        ("text", {"text": "😀"}),
    ],
)
def test_an_unknown_voice_and_a_text_with_nothing_to_speak_are_refused(
    caller: Caller, name: str, fields: dict[str, str]
) -> None:
    before = caller.stats()
    assert name in check_error(caller.post("/tts", fields), 400, "invalid_request_error")
    assert caller.stats() - before == UNCHARGED


@pytest.mark.parametrize("character", ["𠀀", "e\u0301"])
def test_the_limit_counts_code_points(caller: Caller, tts_max_chars: int, character: str) -> None:
    longest = character * (tts_max_chars // len(character))
    assert caller.speak(longest).json["chars"] == tts_max_chars
    message = check_error(caller.speak(longest + "字"), 400, "invalid_request_error")
    assert "text" in message
    assert str(tts_max_chars) in message


def test_without_a_speech_channel_it_is_503_and_uncharged(caller_without_speech: Caller) -> None:
    before = caller_without_speech.stats()
    for answer in (caller_without_speech.speak("你好"), caller_without_speech.chat("朗读：你好")):
        check_error(answer, 503, "service_unavailable")
        assert answer.headers["retry-after"] == "0"
    assert caller_without_speech.stats() - before == UNCHARGED
    assert caller_without_speech.get("/records").json["data"] == []
    assert caller_without_speech.chat("hello").status == 200


def test_a_missing_channel_precedes_a_validation_error(caller_without_speech: Caller) -> None:
    for body in (b"{", b'{"text": ""}'):
        check_error(caller_without_speech.post("/tts", body=body), 503)


def test_scope_and_body_size_are_checked_before_the_channel(caller_without_speech: Caller) -> None:
    check_error(caller_without_speech.post("/tts", body=b"x" * (BODY_MAX_BYTES + 1)), 413)
    check_error(caller_without_speech.post("/tts", {"text": "你好"}, key="myna_" + "0" * 40), 401)
    chat_only = Caller(
        caller_without_speech.service,
        caller_without_speech.account,
        caller_without_speech.account.key(scopes=("chat",)),
    )
    check_error(chat_only.speak("你好"), 401)


def test_unknown_fields_are_named_in_a_header(new_caller: CallerMaker) -> None:
    """With `voice` in place of `voice_id` the first voice speaks. The header shows the mistake."""
    caller = new_caller()
    fields = {"voice": "alloy", "format": "mp3", "a\r\nb: c": 1}
    for _ in range(2):  # once spoken, once from the stored response
        answer = caller.speak("你好", IDEMPOTENT, **fields)
        assert answer.status == 200
        assert answer.headers["x-ignored-fields"] == "voice, format, 1 more"
        assert "b" not in answer.headers
    assert "x-ignored-fields" not in caller.speak("你好", speed="1.0").headers
