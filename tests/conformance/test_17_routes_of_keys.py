"""A key that is limited to routes: on /v1 another model is a 401, and nothing is charged."""

from tests.conformance.caller import UNCHARGED, Stats, check_error
from tests.conformance.conftest import CallerMaker


def test_a_key_calls_only_the_models_of_its_routes(new_caller: CallerMaker) -> None:
    caller = new_caller()
    key_id = str(caller.key.id)
    caller.service.cli("key", "routes", key_id, "--route", "svc-chat")
    assert caller.chat("hello").status == 200
    assert caller.chat("朗读：你好").status == 200, "speech by chat is a call of the chat's model"
    before = caller.stats()
    for answer in (caller.chat("hello", model="svc-agent"), caller.speak("你好")):
        message = check_error(answer, 401, "authentication_error")
        assert "may not use the model" in message
    assert caller.stats() - before == UNCHARGED
    assert caller.get("/models").status == 200
    caller.service.cli("key", "routes", key_id, "--route", "tts-1")
    check_error(caller.chat("hello"), 401, "authentication_error")
    assert caller.speak("你好").status == 200
    caller.service.cli("key", "routes", key_id, "--any")
    assert caller.chat("hello", model="svc-agent").status == 200
    assert caller.stats() == Stats(calls=4, cost=4, ok_calls=4)
