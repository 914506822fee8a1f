"""The pages of speech records and of one call."""

import re
from typing import Any

from tests.rig.calls import call
from tests.rig.office import People, Visitor, text_of
from tests.rig.service import Account, Key


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


def test_a_call_shows_its_charge_and_its_end(people: People) -> None:
    visitor, key = with_key(people, "wes")
    speak(people, key, "A timeline")
    page = visitor.page(call_page(visitor))
    assert "Received and charged" in page
    assert "Delivered: the units are kept" in page


def test_an_address_that_is_no_call_is_not_found(people: People) -> None:
    visitor = people.signed_in("xena")
    for path in ("/calls/1", "/calls/" + "0" * 32, "/calls/" + "G" * 32):
        assert visitor.get(path).status == 404
    assert visitor.get("/records?before=x").status == 400
