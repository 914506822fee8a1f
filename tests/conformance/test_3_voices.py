"""GET /voices: what can speak now."""

import threading

from tests.conformance.asking import Caller, assert_shape

VOICES = {
    "object": str,
    "default": str,
    "data": [{"voice_id": str, "name": str, "gender": str, "language": str, "source": str}],
}


def test_the_list_names_each_voice_once_and_the_first_as_default(caller: Caller) -> None:
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


def test_every_voice_in_the_list_can_be_used(caller: Caller) -> None:
    voices = caller.get("/voices").json["data"]
    for voice in [*voices[:6], voices[-1]]:
        answer = caller.speak("你好, hello.", voice_id=voice["voice_id"])
        assert answer.status == 200, voice


def test_the_tts_scope_alone_is_enough(scoped: dict[tuple[str, ...], Caller]) -> None:
    assert scoped["tts",].get("/voices").status == 200


def test_where_nothing_can_speak_the_list_is_empty_and_so_is_its_default(mute_caller: Caller) -> None:
    assert mute_caller.get("/voices").json == {"object": "list", "data": [], "default": ""}


def test_the_list_does_not_wait_for_calls_in_flight(caller: Caller) -> None:
    speaking = [threading.Thread(target=caller.speak, args=("一二三。" * 20,)) for _ in range(4)]
    for thread in speaking:
        thread.start()
    assert caller.get("/voices", deadline_s=2).status == 200
    for thread in speaking:
        thread.join()
