"""The start page of an account: does it need units? And an operator's first minutes: the way to the first
operator, a chat server, units and a first key."""

import html
import json
import re

import pytest

from tests.office.conftest import MakeSite
from tests.office.test_keys import CHAT, make, send
from tests.rig.calls import call
from tests.rig.office import People, Visitor, text_of
from tests.rig.service import Service
from tests.rig.upstream import SECRET, Upstream
from tests.rig.waiting import free_port


@pytest.fixture(scope="module")
def module_people(site: Service) -> People:
    return People(site)


def test_the_balance_is_that_of_the_api_and_the_sum_of_entries(site: Service, module_people: People) -> None:
    visitor = module_people.signed_in("spender", units=1234)
    _, plain = make(visitor)
    for _ in range(3):
        assert send(site, "/chat/completions", CHAT, plain).status == 200
    text = visitor.page("")
    me = call("GET", f"{site.base_url}/me", key=plain)
    balance = int(me.headers["x-units-balance"])
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


def test_the_last_entries_link_calls_and_the_chart_has_a_table(site: Service, module_people: People) -> None:
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


RESTART = "Restart the service in a terminal"
ADD = "myna account add NAME --operator"


@pytest.fixture(scope="module")
def fresh(make_site: MakeSite) -> Service:
    """A site without a chat channel and without a voice."""
    return make_site()


def operator(service: Service, name: str, *, units: int = 0) -> Visitor:
    return People(service).signed_in(name, operator=True, units=units)


def balance(service: Service, name: str) -> int:
    return int(next(one["balance"] for one in service.cli("account", "list") if one["name"] == name))


def test_the_way_to_the_first_operator_is_said_until_there_is_one(make_site: MakeSite) -> None:
    people = People(make_site())
    visitor = people.visitor()
    expired = visitor.get("/welcome?token=used")
    assert expired.status == 410
    for text in (text_of(expired), visitor.page("/sign-in")):
        assert RESTART in text
        assert ADD in text
        assert "Ask the operator" not in text
    people.signed_in("first", operator=True)
    used = text_of(visitor.get("/welcome?token=used"))
    for text in (used, visitor.page("/sign-in")):
        assert RESTART not in text
        assert "sk the operator" in text
    assert "It was used already" in used and "myna account" not in used


def test_a_wrong_url_is_refused_with_the_message_of_the_command_line(fresh: Service) -> None:
    answer = operator(fresh, "hasty").post("/start", url="ftp://<b>", model="m")
    assert answer.status == 400
    assert "The URL must be http://" in answer.body.decode()
    assert "ftp://&lt;b&gt;" in answer.body.decode()


def test_a_server_is_tried_before_it_is_added(fresh: Service) -> None:
    visitor = operator(fresh, "careful")
    url = f"http://127.0.0.1:{free_port()}/v1"
    fields = {"url": url, "model": "m", "name": "absent", "key": SECRET}
    answer = visitor.post("/start", **fields)
    assert answer.status == 400
    assert "failed: it can&#39;t be reached: Connection refused." in answer.body.decode()
    assert "Add it without a test" in answer.body.decode()
    assert SECRET not in answer.body.decode()
    assert fresh.cli("channel", "list") == []
    assert "Chats go to absent now." in visitor.submit("/start", **fields, untested="true")
    (channel,) = fresh.cli("channel", "list")
    assert (channel["name"], channel["url"]) == ("absent", url)
    fresh.cli("channel", "remove", "absent")


def test_a_server_without_a_model_is_tried_with_its_first_one(fresh: Service, upstream: Upstream) -> None:
    upstream.behave("say:Hello")
    visitor = operator(fresh, "no-model")
    visitor.submit("/start", url=upstream.url, name="any-model")
    assert upstream.requests[-1].path.endswith("/chat/completions")
    fresh.cli("channel", "remove", "any-model")


def test_units_are_granted_only_to_an_account_without_any(fresh: Service) -> None:
    visitor = operator(fresh, "rich", units=7)
    assert "Units for your account" not in visitor.page("/start/key")
    assert visitor.result("/start/key", name="second", units="50").status == 200
    assert balance(fresh, "rich") == 7


def test_the_first_minute_ends_with_an_answer(fresh: Service, upstream: Upstream) -> None:
    visitor = operator(fresh, "first")
    upstream.behave("say:Good morning")
    visitor.submit("/start", url=upstream.url, model=upstream.model, key=SECRET)
    (channel,) = fresh.cli("channel", "list")
    assert (channel["url"], channel["model"]) == (upstream.url, upstream.model)
    shown = visitor.get("/start").body.decode()
    assert SECRET not in shown and "already" in shown

    made = visitor.result("/start/key", name="laptop", units="50")
    assert made.status == 200
    plain = re.search(r"myna_[0-9a-f]{40}", made.body.decode())
    assert plain
    answer = call(
        "POST",
        f"{fresh.base_url}/chat/completions",
        body=CHAT,
        headers={"authorization": f"Bearer {plain[0]}"},
    )
    assert answer.json["choices"][0]["message"]["content"] == "Good morning"
    assert upstream.requests[-1].headers["authorization"] == f"Bearer {SECRET}"
    commands = [change["command"] for change in fresh.cli("activity", "--by", "first")]
    assert "myna account grant first 50 --memo 'first units'" in commands
    assert SECRET not in json.dumps(commands) and plain[0] not in json.dumps(commands)
    fresh.cli("channel", "remove", channel["name"])
