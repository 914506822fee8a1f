"""The start page: does the account need units, and what is the next step?"""

import html
import re

import pytest

from tests.office.test_keys import CHAT, make, send
from tests.rig.calls import call
from tests.rig.office import People
from tests.rig.service import Service


@pytest.fixture(scope="module")
def module_people(site: Service) -> People:
    return People(site)


def balance_of(site: Service, key: str) -> int:
    """The balance as the API says it."""
    answer = call("GET", f"{site.base_url}/me", headers={"authorization": f"Bearer {key}"})
    return int(answer.headers["x-units-balance"])


def test_the_balance_is_the_one_of_the_api_and_the_sum_of_its_entries(
    site: Service, module_people: People
) -> None:
    visitor = module_people.signed_in("spender", units=1234)
    _, plain = make(visitor)
    for _ in range(3):
        assert send(site, "/chat/completions", CHAT, plain).status == 200
    text = visitor.page("")
    balance = balance_of(site, plain)
    assert f"Balance in units {balance:,} the sum of 4 entries" in text
    used = 1234 - balance
    assert f"Units used in 30 days {used:,}" in text
    assert f"{used} units today" in text
    assert f"{balance // used:,} days" in text


def test_a_low_balance_and_one_below_the_limit_are_said(site: Service, module_people: People) -> None:
    visitor = module_people.signed_in("nearly-empty", units=4)
    _, plain = make(visitor)
    assert send(site, "/chat/completions", CHAT, plain).status == 200
    assert "balance is low" not in visitor.page("")
    for _ in range(2):
        assert send(site, "/chat/completions", CHAT, plain).status == 200
    assert "balance is low" in visitor.page("")
    site.cli("account", "set", "nearly-empty", "--low-balance", "1")
    assert "below your limit" not in visitor.page("")
    site.cli("account", "set", "nearly-empty", "--low-balance", "2")
    assert "The balance is below your limit of 2 units." in visitor.page("")


def test_the_last_entries_link_their_calls_and_the_chart_has_a_table(
    site: Service, module_people: People
) -> None:
    visitor = module_people.signed_in("linker")
    _, plain = make(visitor, name="linked")
    assert '<div class="chart"' not in visitor.get("").body.decode()
    assert send(site, "/chat/completions", CHAT, plain).status == 200
    page = html.unescape(visitor.get("").body.decode())
    found = re.search(r'href="/office(/calls/[0-9a-f]+)"', page)
    assert found
    assert "linked" in visitor.page(found[1])
    assert '<div class="chart"' in page
    row = r'<tr><td>\d{4}-\d\d-\d\d</td><td class="number">1</td><td class="number">1</td></tr>'
    assert re.search(row, page)
