"""A person signs in, makes a key, uses it, and sees why a request is refused: in a real browser."""

import re

from playwright.sync_api import Page, expect

from tests.office.test_pages import sign_in
from tests.rig.browser import OpenContext
from tests.rig.calls import call
from tests.rig.office import People
from tests.rig.service import Service
from tests.rig.waiting import wait_until

CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "Hello"}]}


def test_a_key_is_made_and_used_and_a_refusal_is_explained(site: Service, open_context: OpenContext) -> None:
    People(site).signed_in("first key", units=1)
    page = open_context().new_page()
    sign_in(page, site, "first key")
    page.goto(f"{site.root_url}/office/keys/new")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name=re.compile("Make")).click()
    page.wait_for_load_state()
    plain = re.search(r"myna_[0-9a-f]{40}", page.content())
    assert plain
    url = f"{site.base_url}/chat/completions"
    assert call("POST", url, key=plain[0], data=CHAT).status == 200
    expect(page.get_by_text("✓")).to_be_visible(timeout=30_000)
    refused = call("POST", url, key=plain[0], data=CHAT)
    assert refused.status == 402
    page.goto(f"{site.root_url}/office")
    expect(page.get_by_text("You have no units")).to_be_visible()
    page.goto(f"{site.root_url}/office/keys")
    page.get_by_role("link", name="laptop").click()
    page.wait_for_load_state()
    wait_until(lambda: says(page, refused.json["error"]["message"]), 30, "the refusal is on the page")


def test_reloading_the_page_of_a_new_key_makes_no_other_one(site: Service, open_context: OpenContext) -> None:
    people = People(site)
    visitor = people.signed_in("reloader", units=1)
    page = open_context().new_page()
    sign_in(page, site, "reloader")
    page.goto(f"{site.root_url}/office/keys/new")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name=re.compile("Make")).click()
    expect(page.locator("#plain-key")).to_be_visible()
    page.reload()
    expect(page).to_have_url(re.compile(r"/office/keys/\d+$"))
    expect(page.locator("#plain-key")).to_have_count(0)
    assert len(set(re.findall(r'href="/office/keys/(\d+)"', visitor.get("/keys").body.decode()))) == 1


def test_without_scripts_a_form_that_is_sent_twice_makes_one_key(
    site: Service, open_context: OpenContext
) -> None:
    visitor = People(site).signed_in("reloader-without-scripts", units=1)
    page = open_context(java_script_enabled=False).new_page()
    sign_in(page, site, "reloader-without-scripts")
    page.goto(f"{site.root_url}/office/keys/new")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name=re.compile("Make")).click()
    plain = page.locator("#plain-key").text_content()
    page.reload()
    expect(page.locator("#plain-key")).to_have_text(plain or "")
    page.goto(f"{site.root_url}/office/keys/new")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name=re.compile("Make")).dblclick()
    expect(page.locator("#plain-key")).to_be_visible()
    assert page.locator("#plain-key").text_content() != plain
    assert len(set(re.findall(r'href="/office/keys/(\d+)"', visitor.get("/keys").body.decode()))) == 2


def says(page: Page, text: str) -> bool:
    """Whether the page says it after a reload: a refusal is stored within seconds."""
    page.reload()
    return page.get_by_text(text).count() > 0
