"""Operators see, add, change, test and remove routes, as `myna route` does."""

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.office.conftest import MakeSite
from tests.office.test_channels import activity
from tests.office.test_try import call_of, entries
from tests.rig.calls import call
from tests.rig.office import People, Visitor, text_of
from tests.rig.service import Account, Service
from tests.rig.upstream import Upstream

PATH = "/site/routes"
HOSTILE = '<b>"r"</b>&*'


@pytest.fixture(scope="module")
def site(make_site: MakeSite) -> Service:
    """A site without routes: those of the other tests' site are limits of its keys."""
    return make_site(chat_url="parrot:", speech="espeak")


@pytest.fixture
def channel(site: Service, upstream: Upstream) -> Iterator[str]:
    """A chat channel with a model of its own. Routes that a test leaves are removed with it."""
    site.cli("channel", "add", "chat", "routed", upstream.url, "--model", "own-model")
    yield "routed"
    for name, route in routes(site).items():
        if not route["built_in"]:
            site.cli("route", "remove", name)
    site.cli("channel", "remove", "routed")


def routes(site: Service) -> dict[str, Any]:
    return {row["name"]: row for row in site.cli("route", "list")}


def test_an_added_route_serves_calls_at_its_price(
    operator: Visitor, site: Service, upstream: Upstream, channel: str
) -> None:
    said = operator.submit(
        f"{PATH}/new", name="fast", kind="chat", units="7", channel=[channel], upstream_model="llama"
    )
    assert "fast is added." in said
    assert activity(site) == [f"myna route add fast --units 7 --channel {channel} --upstream-model llama"]
    upstream.behave("say:Hi.")
    key = site.account(units=100).key()
    data = {"model": "fast", "messages": [{"role": "user", "content": "hello"}]}
    answer = call("POST", f"{site.root_url}/openai/v1/chat/completions", key=key.plain, data=data)
    assert (answer.status, answer.headers["x-units-cost"]) == (200, "7")
    assert upstream.requests[-1].json["model"] == "llama"


def test_the_list_says_who_serves_a_route_and_how_many_keys_are_limited_to_it(
    operator: Visitor, site: Service, channel: str
) -> None:
    site.cli("route", "add", "gpt-*", "--units", "5")
    site.cli("route", "add", "one", "--units", "12345", "--channel", channel, "--upstream-model", "up")
    account = Account(site, "operator-of-routes")
    account.key(name="limited")
    key = site.cli("key", "list", "operator-of-routes")[-1]["id"]
    site.cli("key", "routes", str(key), "--route", "one")
    page = operator.page(PATH)
    assert f"one Chat 12,345 {channel} up 1 gpt-* Chat 5 any " in page
    assert "as the caller names it 0" in page
    site.cli("key", "revoke", str(key))
    assert f"one Chat 12,345 {channel} up 0" in operator.page(PATH)
    site.cli("channel", "disable", channel)
    assert "one Chat 12,345 no enabled channel" in operator.page(PATH)


def test_a_change_is_recorded_as_what_differs(operator: Visitor, site: Service, channel: str) -> None:
    site.cli("route", "add", "r", "--units", "5", "--channel", channel)
    before = activity(site)
    form = {"name": "r", "units": "5", "channel": [channel]}
    operator.submit(f"{PATH}/change", **form)
    assert activity(site) == before
    operator.submit(f"{PATH}/change", **{**form, "units": "6"})
    assert activity(site) == ["myna route set r --units 6"]
    operator.submit(f"{PATH}/change", name="r", units="6", intent="true", upstream_model="m")
    assert activity(site) == ["myna route set r --any-channel --upstream-model m --intent yes"]
    expected = {"units": 6, "channels": [], "upstream_model": "m", "intent": True, "kind": "chat"}
    assert expected.items() <= routes(site)["r"].items()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"units": "many"}, "Units: must be a whole number"),
        ({"units": "1", "kind": "image"}, "Kind: choose one"),
        ({"units": "1", "kind": "speech", "channel": "routed"}, "needs channels for speech"),
        ({"units": "1", "kind": "embeddings", "intent": "true"}, "Only chat has instructions"),
    ],
)
def test_a_refused_form_keeps_what_was_typed(
    operator: Visitor, site: Service, channel: str, wrong: dict[str, str], why: str
) -> None:
    answer = operator.post(f"{PATH}/new", name="wrong", upstream_model=HOSTILE, **wrong)
    assert (answer.status, why in html.unescape(text_of(answer))) == (400, True)
    assert html.escape(HOSTILE).replace("&quot;", "&#34;") in answer.body.decode()
    assert "wrong" not in routes(site)


def test_a_removed_route_needs_its_name_typed(operator: Visitor, site: Service, channel: str) -> None:
    site.cli("route", "add", "r*", "--units", "5")
    assert operator.post(f"{PATH}/remove", name="r*", typed="r").status == 400
    assert "r* is removed." in operator.submit(f"{PATH}/remove", name="r*", typed="r*")
    assert activity(site) == ["myna route remove 'r*'"]
    assert operator.get(f"{PATH}/change?name=r*").status == 404


def test_a_route_is_tested_with_the_model_that_it_requests(
    operator: Visitor, site: Service, upstream: Upstream, channel: str
) -> None:
    site.cli("route", "add", "r", "--units", "5", "--channel", channel, "--upstream-model", "llama")
    page = operator.get(f"{PATH}/change?name=r").body.decode()
    assert 'name="model" value="llama"' in page
    upstream.behave("say:Good morning.")
    answer = operator.result("/site/channels/test", name=channel, model="llama")
    assert "Good morning." in text_of(answer)
    assert f"myna channel test {channel} --model llama" in text_of(answer)
    assert upstream.requests[-1].json["model"] == "llama"
    assert activity(site) == [f"myna channel test {channel} --model llama"]


@pytest.fixture
def route(site: Service) -> Iterator[str]:
    """A route of the operator's, of 3 units. It speaks no instructions."""
    site.cli("route", "add", "gpt-mini", "--units", "3")
    yield "gpt-mini"
    site.cli("route", "remove", "gpt-mini")


def test_the_routes_of_the_site_are_offered_with_their_units_and_answer(
    site: Service, people: People, route: str
) -> None:
    visitor = people.signed_in("route-trier", units=10)
    page = visitor.get("/try").body.decode()
    offered = re.findall(r'<option value="([\w-]+)"[^>]*>([^<]*)</option>', page)
    assert ("svc-chat", "svc-chat · 1 unit") in offered and (route, "gpt-mini · 3 units") in offered
    assert "A request costs the units of its model" in page
    assert "gpt-mini 3 units" in visitor.page("/keys/new")

    answer = visitor.post("/try", text="朗读：你好", model=route, once="0" * 32)
    page = html.unescape(answer.body.decode())
    assert answer.status == 200 and "<dt>Cost</dt><dd>3 units</dd>" in page
    assert page.count("朗读：你好") >= 3, "the parrot says it, since the route speaks no instructions"
    assert "/openai/v1/chat/completions" in page and "<audio" not in page
    streamed = visitor.post("/try/stream", text="Hello", model=route)
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    assert entries(site, "route-trier") == [("charge", -3), ("charge", -3)]
    assert "Model gpt-mini" in visitor.page(f"/calls/{call_of(answer)}")
    for path in ("", "/ledger"):
        assert re.search(r"charge (Try gpt-mini|gpt-mini Try) -3 ", visitor.page(path)), path
    assert visitor.get("/ledger.csv").body.decode().splitlines()[1].endswith(",gpt-mini")
    assert visitor.post("/try", text="Hello", model="nobody").status == 404
