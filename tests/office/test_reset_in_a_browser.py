"""A reset password, from the operator's click to its owner's sign-in with the new one."""

import pytest
from playwright.sync_api import Page, expect

from tests.rig.browser import OpenContext, signed_in_page
from tests.rig.office import PASSWORD, People
from tests.rig.service import Service

pytestmark = pytest.mark.slow

ANOTHER = "a cupboard of purple kettles 7"


def sign_in(page: Page, site: Service, password: str) -> None:
    page.goto(f"{site.root_url}/office/sign-in")
    page.get_by_label("Name or e-mail").fill("reset-owner")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_a_reset_ends_old_sessions_and_the_old_password(
    site: Service, people: People, open_context: OpenContext
) -> None:
    operator = signed_in_page(open_context(), people.signed_in("reset-operator", operator=True))
    old = signed_in_page(open_context(), people.signed_in("reset-owner"))
    old.goto(f"{site.root_url}/office/ledger")
    expect(old.get_by_role("heading", name="Ledger")).to_be_visible()

    operator.goto(f"{site.root_url}/office/site/accounts")
    operator.get_by_role("link", name="reset-owner").click()
    operator.get_by_role("button", name="Start a reset").click()
    link = operator.locator("#link").inner_text()

    owner = open_context().new_page()
    owner.goto(link)
    old.reload()
    expect(old.get_by_role("heading", name="Ledger")).to_be_visible()  # a link that is opened changes nothing
    owner.get_by_label("Password").fill("passwordpassword")
    owner.get_by_role("button", name="Continue").click()
    expect(owner.get_by_role("alert")).to_contain_text("easy to guess")
    owner.get_by_label("Password").fill(ANOTHER)
    owner.get_by_role("button", name="Continue").click()
    expect(
        owner.get_by_role("link", name="Sign out").or_(owner.get_by_role("button", name="Sign out"))
    ).to_be_attached()

    old.reload()
    expect(old.get_by_role("button", name="Sign in")).to_be_visible()
    sign_in(old, site, PASSWORD)
    expect(old.get_by_role("alert")).to_contain_text("wrong")
    sign_in(old, site, ANOTHER)
    expect(old.get_by_role("heading", level=1)).not_to_have_text("Sign in")
    expect(old).not_to_have_url(f"{site.root_url}/office/sign-in")

    late = open_context().new_page()
    late.goto(link)
    expect(late.get_by_role("heading", name="This link has expired")).to_be_visible()
