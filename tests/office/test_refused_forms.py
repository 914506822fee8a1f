"""Forms and addresses that no browser sends are refused by a page, and names by a sentence. A refused form is
shown again as it was filled in, with its error beside the field; so is the form of an ended session.
"""

import re
from urllib.parse import quote

import pytest
from starlette.datastructures import FormData

from myna.errors import CommandError
from myna.office.refill import Refill, packed, refilled, unpacked
from tests.office.test_site import account_page
from tests.rig.calls import Answer, call
from tests.rig.office import PASSWORD, People, Visitor, text_of
from tests.rig.service import Service

BOUNDARY = "a-boundary"
FIELD = f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="text"\r\n\r\nhello\r\n--{BOUNDARY}--\r\n'
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"
URLENCODED = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("status", "path", "content_type", "body"),
    [
        pytest.param(400, "/sign-in", URLENCODED, b"a=1&" * 101, id="fields"),
        pytest.param(400, "/sign-in", MULTIPART, FIELD.replace("\r\n\r\n", "\n\r").encode(), id="broken"),
        pytest.param(400, "/sign-in", MULTIPART, FIELD.replace(' name="text"', "").encode(), id="no-name"),
        pytest.param(400, "/sign-in", "multipart/form-data", FIELD.encode(), id="no-boundary"),
        pytest.param(400, "/sign-in", MULTIPART + "y" * 8_000, FIELD.encode(), id="long-boundary"),
        pytest.param(400, "/sign-in", f"{MULTIPART}; charset=undefined", FIELD.encode(), id="charset"),
        pytest.param(413, "/sign-in", URLENCODED, b"name=" + b"a" * 65_536, id="large"),
        pytest.param(404, f"/keys/{'1' * 5_000}/rename", URLENCODED, b"", id="digits"),
        pytest.param(404, "/nowhere", URLENCODED, b"a=1", id="no-page"),
        pytest.param(405, "/usage", URLENCODED, b"a=1", id="method"),
        pytest.param(405, "/static/logo.svg", URLENCODED, b"a=1", id="static"),
    ],
)
def test_an_odd_form_is_refused_by_a_page(
    people: People, status: int, path: str, content_type: str, body: bytes
) -> None:
    headers = {"content-type": content_type, "origin": people.service.root_url}
    answer = call("POST", f"{people.service.root_url}/office{path}", body=body, headers=headers)
    assert_refused(answer, status)


@pytest.mark.parametrize(
    ("status", "method", "path"),
    [
        (404, "GET", f"/keys/{'9' * 5_000}"),
        (404, "GET", "/static/nothing.js"),
        (404, "GET", "/nowhere"),
        (404, "PATCH", "/nowhere"),
        (405, "GET", "/sign-out"),
        (405, "DELETE", "/keys"),
        (400, "GET", "/sign-in?next=%00"),
        (400, "GET", "/%00"),
    ],
)
def test_an_odd_address_is_refused_by_a_page(people: People, status: int, method: str, path: str) -> None:
    answer = call(method, f"{people.service.root_url}/office{path}")
    assert_refused(answer, status)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [(URLENCODED, b"name=a%00b&name=b"), (MULTIPART, FIELD.replace("hello", "a\0b").encode())],
)
def test_a_field_that_no_database_stores_is_refused(people: People, content_type: str, body: bytes) -> None:
    headers = {"content-type": content_type, "origin": people.service.root_url}
    answer = call("POST", f"{people.service.root_url}/office/sign-in", body=body, headers=headers)
    assert_refused(answer, 400)
    assert "such as NUL" in text_of(answer)


