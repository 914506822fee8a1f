"""What an account did: records, calls, usage and the ledger, as the API and the command line say it."""

import csv
import html
import io
import re
from typing import Any

import pytest

from myna.office.pages import reports
from tests.office.test_edge import change
from tests.rig.calls import call
from tests.rig.office import People, Visitor, text_of
from tests.rig.service import Account, Key

CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "Hello"}]}
FROM_A_NODE = "libsndfile: {can't} write <x>"


def speak(people: People, key: Key, text: str) -> dict[str, Any]:
    """Has a text spoken by the API; its record."""
    data = {"text": text, "voice_id": "en-us-female-1"}
    answer = call("POST", f"{people.service.base_url}/tts", key=key.plain, data=data)
    assert answer.status == 200, answer.body
    listed = call("GET", f"{people.service.base_url}/records?limit=1", key=key.plain).json
    record: dict[str, Any] = listed["data"][0]
    assert record["text"] == text
    return record


def with_key(people: People, name: str) -> tuple[Visitor, Key]:
    visitor = people.signed_in(name)
    return visitor, Account(people.service, name).key()


def call_page(visitor: Visitor, listed: str = "/records") -> str:
    """The address of the newest record's call."""
    found = re.search(r'href="/office(/calls/[0-9a-f]{32})"', visitor.get(listed).body.decode())
    assert found
    return found[1]


def test_a_record_is_listed_with_its_player_and_text(people: People) -> None:
    visitor, key = with_key(people, "rita")
    assert "Nothing has been spoken yet" in visitor.page("/records")
    spoken = speak(people, key, "Hello <b>there</b> & good morning")
    html = visitor.get("/records").body.decode()
    assert "Hello &lt;b&gt;there&lt;/b&gt; &amp; good morning" in html
    assert str(spoken["audio_url"]).rpartition("/")[2] in html


def test_the_search_finds_text_and_state(people: People) -> None:
    visitor, key = with_key(people, "saul")
    speak(people, key, "The first one")
    speak(people, key, "Another 100% sentence_")
    assert "The first one" not in visitor.page("/records?q=anOTHER")
    assert "Another 100%" in visitor.page("/records?q=100%25")
    assert "No record here matches" in visitor.page("/records?q=1_0")
    assert "No record here matches" in visitor.page("/records?state=failed")
    assert "The first one" in visitor.page("/records?state=completed&voice=en-us-female-1")


def test_a_deleted_record_has_neither_text_nor_audio(people: People) -> None:
    visitor, key = with_key(people, "tara")
    spoken = speak(people, key, "Forget me")
    address = call_page(visitor)
    question = visitor.post("/records/delete", id=str(spoken["id"]))
    assert "Delete 1 records?" in text_of(question) or "Delete 1 record?" in text_of(question)
    assert "Forget me" in visitor.page("/records")
    assert "deleted" in visitor.submit("/records/delete", id=str(spoken["id"]), sure="yes")
    assert "Forget me" not in visitor.page("/records")
    assert "This record was deleted." in visitor.page(address)
    assert call("GET", str(spoken["audio_url"])).status == 404
    assert call("GET", f"{people.service.base_url}/task?id={spoken['id']}", key=key.plain).status == 404
    listed = call("GET", f"{people.service.base_url}/records", key=key.plain).json
    assert listed["data"] == []
    audit = people.service.cli("audit", "--full")
    assert audit["breaches"] == []


def test_records_of_others_can_be_neither_seen_nor_deleted(people: People) -> None:
    owner, key = with_key(people, "uma")
    spoken = speak(people, key, "Mine alone")
    address = call_page(owner)
    other = people.signed_in("vic", operator=True)
    assert other.get(address).status == 404
    answer = other.post("/records/delete", id=str(spoken["id"]), sure="yes")
    assert answer.status == 400
    assert "Mine alone" in owner.page("/records")


def test_an_address_that_is_no_call_is_not_found(people: People) -> None:
    visitor = people.signed_in("xena")
    for path in ("/calls/1", "/calls/" + "0" * 32, "/calls/" + "G" * 32):
        assert visitor.get(path).status == 404
    for path in ("/records", "/keys"):
        assert visitor.get(f"{path}?before=x").status == 400


# ---- why a call was refunded, or why its answer is incomplete


def chat_of(people: People, name: str) -> tuple[Visitor, str]:
    """A new account holder, and the id of a chat that was kept."""
    visitor, key = with_key(people, name)
    chat(people, key)
    return visitor, people.service.cli("calls", "--account", name)[0]["call"]


def set_call(people: People, call_id: str, assignment: str, value: object) -> None:
    change(people.service, f"UPDATE calls SET {assignment} WHERE id = ?", value, bytes.fromhex(call_id))


def page_of(visitor: Visitor, path: str) -> str:
    return html.unescape(visitor.page(path))


