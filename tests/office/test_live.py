"""Pages that stay up to date end with the session that opened them."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from myna.settings import SQLITE_FILE
from tests.rig.calls import Wire
from tests.rig.office import PASSWORD, People, Visitor
from tests.rig.service import Service

ENDS_S = 2.5
"""A look at the session each second, and time for the machine."""


def sign_out(site: Service, visitor: Visitor, name: str) -> None:
    visitor.post("/sign-out")


def change_password(site: Service, visitor: Visitor, name: str) -> None:
    visitor.submit("/me/password", password="quiet lantern over 9 hills")


def end_elsewhere(site: Service, visitor: Visitor, name: str) -> None:
    other = Visitor(site)
    other.submit("/sign-in", name=name, password=PASSWORD)
    other.submit("/me/sessions/others")


def disable(site: Service, visitor: Visitor, name: str) -> None:
    site.cli("account", "disable", name)


def expire(site: Service, visitor: Visitor, name: str) -> None:
    with closing(sqlite3.connect(site.folder / "data" / SQLITE_FILE)) as db, db:
        query = "UPDATE sessions SET seen_at = 0 WHERE account_id = (SELECT id FROM accounts WHERE name = ?)"
        db.execute(query, (name,))


@pytest.mark.parametrize("end", [sign_out, change_password, end_elsewhere, disable, expire])
def test_a_live_page_ends_with_its_session(
    site: Service, people: People, end: Callable[[Service, Visitor, str], None]
) -> None:
    name = f"live-{end.__name__}"
    visitor = people.signed_in(name)
    made = visitor.result("/keys/new", name="k", scope="chat")
    assert made.status == 200
    (key,) = site.cli("key", "list", name)
    with Wire(site.root_url) as wire:
        path = f"/office/keys/{key['id']}/live"
        wire.head(f"GET {path} HTTP/1.1", f"Cookie: myna={visitor.cookies['myna']}")
        heard = wire.socket.recv(65536)
        while b"event: content" not in heard:
            heard += wire.socket.recv(65536)
        end(site, visitor, name)
        wire.socket.settimeout(ENDS_S)
        while not heard.endswith(b"\r\n0\r\n\r\n"):
            received = wire.socket.recv(65536)
            assert received, "the connection stays open for the next request"
            heard += received
    assert b"event: end" not in heard, "the browser connects again, and is led to the sign-in"
