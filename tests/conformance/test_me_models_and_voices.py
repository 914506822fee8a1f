"""GET /me: the key, its scopes and its counters. GET /models and GET /voices."""

import time

from tests.conformance.caller import DELIVERED, REFUNDED, Caller, assert_shape
from tests.conformance.conftest import CallerMaker
from tests.rig.service import ALL_SCOPES

ME = {
    "ok": int,
    "key_name": str,
    "masked": str,
    "scopes": [str],
    "use_count": int,
    "expires_at": int,
    "stats": {"calls": int, "cost": int, "ok_calls": int},
}
MODELS = {"object": str, "data": [{"id": str, "object": str, "created": int, "owned_by": str}]}
VOICES = {
    "object": str,
    "default": str,
    "data": [{"voice_id": str, "name": str, "gender": str, "language": str, "source": str}],
}


def test_a_new_key_has_zero_counters_and_is_masked(new_caller: CallerMaker) -> None:
    caller = new_caller(name="钥匙 one", scopes=("chat", "records"))
    me = caller.get("/me").json
    assert_shape(me, ME)
    assert me["ok"] == 1
    assert me["key_name"] == "钥匙 one"
    assert sorted(me["scopes"]) == ["chat", "records"]
    assert me["use_count"] == 0
    assert me["expires_at"] == 0
    assert me["stats"] == {"calls": 0, "cost": 0, "ok_calls": 0}
    assert me["masked"] == caller.key.masked == caller.key.plain[: len("myna_") + 6] + "***"


def test_me_needs_no_scope(scoped: dict[tuple[str, ...], Caller]) -> None:
    for scope in ALL_SCOPES:
        answer = scoped[scope,].get("/me")
        assert (answer.status, answer.json["scopes"]) == (200, [scope])


def test_expires_at_is_in_unix_seconds(new_caller: CallerMaker) -> None:
    caller = new_caller(expires_in="30d")
    expires_at = caller.get("/me").json["expires_at"]
    assert expires_at == caller.key.expires_at
    assert abs(expires_at - (time.time() + 30 * 86400)) < 60


def test_counters_follow_the_delivered_and_refunded_calls_of_each_key(new_caller: CallerMaker) -> None:
    caller = new_caller()
    other = Caller(caller.service, caller.account, caller.account.key())
    assert caller.chat("hello").status == 200
    assert caller.stats() == DELIVERED
    assert caller.chat("fault=status:500").status == 500
    assert caller.stats() - DELIVERED == REFUNDED
    assert caller.get("/me").json["use_count"] == 2
    assert other.get("/me").json["use_count"] == 0


def test_reading_is_uncharged_and_no_call(caller: Caller) -> None:
    before = caller.stats()
    for path in ("/me", "/models", "/voices", "/records", "/task?id=1"):
        caller.get(path)
    assert caller.stats() == before


def test_exactly_two_models_are_listed(caller: Caller) -> None:
    answer = caller.get("/models")
    assert answer.status == 200
    assert_shape(answer.json, MODELS)
    assert answer.json["object"] == "list"
    models = answer.json["data"]
    assert sorted(model["id"] for model in models) == ["svc-agent", "svc-chat"]
    assert {model["object"] for model in models} == {"model"}
    assert all(model["created"] > 0 and model["owned_by"] for model in models)
    assert caller.get("/models").json == answer.json


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
