"""GET /voices lists the voices that can be used now."""

import threading

from tests.conformance.caller import Caller, assert_shape

VOICES = {
    "object": str,
    "default": str,
    "data": [{"voice_id": str, "name": str, "gender": str, "language": str, "source": str}],
}


def test_each_voice_is_listed_once_and_the_first_is_the_default(caller: Caller) -> None:
    answer = caller.get("/voices")
    assert answer.status == 200
    assert_shape(answer.json, VOICES)
    assert answer.json["object"] == "list"
    voices = answer.json["data"]
    assert voices
    assert answer.json["default"] == voices[0]["voice_id"]
    ids = [voice["voice_id"] for voice in voices]
    assert len(set(ids)) == len(ids)
    assert all(voice["voice_id"] and voice["name"] and voice["language"] for voice in voices)
    assert {voice["source"] for voice in voices} == {"public"}


def test_every_listed_voice_can_be_used(caller: Caller) -> None:
    voices = caller.get("/voices").json["data"]
    for voice in [*voices[:6], voices[-1]]:
        answer = caller.speak("你好, hello.", voice_id=voice["voice_id"])
        assert answer.status == 200, voice


def test_the_tts_scope_is_sufficient(scoped: dict[tuple[str, ...], Caller]) -> None:
    assert scoped["tts",].get("/voices").status == 200


def test_without_a_speech_channel_the_list_and_its_default_are_empty(caller_without_speech: Caller) -> None:
    assert caller_without_speech.get("/voices").json == {"object": "list", "data": [], "default": ""}


def test_the_list_does_not_wait_for_calls_in_progress(caller: Caller) -> None:
    speaking = [threading.Thread(target=caller.speak, args=("一二三。" * 20,)) for _ in range(4)]
    for thread in speaking:
        thread.start()
    assert caller.get("/voices", deadline_s=2).status == 200
    for thread in speaking:
        thread.join()
