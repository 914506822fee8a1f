"""The rules of every page: sessions, who may open what, where forms may come from, headers, errors."""

import asyncio
import re
import sqlite3
from contextlib import ExitStack, closing
from urllib.parse import quote

import pytest
from starlette.requests import Request

from myna.errors import Forbidden, RateLimited
from myna.office import web_security
from myna.office.page import STREAMS_OF_ACCOUNT_MAX
from myna.office.pages import ALL_PAGES
from myna.office.web_security import FORMS_PER_MINUTE_MAX, FormRate, check_same_origin
from tests.office.conftest import MakeSite
from tests.rig.calls import Answer, Wire
from tests.rig.office import PASSWORD, People, Visitor, text_of
from tests.rig.service import Service

PUBLIC_URL = "https://ai.example.org"
NEW_PASSWORD = "quiet lantern over 9 hills"
COOKIE = "myna"
ASKED = "Confirm with your password"
HOSTILE = '"><script>alert(1)</script>=1+1'


# ---- sessions


def test_a_page_without_a_session_leads_to_the_sign_in_and_back(people: People) -> None:
    visitor = people.signed_in("ada")
    other = people.visitor()
    answer = other.get("/keys?state=active")
    assert answer.status == 303
    assert answer.headers["location"] == "/office/sign-in?next=/office/keys%3Fstate%3Dactive"
    answer = other.post(answer.headers["location"].removeprefix("/office"), name="ada", password=PASSWORD)
    assert answer.headers["location"] == "/office/keys?state=active"
    assert "Keys" in visitor.page("/keys")


def test_a_slash_after_a_pages_address_is_left_out(people: People) -> None:
    for path, page in (("/", ""), ("/keys/", "/keys"), ("//example.org//", "//example.org")):
        answer = people.visitor().get(path)
        assert (answer.status, answer.headers["location"]) == (303, f"/office{page}")


def test_a_sign_in_leads_to_no_other_site(people: People) -> None:
    people.signed_in("bea")
    for target in ("https://example.org/", "//example.org", "/office/../x\\y", "/office\nx", "/officeful"):
        answer = people.visitor().post(f"/sign-in?next={quote(target)}", name="bea", password=PASSWORD)
        assert (answer.status, answer.headers["location"]) == (303, "/office"), target


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


def test_the_page_says_that_a_password_is_wrong_in_the_language_of_the_browser(people: People) -> None:
    people.signed_in("gil")
    answer = people.visitor().post("/sign-in", name="gil", password="wrong")
    assert answer.status == 400
    assert "The name or the password is wrong." in text_of(answer)
    visitor = people.visitor()
    visitor.headers["accept-language"] = "de, zh-CN;q=0.9, en;q=0.8"
    assert "登录" in visitor.page("/sign-in")
    assert "用户名或密码错误。" in text_of(visitor.post("/sign-in", name="gil", password="wrong"))
    of_session = {"referer": f"{people.service.root_url}/office/keys"}
    assert visitor.post("/sign-in", of_session, name="gil", password="wrong").status == 400


# ---- who may open a page


def test_pages_of_operators_do_not_exist_for_others(people: People) -> None:
    visitor, operator = people.signed_in("carl"), people.signed_in("olga", operator=True)
    for page in ALL_PAGES:
        if page.path.startswith(("/site", "/start")):
            path = address(page.path)
            if page.show:
                assert visitor.get(path).status == 404, path
            if page.submit:
                assert visitor.post(path, name="x", units="1").status == 404, path
    for path in ("/start", "/site/accounts", "/site/accounts/1", "/site/settings"):
        assert operator.get(path).status == 200, path


# ---- where a form comes from


def request(**headers: str) -> Request:
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": fields})


@pytest.mark.parametrize(
    "headers",
    [
        *({"sec_fetch_site": site} for site in ("cross-site", "same-site", "none")),
        *(
            {"origin": origin}
            for origin in ("http://example.org", "http://ai.example.org", "null", "http://[", "")
        ),
        {"sec_fetch_site": "cross-site", "origin": PUBLIC_URL},
        {},
    ],
)
def test_a_form_of_another_site_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(Forbidden):
        check_same_origin(request(**headers, host="localhost"), PUBLIC_URL)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "same-origin"},
        {"origin": PUBLIC_URL},
        {"origin": "http://192.168.1.20:8080", "host": "192.168.1.20:8080"},
    ],
    ids=["as the browser says", "the public URL", "on a LAN, which has another host than the public URL"],
)
def test_a_form_of_this_site_is_accepted(headers: dict[str, str]) -> None:
    check_same_origin(request(**headers), PUBLIC_URL)


