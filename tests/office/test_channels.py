"""Operators see, add, test and change channels; a key that was entered is shown nowhere."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.office.test_edge import forget_password
from tests.rig.calls import call
from tests.rig.office import PASSWORD, People, Visitor, text_of
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import SOON_S, wait_until

KEY = "sk-typed-in-a-browser-0815"
HOSTILE = '<b>"up"</b> & co'
PATH = "/site/channels"


@pytest.fixture
def channel(site: Service, operator: Visitor, upstream: Upstream) -> Iterator[str]:
    """A chat channel with a stored key, which the page added."""
    add(operator, "up", upstream.url, key=KEY)
    yield "up"
    if "up" in rows(site):
        site.cli("channel", "remove", "up")


def add(operator: Visitor, name: str, url: str, **more: str) -> str:
    form = {"kind": "chat", "name": name, "url": url, "model": "m", **more}
    return operator.submit(f"{PATH}/new", **form)


def rows(site: Service) -> dict[str, Any]:
    return {row["name"]: row for row in site.cli("channel", "list")}


def activity(site: Service, count: int = 1) -> list[str]:
    return [row["command"] for row in site.cli("activity", "--limit", str(count))]


def test_an_added_channel_is_tested_with_a_real_request(
    operator: Visitor, site: Service, upstream: Upstream, channel: str
) -> None:
    assert activity(site, 2) == [
        f"myna channel key {channel}",
        f"myna channel add chat {channel} {upstream.url} --model m",
    ]
    upstream.behave("say:<i>Good</i> morning.")
    answer = operator.result(f"{PATH}/test", name=channel)
    assert "Test of up" in text_of(answer)
    assert b"&lt;i&gt;Good&lt;/i&gt; morning." in answer.body
    assert upstream.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert activity(site) == [f"myna channel test {channel}"]
    assert site.cli("account", "show", "operator-of-channels")["balance"] == 1000


def test_a_mistake_in_an_added_channel_is_named(operator: Visitor, site: Service, upstream: Upstream) -> None:
    form = {"kind": "chat", "name": "wrong", "url": f"{upstream.url}/chat/completions"}
    refused = operator.post(f"{PATH}/new", **form)
    assert refused.status == 400
    assert f"Its base URL ends in an endpoint, /chat/completions: use {upstream.url}." in text_of(refused)
    assert "It may not work. Its base URL lacks /v1" in add(
        operator, "wrong", upstream.url.removesuffix("/v1")
    )
    said = operator.submit(f"{PATH}/change", name="wrong", url=upstream.url, model="n")
    assert "Its server does not list the model 'n'; it lists upstream-model, m." in html.unescape(said)
    site.cli("channel", "remove", "wrong")


def test_a_speech_channel_of_this_machine_speaks_its_test(operator: Visitor, site: Service) -> None:
    answer = operator.result(f"{PATH}/test", name="espeak")
    audio = re.search(r'<audio controls src="(/uploads/[0-9a-f]{32}\.mp3)"', answer.body.decode())
    assert audio, text_of(answer)
    sound = call("GET", site.root_url + audio[1])
    assert (sound.status, sound.headers["content-type"]) == (200, "audio/mpeg")
    assert len(sound.body) > 1000


def test_a_stored_key_is_in_no_page_and_no_log(operator: Visitor, site: Service, channel: str) -> None:
    pages = [operator.get(path) for path in (PATH, f"{PATH}/new", f"{PATH}/change?name={channel}")]
    assert all(KEY not in page.body.decode() for page in pages)
    assert KEY not in site.stderr + site.stdout
    assert KEY not in json.dumps(rows(site)) + json.dumps(activity(site, 50))
    assert "A key is stored." in text_of(pages[2])


def test_a_refused_form_keeps_what_was_typed_but_the_key(operator: Visitor) -> None:
    answer = operator.post(f"{PATH}/new", kind="speech", name=HOSTILE, url="ftp://x", model="tts-9", key=KEY)
    page = answer.body.decode()
    assert answer.status == 400
    assert "The URL must be http://" in text_of(answer)
    assert f'value="{html.escape(HOSTILE).replace("&quot;", "&#34;")}"' in page
    assert 'value="tts-9"' in page
    assert KEY not in page
    assert HOSTILE not in page


def test_without_a_recent_password_the_key_is_asked_for_again(
    site: Service, people: People, upstream: Upstream
) -> None:
    late = people.signed_in("late-operator", operator=True)
    forget_password(site, "late-operator")
    form = {"kind": "chat", "name": "late", "url": upstream.url, "key": KEY}
    asked = late.post(f"{PATH}/new", **form)
    assert KEY not in asked.body.decode()
    assert 'name="key"' in asked.body.decode()
    assert "late" not in rows(site)
    late.submit(f"{PATH}/new", **form, current_password=PASSWORD)
    assert rows(site)["late"]["key_stored"]
    late.submit(f"{PATH}/remove", name="late", typed="late")


def test_channels_are_moved_disabled_changed_and_removed(
    operator: Visitor, site: Service, upstream: Upstream
) -> None:
    for name in ("one", "two", HOSTILE):
        add(operator, name, upstream.url)
    operator.submit(f"{PATH}/move", name=HOSTILE, up="true")
    names = [name for name, row in rows(site).items() if row["source"] == "database"]
    assert names == ["one", HOSTILE, "two"]
    operator.submit(f"{PATH}/move", name="one", up="false")
    assert [name for name in rows(site) if name in names] == [HOSTILE, "one", "two"]
    assert "one is disabled." in operator.submit(f"{PATH}/disable", name="one")
    assert not rows(site)["one"]["enabled"]
    operator.submit(f"{PATH}/enable", name="one")
    operator.submit(f"{PATH}/change", name="two", url="http://127.0.0.1:1/v1", model="", concurrent="7")
    assert rows(site)["two"]["concurrent"] == 7
    assert (rows(site)["two"]["url"], rows(site)["two"]["model"]) == ("http://127.0.0.1:1/v1", "")
    assert operator.post(f"{PATH}/remove", name="one", typed="on").status == 400
    for name in ("one", "two", HOSTILE):
        operator.submit(f"{PATH}/remove", name=name, typed=name)
    assert activity(site)[0].startswith("myna channel remove ")
    assert not {"one", "two", HOSTILE} & rows(site).keys()


def test_a_form_changes_only_what_it_has_a_field_for(
    operator: Visitor, site: Service, channel: str, upstream: Upstream
) -> None:
    site.cli("channel", "set", channel, "--weight", "3", "--concurrent", "7", "--priority", "50")
    assert "Priority: 50 · Weight: 3 · Concurrent requests: 7" in text_of(operator.get(PATH))
    operator.submit(f"{PATH}/change", name=channel, url=upstream.url, concurrent="")
    row = rows(site)[channel]
    assert [row[name] for name in ("model", "weight", "priority", "concurrent")] == ["m", 3, 50, 0]


def test_a_key_is_removed_with_a_change_of_the_server(operator: Visitor, site: Service, channel: str) -> None:
    said = operator.submit(f"{PATH}/change", name=channel, url="http://127.0.0.1:1/v1", model="m")
    assert "Its key was for another server and is removed." in said
    assert not rows(site)[channel]["key_stored"]
    operator.submit(f"{PATH}/key", name=channel, key=KEY)
    assert rows(site)[channel]["key_stored"]
    site.cli("route", "add", "needs-the-key", "--units", "1", "--channel", channel)
    asked = operator.page(f"{PATH}/change?name={channel}")
    assert "may refuse all calls. Routes that name this channel: needs-the-key." in asked
    site.cli("route", "remove", "needs-the-key")
    operator.submit(f"{PATH}/key/remove", name=channel)
    assert not rows(site)[channel]["key_stored"]


def test_an_open_circuit_says_until_when_and_why(
    site: Service, operator: Visitor, channel: str, upstream: Upstream
) -> None:
    upstream.behave("status:500")
    for _ in range(5):
        operator.result(f"{PATH}/test", name=channel)

    def shown() -> str:
        return operator.page(PATH)

    wait_until(lambda: "status 500" in shown(), SOON_S, "the page has the last error", every_s=0.1)
    assert re.search("circuit (half-)?open", shown())


def test_the_times_of_a_channels_calls_are_a_histogram_and_figures(site: Service, operator: Visitor) -> None:
    key = site.account().key()
    body = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}
    assert call("POST", f"{site.base_url}/chat/completions", key=key.plain, data=body).status == 200

    folded = "Time of a call, last 24 hours"
    wait_until(lambda: folded in operator.page(PATH), SOON_S, "the call is folded", every_s=0.1)
    page = operator.get(PATH).body.decode()
    span = r"(?:&lt; 1 ms|\d+ ms(?: – \d+ ms)?)"
    assert re.search(rf"<title>{span}: [\d,]+</title>", page)
    assert re.search(rf"<dt>{span}</dt>", page)


def test_a_failed_test_says_why_without_the_key(operator: Visitor, upstream: Upstream, channel: str) -> None:
    upstream.behave("status:401")
    answer = operator.result(f"{PATH}/test", name=channel)
    said = html.unescape(text_of(answer))
    assert "The channel 'up' failed: status 401: no: sk-upstream" in said
    assert "Its server refuses the key." in said
    assert KEY not in answer.body.decode()
