"""GET /records."""

import time
from typing import Any

import pytest

from tests.conformance.caller import Caller, assert_shape, check_error
from tests.conformance.conftest import CallerMaker, make_caller
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


def texts(answer: Any) -> list[str]:
    return [record["text"] for record in answer.json["data"]]


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
    assert [texts(page) for page in (first, second, third)] == [
        ["第5句", "第4句"],
        ["第3句", "第2句"],
        ["第1句"],
    ]
    assert [page.json["has_more"] for page in (first, second, third)] == [True, True, False]
    assert [page.json["count"] for page in (first, second, third)] == [2, 2, 1]


def test_a_page_of_exactly_the_rest_has_no_more(author: Caller) -> None:
    answer = author.get("/records?limit=5")
    assert (answer.json["count"], answer.json["has_more"]) == (5, False)


@pytest.mark.parametrize("limit", ["1", "200"])
def test_the_minimum_and_maximum_limit_are_accepted(author: Caller, limit: str) -> None:
    assert author.get(f"/records?limit={limit}").status == 200


def test_before_the_oldest_record_the_list_is_empty(author: Caller) -> None:
    oldest = author.get("/records").json["data"][-1]["id"]
    answer = author.get(f"/records?before={oldest}")
    assert answer.json == {"object": "list", "count": 0, "has_more": False, "data": []}


def test_before_accepts_the_id_of_another_account(author: Caller, caller: Caller) -> None:
    assert caller.speak("之后").status == 200
    foreign = caller.get("/records?limit=1").json["data"][0]["id"]
    assert author.get(f"/records?before={foreign}").json["count"] == 5


@pytest.mark.parametrize("value", ["", "abc", "1.5", "1e1", "%201", "%EF%BC%91", "%00", "null", "0x1", "1_0"])
@pytest.mark.parametrize("name", ["limit", "before"])
def test_a_parameter_that_is_not_an_integer_is_refused(author: Caller, name: str, value: str) -> None:
    message = check_error(author.get(f"/records?{name}={value}"), 400, "invalid_request_error")
    assert name in message


def test_a_query_that_is_not_utf_8_is_refused(author: Caller) -> None:
    check_error(author.get("/records?limit=%FF"), 400, "invalid_request_error")


@pytest.mark.parametrize("limit", ["0", "-1", "201", "1000000000000000000000000"])
def test_a_limit_out_of_range_is_refused(author: Caller, limit: str) -> None:
    assert "limit" in check_error(author.get(f"/records?limit={limit}"), 400, "invalid_request_error")


@pytest.mark.parametrize(
    "before",
    [str(2**53), str(2**63), str(10**30), "-1", "0", "1" + "0" * 5000],
    ids=lambda digits: digits[:25],
)
def test_a_huge_or_negative_before_is_no_internal_error(author: Caller, before: str) -> None:
    answer = author.get(f"/records?before={before}")
    assert answer.status in (200, 400)


def test_records_belong_to_the_account_not_to_the_key(author: Caller) -> None:
    other = Caller(author.service, author.account, author.account.key(scopes=("records",)))
    assert other.get("/records").json == author.get("/records").json


def test_another_account_does_not_see_the_records(new_caller: CallerMaker) -> None:
    assert new_caller().get("/records").json == {"object": "list", "count": 0, "has_more": False, "data": []}


def test_a_chat_and_a_refused_text_are_no_records(new_caller: CallerMaker) -> None:
    caller = new_caller()
    assert caller.chat("hello").status == 200
    check_error(caller.speak("😀"), 400)
    assert caller.get("/records").json["data"] == []


@pytest.mark.parametrize("text", ['引号 " \\ <b> \u2028 😀 𠀀', "一\n二\t三", " 前后 ", "e\u0301 é"])
def test_a_record_has_the_text_unchanged(new_caller: CallerMaker, text: str) -> None:
    caller = new_caller()
    assert caller.speak(text).status == 200
    [record] = caller.get("/records").json["data"]
    assert (record["text"], record["chars"]) == (text, len(text))
