"""Usage and the ledger show the figures of the API and of the command line."""

import csv
import io
import json

from tests.office.test_records import speak, with_key
from tests.rig.calls import call
from tests.rig.office import People, Visitor
from tests.rig.service import Key

CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "Hello"}]}


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


def test_a_code_is_redeemed_once(people: People) -> None:
    visitor = people.signed_in("alan", units=5)
    (made,) = people.service.cli("code", "add", "--units", "100")
    code = made["code"]
    assert "100 units added. The balance is 105 units." in visitor.submit("/ledger", code=code.lower())
    assert visitor.post("/ledger", code=code).status == 400
    assert visitor.post("/ledger", code="<b>").status == 400
    assert json.dumps(people.service.cli("account", "show", "alan")["balance"]) == "105"