def test_no_form_is_accepted_from_another_site(people: People) -> None:
    operator = people.signed_in("eva", operator=True)
    for page in ALL_PAGES:
        if page.submit is not None:
            answer = operator.post(address(page.path), {"origin": "https://evil.example"})
            assert answer.status == 403, page.path
    check(answer)
    assert re.search(r"Request [0-9a-f]{32}", text_of(answer))


def address(path: str) -> str:
    """An address of a page; its object does not exist."""
    return re.sub(r"\{.*?\}", "none", path.replace("{id:number}", "999999999").replace("{id}", "0" * 32))


def test_a_form_that_is_too_slow_is_refused(make_site: MakeSite) -> None:
    slow = make_site(env={"MYNA_BODY_TIMEOUT_S": "0.5"})
    with Wire(slow.root_url) as wire:
        form = ("Content-Type: application/x-www-form-urlencoded", "Content-Length: 100")
        wire.head("POST /office/sign-in HTTP/1.1", f"Origin: {slow.root_url}", *form)
        wire.send(b"name=x")
        assert wire.answer().status == 400


# ---- headers, and text of strangers


def check(answer: Answer) -> None:
    headers = answer.headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


async def test_an_account_sends_a_limited_number_of_forms_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_security, "REFUSAL_DELAY_S", 0.05)
    now, clock = 7_199.0, asyncio.get_running_loop().time
    rate = FormRate(lambda: now)
    for _ in range(FORMS_PER_MINUTE_MAX):
        await rate.count(1)
    began = clock()
    with pytest.raises(RateLimited) as refused:
        await rate.count(1)
    assert clock() - began >= 0.05, "the next one comes no sooner"
    assert refused.value.headers["Retry-After"] == "1"
    await rate.count(2)
    now += 1
    await rate.count(1)


def test_too_many_forms_are_refused_with_a_page_that_says_so(people: People) -> None:
    visitor, other = people.signed_in("hasty"), people.signed_in("calm")
    answer = visitor.post("/keys/1/rename", name="x")
    for _ in range(2 * FORMS_PER_MINUTE_MAX):  # of two minutes of the clock
        if answer.status != 404:
            break
        answer = visitor.post("/keys/1/rename", name="x")
    assert (answer.status, 1 <= int(answer.headers["retry-after"]) <= 60) == (429, True)
    assert f"Only {FORMS_PER_MINUTE_MAX} forms are accepted in a minute" in text_of(answer)
    assert other.post("/keys/1/rename", name="x").status == 404
    assert visitor.get("/keys").status == 200


def test_a_page_has_the_headers_with_and_without_a_session(people: People) -> None:
    visitor = people.signed_in("dora")
    for answer in (
        visitor.get("/keys"),
        visitor.get("/usage.csv"),
        people.visitor().get("/keys"),
        people.visitor().get("/sign-in"),
        visitor.get("/no-such-page"),
        visitor.get("/calls/" + "0" * 32),
    ):
        check(answer)
    style = visitor.get("/static/office.css").headers
    assert style["x-content-type-options"] == "nosniff"
    assert "immutable" in style["cache-control"]


def test_every_page_opens_or_says_why_not(people: People) -> None:
    operator = people.signed_in("hanna", operator=True)
    for page in ALL_PAGES:
        if page.show is not None and not page.path.endswith("/live"):
            assert operator.get(address(page.path)).status < 500, page.path


def test_a_hostile_text_in_a_field_of_a_key_is_text(people: People) -> None:
    visitor = people.signed_in("hostile")
    for field in ("name", "cap_units", "cap_period", "rpm", "concurrent", "units_per_day", "route"):
        fields = {"name": "laptop", "scope": "chat", "cap_units": "5" if field == "cap_period" else ""}
        fields[field] = HOSTILE
        answer = visitor.post("/keys/new", {}, **fields)
        if field == "name":
            answer = visitor.get(answer.headers["location"].removeprefix("/office"))
        assert "<script>alert" not in answer.body.decode()
        assert answer.status == (200 if field == "name" else 400), text_of(answer)


# ---- a recent password


def forget_passwords(site: Service) -> None:
    """As if all passwords had been entered long ago."""
    change(site, "UPDATE sessions SET verified_at = 0")


