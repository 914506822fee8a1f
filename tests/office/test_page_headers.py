"""Every page, also one that refuses, has the security headers and is stored by nobody."""

import pytest

from myna.office.pages import ALL_PAGES
from tests.rig.calls import Answer
from tests.rig.office import People, Visitor, text_of
from tests.rig.service import Service

HOSTILE = '"><script>alert(1)</script>=1+1'
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"


@pytest.fixture(scope="module")
def operator(site: Service) -> Visitor:
    return People(site).signed_in("header-operator", operator=True)


def address(path: str) -> str:
    """An address of a page; its object does not exist."""
    return path.replace("{id:int}", "999999999").replace("{id}", "0" * 32)


def check(answer: Answer, where: str) -> None:
    headers = answer.headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy, where
    assert "frame-ancestors 'none'" in policy, where
    assert "unsafe" not in policy, where
    assert headers["x-content-type-options"] == "nosniff", where
    assert headers["cross-origin-opener-policy"] == "same-origin", where
    assert headers["cache-control"] == "no-store", where
    assert answer.status < 500, where


@pytest.mark.parametrize("path", sorted({page.path for page in ALL_PAGES if page.show}))
def test_a_page_has_the_headers_with_and_without_a_session(
    people: People, operator: Visitor, path: str
) -> None:
    if "{" in path and not path.startswith(("/keys", "/calls", "/voices", "/site/accounts")):
        path = path.replace("{name}", "none").replace("{voice_id}", "none")
    check(people.visitor().get(address(path)), path)
    if not path.endswith("/live"):
        check(operator.get(address(path)), path)


@pytest.mark.parametrize("path", sorted({page.path for page in ALL_PAGES if page.submit}))
def test_a_form_of_another_site_is_refused_with_the_headers(operator: Visitor, path: str) -> None:
    answer = operator.post(address(path), {"origin": "https://evil.example"})
    assert answer.status == 403, path
    check(answer, path)


@pytest.mark.parametrize(
    "field", ["name", "cap_units", "cap_period", "rpm", "concurrent", "units_per_day", "route"]
)
def test_a_hostile_text_in_a_field_of_a_key_is_text(operator: Visitor, field: str) -> None:
    fields = {"name": "laptop", "scope": "chat", "cap_units": "5" if field == "cap_period" else ""}
    answer = operator.post("/keys/new", **{**fields, field: HOSTILE})
    page = answer.body.decode()
    assert "<script>alert" not in page
    check(answer, field)
    if field != "name":
        assert answer.status == 400, text_of(answer)
