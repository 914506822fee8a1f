"""GET /task. Every speech job is a task, also one that is spoken at once."""

import pytest

from tests.conformance.caller import Caller, assert_shape, check_error
from tests.conformance.conftest import CallerMaker

TASK = {
    "ok": int,
    "data": {"id": int, "status": int, "status_text": str, "text": str, "chars": int, "audio_url": str},
}


def newest_record(caller: Caller) -> dict[str, object]:
    record: dict[str, object] = caller.get("/records?limit=1").json["data"][0]
    return record


def test_a_completed_task_has_exactly_the_documented_shape(caller: Caller) -> None:
    spoken = caller.speak("任务一").json
    task_id = newest_record(caller)["id"]
    answer = caller.get(f"/task?id={task_id}")
    assert answer.status == 200
    assert_shape(answer.json, TASK)
    assert answer.json == {
        "ok": 1,
        "data": {
            "id": task_id,
            "status": 2,
            "status_text": "已完成",
            "text": "任务一",
            "chars": 3,
            "audio_url": spoken["audio_url"],
        },
    }


def test_speech_by_chat_has_a_task_id(caller: Caller) -> None:
    audio = caller.chat("朗读：任务二").json["audio"]
    assert caller.get(f"/task?id={audio['task_id']}").json["data"]["audio_url"] == audio["url"]


def test_a_task_of_another_account_is_not_found(caller: Caller, new_caller: CallerMaker) -> None:
    other_caller = new_caller()
    caller.speak("任务三")
    foreign = other_caller.get(f"/task?id={newest_record(caller)['id']}")
    missing = other_caller.get("/task?id=9007199254740991")
    check_error(foreign, 404, "not_found_error")
    assert foreign.body == missing.body
    assert set(foreign.headers) == set(missing.headers)


def test_another_key_of_the_account_sees_the_task(caller: Caller) -> None:
    caller.speak("任务四")
    other = Caller(caller.service, caller.account, caller.account.key(scopes=("tts",)))
    assert other.get(f"/task?id={newest_record(caller)['id']}").status == 200


@pytest.mark.parametrize(
    "query",
    [
        *("", "?", "?id=", "?id=abc", "?id=1.5", "?id=1e3", "?id=%201", "?id=1%20", "?id=%EF%BC%91"),
        *("?id=0x1", "?id=1_0", "?id=null", "?id=true", "?id=%00", "?id=%FF", "?id=1%00", "?ID=1"),
        *("?id=--1", "?id=1;2", "?id[]=1"),
    ],
)
def test_a_missing_or_invalid_id_is_refused(caller: Caller, query: str) -> None:
    assert "id" in check_error(caller.get(f"/task{query}"), 400, "invalid_request_error")


@pytest.mark.parametrize("task_id", ["0", "-1", "9007199254740991"])
def test_an_unknown_id_is_not_found(caller: Caller, task_id: str) -> None:
    check_error(caller.get(f"/task?id={task_id}"), 404, "not_found_error")


@pytest.mark.parametrize(
    "digits",
    [*map(str, (2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63) - 1)), "1" + "0" * 5000],
    ids=lambda digits: digits[:25],
)
def test_a_huge_id_is_a_client_error(caller: Caller, digits: str) -> None:
    assert caller.get(f"/task?id={digits}").status in (400, 404)


def test_the_tts_scope_is_sufficient(scoped: dict[tuple[str, ...], Caller]) -> None:
    check_error(scoped["tts",].get("/task?id=1000000"), 404)


def test_the_status_text_is_in_the_language_of_the_site(caller: Caller) -> None:
    caller.speak("任务五")
    task_id = newest_record(caller)["id"]
    caller.service.cli("settings", "set", "language", "en")
    try:
        assert caller.get(f"/task?id={task_id}").json["data"]["status_text"] == "completed"
        assert newest_record(caller)["status_text"] == "completed"
    finally:
        caller.service.cli("settings", "set", "language", "zh")
    assert caller.get(f"/task?id={task_id}").json["data"]["status_text"] == "已完成"
