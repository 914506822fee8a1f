"""A code that is redeemed and a second factor that is turned on and used, in a real browser."""

import re

import pyotp
import pytest
from playwright.sync_api import Page, expect

from tests.office.test_pages import sign_in
from tests.rig.browser import OpenContext
from tests.rig.office import PASSWORD, People
from tests.rig.service import Service

pytestmark = pytest.mark.slow

PHONE = {"width": 360, "height": 720}


def test_a_code_is_redeemed_once_on_a_phone_in_chinese(
    site: Service, people: People, open_context: OpenContext
) -> None:
    people.signed_in("redeemer", units=3)
    (made,) = site.cli("code", "add", "--units", "7")
    page = open_context(locale="zh-CN", viewport=PHONE, color_scheme="dark").new_page()
    page.goto(f"{site.root_url}/office/sign-in")
    page.get_by_label("名称或邮箱").fill("redeemer")
    page.get_by_label("密码").fill(PASSWORD)
    page.get_by_role("button", name="登录").click()
    page.wait_for_url(re.compile(r"/office/?$"))
    for expected in ("10", "alert"):
        page.goto(f"{site.root_url}/office/ledger")
        page.get_by_label("使用兑换码").fill(made["code"].lower())
        page.get_by_role("button", name="兑换").click()
        page.wait_for_load_state()
        if expected == "alert":
            expect(page.get_by_role("alert")).to_be_visible()
        else:
            expect(page.locator("tbody tr").first).to_contain_text(expected)
    (row,) = [row for row in site.cli("account", "list") if row["name"] == "redeemer"]
    assert row["balance"] == 10


def signed_out(page: Page) -> None:
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Password")).to_be_visible()


def test_a_second_factor_is_turned_on_and_asked_for_and_a_sign_out_ends_every_tab(
    site: Service, people: People, open_context: OpenContext
) -> None:
    people.signed_in("two-factors")
    context = open_context()
    page, tab = context.new_page(), context.new_page()
    sign_in(page, site, "two-factors")
    page.goto(f"{site.root_url}/office/me")
    page.get_by_role("button", name="Turn on").click()
    secret = page.locator("#secret").inner_text()
    page.get_by_role("textbox", name="Code").fill("000000")
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_role("alert")).to_contain_text("The code is wrong")
    expect(page.locator("#secret")).to_have_text(secret)
    page.get_by_role("textbox", name="Code").fill(pyotp.TOTP(secret).now())
    page.get_by_role("button", name="Turn on").click()
    page.wait_for_load_state()
    recovery = re.findall(r"\b[a-z0-9-]{20,}\b", page.locator("main").inner_text())
    assert len(set(recovery)) == 10

    tab.goto(f"{site.root_url}/office/keys")
    expect(tab.get_by_role("heading", name="Keys")).to_be_visible()
    signed_out(page)
    tab.reload()
    expect(tab.get_by_label("Password")).to_be_visible()

    page.get_by_label("Name or e-mail").fill("two-factors")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
    tab.goto(f"{site.root_url}/office/keys")
    expect(tab.get_by_role("textbox", name="Code").or_(tab.get_by_label("Password"))).to_be_visible()
    page.get_by_role("textbox", name="Code").fill(recovery[0])
    page.get_by_role("button", name="Continue").click()
    page.goto(f"{site.root_url}/office/keys")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()