def forget_password(site: Service, name: str) -> None:
    """As if the account's password had been entered long ago."""
    of_account = "account_id = (SELECT id FROM accounts WHERE name = ?)"
    change(site, f"UPDATE sessions SET verified_at = 0 WHERE {of_account}", name)


def change(site: Service, statement: str, *values: object) -> None:
    """Changes the database of a site as no page does."""
    with closing(sqlite3.connect(site.folder / "data" / "myna.sqlite", timeout=30)) as db, db:
        db.execute(statement, values)


def is_signed_in(visitor: Visitor) -> bool:
    return visitor.get("/me").status == 200


def test_what_changes_a_sign_in_or_the_site_needs_a_recent_password() -> None:
    of_sign_in = {"/me/password", "/me/second-factor", "/me/oidc", "/me/oidc/remove"}
    of_site = {"/site/channels/key", "/site/routes/new", "/site/accounts/{id:number}/grant"}
    assert {page.path for page in ALL_PAGES if page.recent} >= of_sign_in | of_site


def test_what_needs_a_password_asks_for_it_and_replaces_the_token(site: Service, people: People) -> None:
    visitor = people.signed_in("step-up")
    forget_passwords(site)
    before = visitor.cookies[COOKIE]
    asked = visitor.post("/me/second-factor", {"referer": f"{site.root_url}/office/me?x=1"}).body.decode()
    assert ASKED in asked and '<a class="button" href="/office/me?x=1">Cancel</a>' in asked
    refused = visitor.post("/me/second-factor", current_password="wrong")
    assert refused.status == 400 and "The password is wrong." in refused.body.decode()
    assert visitor.cookies[COOKIE] == before
    assert "otpauth" not in refused.body.decode()
    shown = visitor.result("/me/second-factor", current_password=PASSWORD)
    assert shown.status == 200 and ASKED not in shown.body.decode()
    after = visitor.cookies[COOKIE]
    assert after != before and is_signed_in(visitor)
    assert not is_signed_in(Visitor(site, cookies={COOKIE: before}))
    assert ASKED not in visitor.result("/me/second-factor").body.decode()


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
    assert people.visitor().post("/sign-in", name="step-up-password", password=PASSWORD).status == 400
    elsewhere.submit("/sign-in", name="step-up-password", password=NEW_PASSWORD)


def test_a_sign_in_ends_the_session_that_the_browser_had(site: Service, people: People) -> None:
    visitor = people.signed_in("step-up-twice")
    before = visitor.cookies[COOKIE]
    visitor.submit("/sign-in", name="step-up-twice", password=PASSWORD)
    assert visitor.cookies[COOKIE] != before and is_signed_in(visitor)
    assert not is_signed_in(Visitor(site, cookies={COOKIE: before}))


# ---- pages that stay up to date


ENDS_S = 2.5
"""A look at the session each second, and time for the machine."""


def test_a_live_page_ends_with_its_session(site: Service, people: People) -> None:
    visitor = people.signed_in("live")
    visitor.result("/keys/new", name="k", scope="chat")
    (key,) = site.cli("key", "list", "live")
    with Wire(site.root_url) as wire:
        sent = followed(wire, visitor, f"/keys/{key['id']}/live")
        while b"event: content" not in sent:
            sent += wire.socket.recv(65536)
        site.cli("account", "disable", "live")
        wire.socket.settimeout(ENDS_S)
        while not sent.endswith(b"\r\n0\r\n\r\n"):
            received = wire.socket.recv(65536)
            assert received, "the connection stays open for the next request"
            sent += received
    assert b"event: end" not in sent, "the browser connects again, and is led to the sign-in"


def followed(wire: Wire, visitor: Visitor, path: str) -> bytes:
    """Asks for a stream; the beginning of the answer."""
    wire.head(f"GET /office{path} HTTP/1.1", f"Cookie: {COOKIE}={visitor.cookies[COOKIE]}")
    return wire.socket.recv(65536)


def test_the_live_pages_of_an_account_leave_places_to_others(site: Service, people: People) -> None:
    visitor, other = (people.signed_in(name, operator=True) for name in ("windows", "window"))
    with ExitStack() as windows:
        for _ in range(STREAMS_OF_ACCOUNT_MAX):
            window = windows.enter_context(Wire(site.root_url))
            assert b" 200 " in followed(window, visitor, "/site/nodes/live")
        refused = visitor.get("/site/nodes/live")
        assert (refused.status, refused.headers["retry-after"]) == (503, "10")
        assert b" 200 " in followed(windows.enter_context(Wire(site.root_url)), other, "/site/nodes/live")