@pytest.mark.parametrize(
    ("path", "field", "fields"),
    [
        ("/keys/new", "name", {"scope": "chat"}),
        ("/start", "model", {"url": "http://127.0.0.1:9/v1", "untested": "true"}),
        ("/site/accounts/new", "name", {}),
        ("/site/channels/new", "name", {"kind": "chat", "url": "http://127.0.0.1:9/v1"}),
        ("/site/channels/new", "model", {"kind": "chat", "name": "odd", "url": "http://127.0.0.1:9/v1"}),
        ("/site/nodes/enroll", "name", {}),
        ("/site/routes/new", "upstream_model", {"name": "odd", "units": "1"}),
        ("/site/voices/rename", "name", {"voice_id": "en-us-female-1"}),
    ],
)
def test_a_name_with_a_control_character_is_refused(
    site: Service, operator: Visitor, path: str, field: str, fields: dict[str, str]
) -> None:
    before = site.cli("activity", "--limit", "1")
    answer = operator.post(path, {}, **fields, **{field: "a\x1b[2Jb"})
    assert (answer.status, "printable" in text_of(answer)) == (400, True)
    assert site.cli("activity", "--limit", "1") == before


def test_a_text_over_64_kib_is_refused_by_the_page_try(people: People) -> None:
    visitor = people.signed_in("talkative")
    answer = visitor.post("/try/speech", text="a" * 70_000, voice_id="en-us-female-1")
    assert answer.status == 400
    assert "text" in text_of(answer) and "/office/try/speech" in answer.body.decode()


def assert_refused(answer: Answer, status: int) -> None:
    assert answer.status == status, answer.body[:500]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers.get("allow", "") == {405: answer.headers.get("allow")}.get(status, "")
    assert re.search(r"<h1>[^<]+</h1>|<p[^>]*>[^<]+\.</p>", answer.body.decode())


PAGE = """<form method="post" action="/a"><input type="hidden" name="name" value="one">
<input name="typed"></form>
<details><summary>More</summary><form method="post" action="/a">
<input type="hidden" name="name" value="two"><input name="typed" autofocus aria-describedby="typed-help">
<label><input type="checkbox" name="sure" checked></label><input type="password" name="key">
<select name="kind"><option value="x" selected>X</option><option value="y">Y</option></select>
<textarea name="memo">
</textarea></form></details>"""


def fault_of(html: str) -> dict[str, str]:
    """The sentence beside each field."""
    return dict(re.findall(r'class="fault" role="alert" id="(\w+)-fault">([^<]*)<', html))


def value_of(html: str, name: str) -> str:
    found = re.search(rf'<input[^>]* name="{name}"[^>]* value="([^"]*)"', html)
    assert found, name
    return found[1]


def test_of_several_forms_the_one_that_was_sent_is_filled_and_opened() -> None:
    typed = FormData([("name", "two"), ("typed", '<"'), ("key", "sk-1"), ("kind", "y"), ("memo", "a & b")])
    error = CommandError("typed: must be two.", field="typed")
    html = refilled(PAGE, "/page", Refill("/a", typed, error.message, error))
    assert html and html.count("<details open>") == 1
    first, second = html.split("<details")
    assert "value" not in first.partition('value="one">')[2]
    assert 'value="&lt;&#34;"' in second and "autofocus" in second and "checked" not in second
    assert 'aria-describedby="typed-help typed-fault" aria-invalid="true"' in second
    assert '<option value="x">X' in second and '<option value="y" selected>' in second
    assert "a &amp; b</textarea>" in second and "sk-1" not in html
    assert fault_of(html) == {"typed": error.message}
    assert refilled(PAGE, "/page", Refill("/b", typed)) is None


@pytest.mark.parametrize(
    ("sentence", "values", "field"),
    [
        ("There already is {name!r}.", {"name": "ann"}, "name"),
        ("{text!r} is not a duration.", {"text": "soon"}, "grace"),
        ("The limit must be whole.", {"field": "units_per_day"}, "units_per_day"),
        ("The database is unavailable.", {}, ""),
    ],
)
def test_the_field_is_found_that_an_error_is_about(sentence: str, values: dict[str, str], field: str) -> None:
    html = '<form method="post">' + "".join(
        f'<input name="{name}">' for name in ("name", "units_per_day", "grace")
    )
    error = CommandError(sentence, **values)
    typed = FormData({"name": "ann", "units_per_day": "x", "grace": "soon"})
    shown = refilled(html, "/page", Refill("/page", typed, error.message, error))
    assert shown and list(fault_of(shown)) == ([field] if field else [])
    assert ('class="error"' in shown) == (not field)


