"""One's own account: password, second factor, sessions, preferences."""

import re
import time

import pyotp

from tests.rig.office import PASSWORD, People, Visitor, text_of

ANOTHER = "a cupboard of purple kettles 7"


def sign_in(people: People, name: str, password: str = PASSWORD) -> Visitor:
    """A second browser of the person."""
    visitor = people.visitor()
    assert visitor.post("/sign-in", name=name, password=password).status == 303
    return visitor


def test_a_new_password_ends_all_other_sessions(people: People) -> None:
    visitor = people.signed_in("pia")
    other = sign_in(people, "pia")
    assert "The password is changed." in visitor.submit("/me/password", password=ANOTHER)
    assert other.get("/me").status == 303
    assert visitor.get("/me").status == 200
    assert people.visitor().post("/sign-in", name="pia", password=PASSWORD).status == 400
    sign_in(people, "pia", ANOTHER)


def test_a_weak_password_is_refused_with_the_reason(people: People) -> None:
    visitor = people.signed_in("quin")
    for password, reason in (("short", "at least 12 characters"), ("passwordpassword", "easy to guess")):
        answer = visitor.post("/me/password", password=password)
        assert answer.status == 400
        assert reason in text_of(answer)
    sign_in(people, "quin")


def test_a_second_factor_is_asked_for_after_the_password(people: People) -> None:
    visitor = people.signed_in("rosa")
    begun = visitor.post("/me/second-factor")
    secret = re.search(r"<pre id=\"secret\"[^>]*>([A-Z2-7]{32})<", begun.body.decode())
    assert secret
    totp = pyotp.TOTP(secret[1])
    elsewhere = visitor.post("/me/second-factor/confirm", code="000000", secret="A" * 32)
    assert elsewhere.status == 400
    assert secret[1] not in elsewhere.body.decode()
    mistyped = visitor.post("/me/second-factor/confirm", code="000000", secret=secret[1])
    assert mistyped.status == 400
    assert "The code is wrong" in text_of(mistyped)
    assert secret[0] in mistyped.body.decode()
    confirmed = visitor.post("/me/second-factor/confirm", code=totp.now())
    codes = re.findall(r"\b(?:[a-z2-9]{4}-){5}[a-z2-9]{4}\b", text_of(confirmed))
    assert len(codes) == 10

    second = people.visitor()
    answer = second.post("/sign-in?next=/office/ledger", name="rosa", password=PASSWORD)
    assert answer.headers["location"].startswith("/office/second-factor?next=")
    assert second.get("/keys").status == 303
    path = answer.headers["location"].removeprefix("/office")
    assert second.post(path, code="123").status == 400
    assert second.post(path, code=codes[0]).headers["location"] == "/office/ledger"
    assert second.get("/keys").status == 200

    third = people.visitor()
    third.post("/sign-in", name="rosa", password=PASSWORD)
    assert third.post("/second-factor", code=codes[0]).status == 400  # used already
    next_code = totp.at(int(time.time()) + 30)
    assert third.post("/second-factor", code=next_code).status == 303
    visitor.submit("/me/second-factor/remove")
    sign_in(people, "rosa").page("/keys")


def test_a_session_can_be_ended_from_another(people: People) -> None:
    visitor = people.signed_in("siri")
    visitor.headers["user-agent"] = "<b>Browser</b>"
    other = sign_in(people, "siri")
    page = visitor.get("/me").body.decode()
    (one,) = re.findall(r"/office(/me/sessions/\d+)", page)
    assert people.signed_in("tom").post(one).status == 400
    assert other.get("/me").status == 200
    visitor.submit(one)
    assert other.get("/me").status == 303
    third = sign_in(people, "siri")
    visitor.submit("/me/sessions/others")
    assert third.get("/me").status == 303


def test_the_language_is_that_of_the_account(people: People) -> None:
    visitor = people.signed_in("ugo")
    assert "偏好设置" in visitor.submit("/me", language="zh", low_balance="50")
    assert visitor.post("/me", language="fr", low_balance="50").status == 400
    assert visitor.post("/me", language="en", low_balance="-1").status == 400
