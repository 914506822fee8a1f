"""Forms and addresses that no browser sends are refused by a page, and names by a sentence."""

import re

import pytest

from tests.rig.calls import Answer, call
from tests.rig.office import People, Visitor, text_of
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
    site: Service, odd_operator: Visitor, path: str, field: str, fields: dict[str, str]
) -> None:
    before = site.cli("activity", "--limit", "1")
    answer = odd_operator.post(path, {}, **fields, **{field: "a\x1b[2Jb"})
    assert (answer.status, "printable" in text_of(answer)) == (400, True)
    assert site.cli("activity", "--limit", "1") == before


@pytest.fixture(scope="module")
def odd_operator(site: Service) -> Visitor:
    return People(site).signed_in("odd-operator", operator=True)


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