def test_a_kept_form_has_no_secret_and_fits_a_cookie() -> None:
    form = FormData([("name", "ann"), ("key", "sk-1"), ("password", "x"), ("once", "1"), ("scope", "chat")])
    kept = unpacked(packed("/office/p", "/office/a", form))
    assert kept and (kept.page, kept.fields) == ("/office/p", [("name", "ann"), ("scope", "chat")])
    noise = "".join(chr(0x4E00 + place * 7919 % 20000) for place in range(4000))
    assert packed("/p", "/a", FormData({"text": noise})) == ""
    assert unpacked("anything") is None and unpacked("") is None


@pytest.mark.parametrize(
    ("path", "fields", "wrong"),
    [
        ("/site/accounts/new", {"name": "new one", "email": "a@example.org", "units": "many"}, "units"),
        ("/site/codes", {"units": "0", "count": "3", "uses": "2", "memo": "spring"}, "units"),
        ("/me", {"language": "zh", "low_balance": "-1"}, "low_balance"),
        ("/keys/new", {"name": "k" * 101, "cap_units": "500", "rpm": "7"}, "name"),
    ],
)
def test_a_refused_form_keeps_what_was_typed_with_the_error_beside_its_field(
    operator: Visitor, path: str, fields: dict[str, str], wrong: str
) -> None:
    answer = operator.post(path, **fields)
    html = answer.body.decode()
    assert answer.status == 400 and list(fault_of(html)) == [wrong]
    typed = {name: value for name, value in fields.items() if name != "language"}
    assert {name: value_of(html, name) for name in typed} == typed
    assert 'class="error"' not in html


def test_a_form_that_another_page_shows_comes_back_on_that_page(people: People, operator: Visitor) -> None:
    people.service.account(name="refilled")
    page = account_page(operator, "refilled")
    sent = {"referer": f"{people.service.root_url}/office{page}"}
    answer = operator.post(f"{page}/grant", sent, units="many", memo="for spring")
    html = answer.body.decode()
    assert answer.status == 400 and list(fault_of(html)) == ["units"]
    assert (value_of(html, "units"), value_of(html, "memo")) == ("many", "for spring")
    again = {"referer": f"{people.service.root_url}/office{page}/grant"}
    assert list(fault_of(operator.post(f"{page}/grant", again, units="x").body.decode())) == ["units"]


def test_a_form_of_an_ended_session_returns_filled_after_sign_in(people: People, operator: Visitor) -> None:
    people.service.account(name="later", units=1)
    page = account_page(operator, "later")
    visitor = people.visitor()
    sent = {"referer": f"{people.service.root_url}/office{page}"}
    answer = visitor.post(f"{page}/grant", sent, units="41", memo="for spring", current_password="a secret")
    assert answer.headers["location"] == f"/office/sign-in?next={quote('/office' + page)}"
    assert "Your session has ended, so the form was not sent." in visitor.page("/sign-in")
    assert b"a secret" not in (str(unpacked(visitor.cookies["myna-form"]))).encode()
    signed_in = visitor.post(
        f"/sign-in?next={quote('/office' + page)}", name="operator-of-refused_forms", password=PASSWORD
    )
    shown = visitor.get(signed_in.headers["location"].removeprefix("/office"))
    html = shown.body.decode()
    assert "It was not sent yet." in text_of(shown)
    assert (value_of(html, "units"), value_of(html, "memo")) == ("41", "for spring")
    assert people.service.cli("account", "show", "later")["balance"] == 1
    assert "for spring" not in visitor.page(page)
    assert "+41 units" in visitor.submit(f"{page}/grant", units="41", memo="for spring")
