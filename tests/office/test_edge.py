"""The rules of every page: sessions, who may open what, where forms may come from, headers, errors."""

import re
from urllib.parse import quote

import pytest

from tests.rig.calls import Wire
from tests.rig.office import PASSWORD, People, text_of
from tests.rig.service import ServiceMaker


def test_a_page_without_a_session_leads_to_the_sign_in_and_back(people: People) -> None:
    visitor = people.signed_in("ada")
    other = people.visitor()
    answer = other.get("/keys?state=active")
    assert answer.status == 303
    assert answer.headers["location"] == "/office/sign-in?next=/office/keys%3Fstate%3Dactive"
    answer = other.post(answer.headers["location"].removeprefix("/office"), name="ada", password=PASSWORD)
    assert answer.headers["location"] == "/office/keys?state=active"
    assert "Keys" in visitor.page("/keys")


@pytest.mark.parametrize(
    "target",
    ["https://example.org/", "//example.org", "/office/../x\\y", "/office\nx", "/officeful", "javascript:1"],
)
def test_a_sign_in_leads_to_no_other_site(people: People, target: str) -> None:
    name = f"bea-{abs(hash(target))}"
    people.signed_in(name)
    other = people.visitor()
    answer = other.post(f"/sign-in?next={quote(target)}", name=name, password=PASSWORD)
    assert answer.status == 303
    assert answer.headers["location"] == "/office"


def test_pages_of_operators_do_not_exist_for_others(people: People) -> None:
    visitor = people.signed_in("carl")
    assert visitor.get("/site/activity").status == 404
    assert people.signed_in("olga", operator=True).get("/site/activity").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "http://example.org"},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": ""},
    ],
)
def test_a_form_of_another_site_is_refused(people: People, headers: dict[str, str]) -> None:
    visitor = people.visitor()
    answer = visitor.post("/sign-in", headers, name="x", password="y")
    assert answer.status == 403
    assert re.search(r"Request [0-9a-f]{32}", text_of(answer))


def test_a_form_without_an_origin_is_refused(people: People) -> None:
    visitor = people.visitor()
    answer = visitor._send(
        "POST", "/sign-in", b"name=x", {"content-type": "application/x-www-form-urlencoded"}
    )
    assert answer.status == 403


def test_a_form_from_the_host_of_the_request_is_accepted(people: People) -> None:
    """As on a LAN: the public URL names another host than the one that the browser uses."""
    visitor = people.visitor()
    headers = {"host": "192.168.1.20:8080", "origin": "http://192.168.1.20:8080"}
    assert visitor.post("/sign-in", headers, name="x", password="y").status == 400


def test_responses_have_the_security_headers(people: People) -> None:
    visitor = people.signed_in("dora")
    for path in ("/keys", "/sign-in", "/no-such-page", "/static/office.css"):
        headers = visitor.get(path).headers
        if path == "/no-such-page":
            continue
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe-inline" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-opener-policy"] == "same-origin"
    assert visitor.get("/keys").headers["cache-control"] == "no-store"
    assert "immutable" in visitor.get("/static/office.css").headers["cache-control"]


def test_the_session_cookie_is_for_this_site_alone(people: People) -> None:
    people.signed_in("emil")
    other = people.visitor()
    (cookie,) = other.post("/sign-in", name="emil", password=PASSWORD).cookies
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie  # the public URL of this service is http
    assert "Domain" not in cookie


def test_sign_out_ends_the_session_for_copies_of_the_cookie_too(people: People) -> None:
    visitor = people.signed_in("fay")
    copy = people.visitor()
    copy.cookies.update(visitor.cookies)
    answer = visitor.post("/sign-out")
    assert answer.headers["clear-site-data"] == '"cache", "cookies", "storage"'
    assert copy.get("/keys").status == 303


def test_a_form_that_is_too_large_is_refused(people: People) -> None:
    answer = people.visitor().post("/sign-in", name="x" * 70_000, password="y")
    assert answer.status == 413


def test_a_form_that_arrives_too_slowly_is_refused(make_service: ServiceMaker) -> None:
    service = make_service(speech="none", env={"MYNA_BODY_TIMEOUT_S": "0.5"}).start()
    with Wire(service.root_url) as wire:
        wire.head(
            "POST /office/sign-in HTTP/1.1",
            f"Origin: {service.root_url}",
            "Content-Type: application/x-www-form-urlencoded",
            "Content-Length: 100",
        )
        wire.send(b"name=x")
        assert wire.answer().status == 400


def test_the_page_says_that_a_password_is_wrong(people: People) -> None:
    people.signed_in("gil")
    answer = people.visitor().post("/sign-in", name="gil", password="wrong")
    assert answer.status == 400
    assert "The name or the password is wrong." in text_of(answer)


def test_the_language_is_that_of_the_browser(people: People) -> None:
    visitor = people.visitor()
    visitor.headers["accept-language"] = "de, zh-CN;q=0.9, en;q=0.8"
    assert "登录" in visitor.page("/sign-in")