def test_an_incomplete_answer_that_was_kept_says_why(people: People) -> None:
    operator = people.signed_in("reader-of-calls", operator=True)
    visitor, call_id = chat_of(people, "kept")
    path = f"/calls/{call_id}"
    shown = page_of(visitor, path)
    assert "Received and charged" in shown and "Delivered: the units are kept" in shown
    assert "incomplete" not in shown
    assert "delivered" in page_of(operator, "/site/calls?q=kept")
    set_call(people, call_id, "reason = ?", "StreamUnread")
    shown = page_of(visitor, path)
    assert "The answer is incomplete: the client did not read it in time" in shown
    assert "The units are kept" in shown and "Delivered" not in shown
    assert "incomplete" in page_of(operator, "/site/calls?q=kept")
    set_call(people, call_id, "reason = ?", "Overloaded")
    assert "no channel had a place for it" in page_of(visitor, path)
    set_call(people, call_id, "reason = ?", "StreamUnread")
    visitor.headers["accept-language"] = "zh"
    assert "回答不完整：客户端未能及时读取" in page_of(visitor, path)


def test_another_reason_is_shown_to_operators_as_it_is_stored(people: People) -> None:
    """It may be the message of a compute node."""
    operator = people.signed_in("reader-of-reasons", operator=True)
    visitor, call_id = chat_of(people, "of-a-node")
    set_call(people, call_id, "reason = ?", FROM_A_NODE)
    shown = page_of(visitor, f"/calls/{call_id}")
    assert "libsndfile" not in shown
    assert "another error, which the operator can see" in shown
    assert f"The answer is incomplete: {FROM_A_NODE}" in page_of(operator, f"/site/calls/{call_id}")


# ---- usage and the ledger


def chat(people: People, key: Key) -> None:
    url = f"{people.service.base_url}/chat/completions"
    assert call("POST", url, key=key.plain, data=CHAT).status == 200


def rows_of(visitor: Visitor, path: str) -> list[dict[str, str]]:
    answer = visitor.get(path)
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.body.decode("utf-8-sig"))))


def test_usage_is_that_of_the_key_by_the_api(people: People) -> None:
    visitor, key = with_key(people, "yara")
    assert "No calls in this period" in visitor.page("/usage")
    chat(people, key)
    chat(people, key)
    speak(people, key, "Count me")
    cost = call("GET", f"{people.service.base_url}/me", key=key.plain).json["stats"]["cost"]
    for period in ("24h", "7d", "30d", "90d", "365d"):
        assert "a key" in visitor.page(f"/usage?period={period}")
        rows = rows_of(visitor, f"/usage.csv?period={period}")
        assert {row["rate"]: int(row["calls"]) for row in rows} == {"chat": 2, "tts": 1}
        assert sum(int(row["units"]) for row in rows) == cost


def test_the_ledger_is_that_of_the_command_line(people: People) -> None:
    visitor, key = with_key(people, "zoe")
    chat(people, key)
    people.service.cli("account", "grant", "zoe", "77", "--memo", "=a gift")
    rows = rows_of(visitor, "/ledger.csv")
    listed = people.service.cli("ledger", "zoe")
    assert [(row["call"], int(row["units"]), int(row["balance"])) for row in rows] == [
        (entry["entry"].split("-")[0], entry["units"], entry["balance"]) for entry in listed
    ]
    assert rows[0]["memo"] == "'=a gift"
    page = visitor.page("/ledger")
    assert "=a gift" in page
    assert "the sum of 3 entries" in page
    assert "opening grant" not in visitor.page("/ledger?kind=charge")
    assert "No entries in this month" in visitor.page("/ledger?month=2024-02")
    before = 'aria-label="The month before"'
    assert before not in visitor.get("/ledger").body.decode()
    change(people.service, "UPDATE accounts SET created_at = 1 WHERE name = ?", "zoe")
    assert before in visitor.get("/ledger").body.decode()


def test_a_code_is_redeemed_once(people: People) -> None:
    visitor = people.signed_in("alan", units=5)
    (made,) = people.service.cli("code", "add", "--units", "100")
    code = made["code"]
    assert "100 units added. Balance: 105." in visitor.submit("/ledger", code=code.lower())
    assert visitor.post("/ledger", code=code).status == 400
    assert visitor.post("/ledger", code="<b>").status == 400
    assert people.service.cli("account", "show", "alan")["balance"] == 105


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"),
        ("＝1+1", "'＝1+1"),
        (" @sum", "' @sum"),
        ("a;=1", "a;'=1"),
        ("a;\n+1", "a;\n'+1"),
        ("\tx", "'\tx"),
        ("a-b; c = d", "a-b; c = d"),
    ],
)
def test_no_cell_of_a_csv_file_is_a_formula(text: str, written: str) -> None:
    assert reports.cell(text) == written
