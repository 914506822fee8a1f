"""GET /task and GET /records. Every speech job is a task, also one that is spoken at once."""

import time
from typing import Any

import pytest

from tests.conformance.caller import Caller, assert_shape, check_error, make_caller
from tests.conformance.conftest import ON_BOTH_DATABASES, CallerMaker
from tests.rig.service import Service

RECORD = {
    "id": int,
    "status": int,
    "status_text": str,
    "text": str,
    "chars": int,
    "audio_url": str,
    "create_time": int,
}
RECORDS = {"object": str, "count": int, "has_more": bool, "data": [RECORD]}


@pytest.fixture(scope="module")
def author(service: Service) -> Caller:
    """A caller with five records, 第1句 to 第5句."""
    author = make_caller(service)
    for number in range(1, 6):
        assert author.speak(f"第{number}句").status == 200
    return author


def newest_record(caller: Caller) -> dict[str, object]:
    record: dict[str, object] = caller.get("/records?limit=1").json["data"][0]
    return record


def texts(answer: Any) -> list[str]:
    return [record["text"] for record in answer.json["data"]]


def test_a_completed_task_has_exactly_the_documented_shape(caller: Caller) -> None:
    spoken = caller.speak("任务一").json
    task_id = newest_record(caller)["id"]
    answer = caller.get(f"/task?id={task_id}")
    said = {"text": "任务一", "chars": 3, "audio_url": spoken["audio_url"]}
    task = {"id": task_id, "status": 2, "status_text": "已完成", **said}
    assert (answer.status, answer.json) == (200, {"ok": 1, "data": task})


def test_a_task_of_another_account_is_not_found(caller: Caller, new_caller: CallerMaker) -> None:
    other_caller = new_caller()
    caller.speak("任务三")
    foreign = other_caller.get(f"/task?id={newest_record(caller)['id']}")
    missing = other_caller.get("/task?id=9007199254740991")
    check_error(foreign, 404, "not_found_error")
    assert foreign.body == missing.body
    assert set(foreign.headers) == set(missing.headers)


def test_a_missing_or_invalid_id_is_refused(caller: Caller) -> None:
    for query in ("", "?id=", "?id=1.5", "?id=%201", "?id=%EF%BC%91", "?id=1_0", "?id=%FF", "?ID=1"):
        assert "id" in check_error(caller.get(f"/task{query}"), 400, "invalid_request_error"), query


@ON_BOTH_DATABASES
def test_a_huge_number_is_no_internal_error(caller: Caller) -> None:
    for digits in (*map(str, (2**53, 2**63, 10**30, -(2**63) - 1)), "1" + "0" * 5000):
        assert caller.get(f"/task?id={digits}").status in (400, 404)
        assert caller.get(f"/records?before={digits}").status in (200, 400)


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


def test_the_list_has_exactly_the_documented_shape_newest_first(author: Caller) -> None:
    answer = author.get("/records")
    assert answer.status == 200
    assert_shape(answer.json, RECORDS)
    assert answer.json["object"] == "list"
    assert (answer.json["count"], answer.json["has_more"]) == (5, False)
    assert texts(answer) == ["第5句", "第4句", "第3句", "第2句", "第1句"]
    records = answer.json["data"]
    assert [record["id"] for record in records] == sorted((r["id"] for r in records), reverse=True)
    assert all(abs(record["create_time"] - time.time()) < 600 for record in records)
    assert {(record["status"], record["status_text"], record["chars"]) for record in records} == {
        (2, "已完成", 3)
    }
    assert len({record["audio_url"] for record in records}) == 5


def test_pages_do_not_overlap_or_skip(author: Caller) -> None:
    first = author.get("/records?limit=2")
    second = author.get(f"/records?limit=2&before={first.json['data'][-1]['id']}")
    third = author.get(f"/records?before={second.json['data'][-1]['id']}&limit=2")
    assert [(texts(page), page.json["count"], page.json["has_more"]) for page in (first, second, third)] == [
        (["第5句", "第4句"], 2, True), (["第3句", "第2句"], 2, True), (["第1句"], 1, False),
    ]  # fmt: skip


def test_the_minimum_and_maximum_limit_are_accepted_and_no_other(author: Caller) -> None:
    for limit in ("1", "200"):
        assert author.get(f"/records?limit={limit}").status == 200
    for limit in ("0", "-1", "201", "1000000000000000000000000"):
        message = check_error(author.get(f"/records?limit={limit}"), 400, "invalid_request_error")
        assert "limit" in message


@pytest.mark.parametrize("name", ["limit", "before"])
def test_a_parameter_that_is_not_an_integer_is_refused(author: Caller, name: str) -> None:
    for value in ("", "abc", "1.5", "1e1", "%201", "%EF%BC%91", "%00", "%FF", "null", "0x1", "1_0"):
        message = check_error(author.get(f"/records?{name}={value}"), 400, "invalid_request_error")
        assert name in message or value == "%FF"


def test_tasks_and_records_belong_to_the_account_not_to_the_key(author: Caller) -> None:
    other = Caller(author.service, author.account, author.account.key(scopes=("tts", "records")))
    assert other.get("/records").json == author.get("/records").json
    assert other.get(f"/task?id={newest_record(author)['id']}").status == 200


def test_another_account_does_not_see_the_records(new_caller: CallerMaker) -> None:
    assert new_caller().get("/records").json == {"object": "list", "count": 0, "has_more": False, "data": []}


def test_a_chat_and_a_refused_text_are_no_records(new_caller: CallerMaker) -> None:
    caller = new_caller()
    assert caller.chat("hello").status == 200
    check_error(caller.speak("😀"), 400)
    assert caller.get("/records").json["data"] == []
