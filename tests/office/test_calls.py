"""The page of a call says why it was refunded, or why its answer is incomplete."""

import html
import secrets
import sqlite3
from contextlib import closing

import pytest

from tests.rig.calls import call
from tests.rig.office import People, Visitor
from tests.rig.service import Account, Service

FROM_A_NODE = "libsndfile: {can't} write <x>"


@pytest.fixture
def operator(people: People) -> Visitor:
    return people.signed_in(f"op-{secrets.token_hex(4)}", operator=True)


def chat(people: People, name: str) -> tuple[Visitor, str]:
    """A new account holder, and the id of a chat that was kept."""
    visitor = people.signed_in(name)
    body = {"model": "svc-chat", "messages": [{"role": "user", "content": "Hello"}]}
    key = Account(people.service, name).key().plain
    assert call("POST", f"{people.service.base_url}/chat/completions", key=key, data=body).status == 200
    return visitor, people.service.cli("calls", "--account", name)[0]["call"]


def set_reason(service: Service, call_id: str, reason: str) -> None:
    with closing(sqlite3.connect(service.folder / "data" / "myna.sqlite", timeout=30)) as db, db:
        db.execute("UPDATE calls SET reason = ? WHERE id = ?", (reason, bytes.fromhex(call_id)))


def page(visitor: Visitor, path: str) -> str:
    return html.unescape(visitor.page(path))


def test_a_complete_answer_was_delivered_without_a_reason(people: People, operator: Visitor) -> None:
    visitor, call_id = chat(people, "complete")
    shown = page(visitor, f"/calls/{call_id}")
    assert "Delivered: the units are kept" in shown
    assert "incomplete" not in shown
    assert "delivered" in page(operator, "/site/calls?q=complete")


@pytest.mark.parametrize(
    ("reason", "english", "chinese"),
    [
        ("StreamFailed", "the channel broke off its answer", "渠道中断了应答"),
        ("ClientDisconnected", "the client disconnected", "客户端断开了连接"),
        ("StreamUnread", "the client did not read it in time", "客户端未能及时读取"),
    ],
)
def test_an_incomplete_answer_that_was_kept_says_why(
    people: People, operator: Visitor, reason: str, english: str, chinese: str
) -> None:
    name = f"kept-{reason.lower()}"
    visitor, call_id = chat(people, name)
    set_reason(people.service, call_id, reason)
    shown = page(visitor, f"/calls/{call_id}")
    assert f"The answer is incomplete: {english}" in shown
    assert "The units are kept" in shown and "Delivered" not in shown
    assert "incomplete" in page(operator, f"/site/calls?q={name}")
    visitor.headers["accept-language"] = "zh"
    assert f"应答不完整：{chinese}" in page(visitor, f"/calls/{call_id}")


def test_a_refunded_call_is_listed_with_the_units_that_were_kept(people: People, operator: Visitor) -> None:
    _, call_id = chat(people, "refunded-units")
    listed = operator.get("/site/calls?q=refunded-units").body.decode()
    assert '<td class="number">1</td>' in listed
    with closing(sqlite3.connect(people.service.folder / "data" / "myna.sqlite", timeout=30)) as db, db:
        db.execute("UPDATE calls SET state = 2 WHERE id = ?", (bytes.fromhex(call_id),))
    try:
        listed = operator.get("/site/calls?q=refunded-units").body.decode()
        assert '<td class="number">0</td>' in listed and '<td class="number">1</td>' not in listed
    finally:
        with closing(sqlite3.connect(people.service.folder / "data" / "myna.sqlite", timeout=30)) as db, db:
            db.execute("UPDATE calls SET state = 1 WHERE id = ?", (bytes.fromhex(call_id),))


def test_another_reason_is_shown_to_operators_as_it_is_stored(people: People, operator: Visitor) -> None:
    """It may be the message of a compute node."""
    visitor, call_id = chat(people, "of-a-node")
    set_reason(people.service, call_id, FROM_A_NODE)
    shown = page(visitor, f"/calls/{call_id}")
    assert "libsndfile" not in shown
    assert "another error, which the operator can see" in shown
    assert f"The answer is incomplete: {FROM_A_NODE}" in page(operator, f"/site/calls/{call_id}")
