"""Every page in a real browser: no serious fault of accessibility, nothing wider than the window."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.office.test_records import speak
from tests.rig.browser import OpenContext, signed_in_page
from tests.rig.calls import call
from tests.rig.office import PASSWORD, People, Visitor
from tests.rig.service import Account, Service

pytestmark = pytest.mark.slow

PATHS = (
    "", "/keys", "/keys/new", "/try", "/voices", "/voices/new", "/records", "/usage", "/ledger", "/me",
    "/start", "/site/accounts", "/site/accounts/new", "/site/codes", "/site/channels", "/site/routes",
    "/site/routes/new", "/site/routes/change?name=any-*", "/site/nodes", "/site/voices", "/site/models",
    "/site/calls", "/site/settings", "/site/health", "/site/activity",
)  # fmt: skip
VIEWS: dict[str, dict[str, Any]] = {
    "en-1280-light": {"locale": "en-US", "color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "zh-1280-dark": {"locale": "zh-CN", "color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "zh-360-light": {"locale": "zh-CN", "color_scheme": "light", "viewport": {"width": 360, "height": 700}},
    "en-360-dark": {"locale": "en-US", "color_scheme": "dark", "viewport": {"width": 360, "height": 700}},
}
HOSTILE = "<img src=x onerror=alert(1)>\"'&"
SERIOUS = ("serious", "critical")


@pytest.fixture(scope="module")
def operator(site: Service) -> Visitor:
    """An operator with keys, calls and a record, all of them with hostile names."""
    people = People(site)
    name = f"operator {HOSTILE}"
    visitor = people.signed_in(name, operator=True)
    key = Account(site, name).key(name=f"key {HOSTILE}")
    speak(people, key, f"Hello {HOSTILE}")
    data = {"model": "svc-chat", "messages": [{"role": "user", "content": HOSTILE}]}
    assert call("POST", f"{site.base_url}/chat/completions", key=key.plain, data=data).status == 200
    site.cli("code", "add", "--units", "5", "--memo", HOSTILE)
    site.cli("route", "add", "any-*", "--units", "5", "--upstream-model", HOSTILE)
    return visitor


@pytest.fixture(params=VIEWS)
def view(request: pytest.FixtureRequest, open_context: OpenContext, operator: Visitor) -> Iterator[Page]:
    """A page of a signed-in browser in one of the four views."""
    yield signed_in_page(open_context(**VIEWS[request.param]), operator)


def check(page: Page, url: str) -> list[str]:
    """The serious faults of a page, and whether it is wider than its window, its commands shown."""
    answer = page.goto(url)
    assert answer
    if answer.status != 200:
        return [f"{url}: status {answer.status}"]
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    found = Axe().run(page).response["violations"]
    faults = [
        f"{url}: {one['id']}: {one['nodes'][0]['html'][:120]}" for one in found if one["impact"] in SERIOUS
    ]
    page.evaluate("for (const one of document.querySelectorAll('details.command')) one.open = true")
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0:
        faults.append(f"{url}: {wide} px wider than the window")
    if page.locator("img[src=x]").count():
        faults.append(f"{url}: a hostile text became an element")
    return faults


def test_no_page_has_a_serious_fault(view: Page, operator: Visitor) -> None:
    root = operator.service.root_url + "/office"
    paths = list(PATHS)
    html = operator.get("/records").body.decode() + operator.get("/keys").body.decode()
    paths += sorted(set(re.findall(r'href="/office(/calls/[0-9a-f]{32}|/keys/\d+)"', html)))[:4]
    accounts = operator.get("/site/accounts").body.decode()
    paths += re.findall(r'href="/office(/site/accounts/\d+)"', accounts)[:1]
    faults = [fault for path in paths for fault in check(view, root + path)]
    assert not faults, "\n".join(faults)


def test_the_pages_before_the_sign_in_have_none_either(open_context: OpenContext, site: Service) -> None:
    for options in VIEWS.values():
        page = open_context(**options).new_page()
        faults = check(page, f"{site.root_url}/office/sign-in")
        assert not faults, "\n".join(faults)


def test_a_sign_out_ends_the_session_in_another_tab(open_context: OpenContext, site: Service) -> None:
    People(site).signed_in("two-tabs")
    context = open_context()
    first, second = context.new_page(), context.new_page()
    sign_in(first, site, "two-tabs")
    second.goto(f"{site.root_url}/office/keys")
    assert second.get_by_role("heading", name="Keys").is_visible()
    first.get_by_role("button", name="Sign out").click()
    first.wait_for_url("**/office/sign-in")
    second.reload()
    assert "/office/sign-in" in second.url


def test_every_part_of_a_form_can_be_reached_by_keyboard(open_context: OpenContext, site: Service) -> None:
    People(site).signed_in("keyboard")
    page = open_context().new_page()
    sign_in(page, site, "keyboard")
    page.goto(f"{site.root_url}/office/records")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.goto(f"{site.root_url}/office/keys/new")
    page.locator("#name").focus()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    page.wait_for_selector("pre")
    assert "by keyboard" in page.content()


def sign_in(page: Page, site: Service, name: str) -> None:
    page.goto(f"{site.root_url}/office/sign-in")
    page.get_by_label("Name or e-mail").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(re.compile(r"/office/?$"))
