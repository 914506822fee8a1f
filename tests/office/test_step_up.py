"""What needs a recent password asks for it, and the browser gets the session's new token."""

import sqlite3
from contextlib import closing

from tests.rig.office import PASSWORD, People, Visitor
from tests.rig.service import Service

NEW_PASSWORD = "quiet lantern over 9 hills"
COOKIE = "myna"
ASKED = "Confirm with your password"


def forget_passwords(site: Service) -> None:
    """As if all passwords had been entered long ago."""
    with closing(sqlite3.connect(site.folder / "data" / "myna.sqlite", timeout=30)) as db, db:
        db.execute("UPDATE sessions SET verified_at = 0")


def is_signed_in(visitor: Visitor) -> bool:
    return visitor.get("/me").status == 200


def test_what_needs_a_password_asks_for_it_and_replaces_the_token(site: Service, people: People) -> None:
    visitor = people.signed_in("step-up")
    forget_passwords(site)
    before = visitor.cookies[COOKIE]
    assert ASKED in visitor.post("/me/second-factor").body.decode()
    refused = visitor.post("/me/second-factor", current_password="wrong")
    assert refused.status == 400 and "The password is wrong." in refused.body.decode()
    assert visitor.cookies[COOKIE] == before
    assert "otpauth" not in refused.body.decode()
    shown = visitor.post("/me/second-factor", current_password=PASSWORD)
    assert shown.status == 200 and ASKED not in shown.body.decode()
    after = visitor.cookies[COOKIE]
    assert after != before and is_signed_in(visitor)
    assert not is_signed_in(Visitor(site, cookies={COOKIE: before}))
    assert ASKED not in visitor.post("/me/second-factor").body.decode()


def test_a_form_that_fails_after_the_password_does_not_end_the_session(site: Service, people: People) -> None:
    visitor = people.signed_in("step-up-error", operator=True)
    forget_passwords(site)
    before = visitor.cookies[COOKIE]
    failed = visitor.post("/site/accounts/999999999/reset", current_password=PASSWORD)
    assert failed.status == 404
    assert visitor.cookies[COOKIE] != before and is_signed_in(visitor)


def test_a_new_password_after_the_old_one_keeps_this_browser_signed_in(site: Service, people: People) -> None:
    visitor = people.signed_in("step-up-password")
    elsewhere = Visitor(site)
    elsewhere.submit("/sign-in", name="step-up-password", password=PASSWORD)
    forget_passwords(site)
    visitor.submit("/me/password", password=NEW_PASSWORD, current_password=PASSWORD)
    assert is_signed_in(visitor) and not is_signed_in(elsewhere)
    elsewhere.submit("/sign-in", name="step-up-password", password=NEW_PASSWORD)


def test_a_sign_in_ends_the_session_that_the_browser_had(site: Service, people: People) -> None:
    visitor = people.signed_in("step-up-twice")
    before = visitor.cookies[COOKIE]
    visitor.submit("/sign-in", name="step-up-twice", password=PASSWORD)
    assert visitor.cookies[COOKIE] != before and is_signed_in(visitor)
    assert not is_signed_in(Visitor(site, cookies={COOKIE: before}))
