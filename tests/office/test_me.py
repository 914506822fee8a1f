"""One's own account: password, second factor, sessions, preferences; and refusals in its language."""

import re

import pyotp
import pytest

from myna.office.render import browser
from tests.rig.office import PASSWORD, People, Visitor, text_of


def sign_in(people: People, name: str, password: str = PASSWORD) -> Visitor:
    """A second browser of the person."""
    visitor = people.visitor()
    assert visitor.post("/sign-in", name=name, password=password).status == 303
    return visitor


def test_a_second_factor_is_asked_for_after_the_password(people: People) -> None:
    visitor = people.signed_in("rosa")
    begun = visitor.result("/me/second-factor")
    secret = re.search(r"<pre id=\"secret\"[^>]*>([A-Z2-7]{32})<", begun.body.decode())
    assert secret
    totp = pyotp.TOTP(secret[1])
    mistyped = visitor.post("/me/second-factor/confirm", code="000000", secret=secret[1])
    assert mistyped.status == 400
    assert "The code is wrong" in text_of(mistyped)
    assert secret[0] in mistyped.body.decode()
    confirmed = visitor.result("/me/second-factor/confirm", code=totp.now())
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


# ---- refused forms in Chinese


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        ("/me", {"low_balance": "many"}, "余额提醒阈值必须是整数。"),
        ("/site/codes", {"units": "many"}, "点数必须是整数。"),
        ("/site/voices/hide", {}, "音色必填。"),
    ],
)
def test_a_wrong_field_is_named(operator: Visitor, path: str, fields: dict[str, str], said: str) -> None:
    answer = operator.post(path, {"accept-language": "zh-CN"}, **fields)
    assert answer.status == 400
    assert said in text_of(answer)


def test_a_session_is_shown_by_its_browser_and_signing_out_keeps_the_language(people: People) -> None:
    visitor = people.signed_in("in-chinese")
    visitor.submit("/me", language="zh", low_balance="0")
    left = visitor.post("/sign-out").headers["location"].removeprefix("/office")
    visitor.headers["accept-language"] = "en"
    assert "登录" in visitor.page(left)
    assert "用户名或密码错误" in text_of(visitor.post(left, name="in-chinese", password="wrong"))


@pytest.mark.parametrize(
    ("agent", "shown"),
    [
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/131.0 Safari/537.36", "Chrome · Windows"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/131.0 Safari/537.36 Edg/131.0", "Edge · Windows"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1",
            "Safari · iPhone",
        ),
        ("a-program/2", "a-program/2"),
    ],
)
def test_a_browser_is_named_by_its_user_agent(agent: str, shown: str) -> None:
    assert browser(agent) == shown
