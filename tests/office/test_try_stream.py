"""The page Try with scripts: the answer is shown while it is written, charged and refunded as by the API."""

import html
import re
from collections.abc import Iterator
from http.client import IncompleteRead
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.office.test_try import call_of, entries
from tests.rig.browser import OpenContext, signed_in_page
from tests.rig.calls import Answer
from tests.rig.commands import CommandLine
from tests.rig.forks import Forks
from tests.rig.office import People, Visitor
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

CHARGED = [("charge", -1)]
REFUNDED = [("charge", -1), ("refund", 1)]
HOSTILE = '<img src=x onerror=alert(1)> & "you"'


@pytest.fixture(scope="module")
def streaming(
    tmp_path_factory: pytest.TempPathFactory,
    commands: CommandLine,
    forks: Forks | None,
    session_upstream: Upstream,
) -> Iterator[Service]:
    """A site whose chat channel streams as the message says."""
    folder: Path = tmp_path_factory.mktemp("try-stream")
    service = Service(folder, commands, chat_url=session_upstream.url, speech="espeak", forks=forks).start()
    yield service
    assert service.command("audit", "--json").code == 0
    service.kill()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The account of this test."""
    return re.sub(r"[^a-z0-9-]", "-", str(request.node.name))[-60:]


@pytest.fixture
def visitor(streaming: Service, session_upstream: Upstream, name: str) -> Visitor:
    session_upstream.forget()
    return People(streaming).signed_in(name, units=10)


@pytest.fixture
def browser_page(streaming: Service, visitor: Visitor, open_context: OpenContext) -> Page:
    """The page Try in a browser of the visitor."""
    page = signed_in_page(open_context(), visitor)
    page.goto(f"{streaming.root_url}/office/try")
    return page


def ended(visitor: Visitor, streamed: Answer, **fields: str) -> str:
    """The page that the browser asks for after this stream."""
    form = {"text": "Hello", "call": streamed.headers["x-myna-call"], "waited_ms": "1234", **fields}
    after = visitor.post("/try/ended", **form)
    assert after.status == 200
    return html.unescape(after.body.decode())


# ---- the stream


def test_a_stream_is_that_of_the_api_with_the_headers_of_a_page(
    streaming: Service, visitor: Visitor, name: str
) -> None:
    answer = visitor.post("/try/stream", text="one two three")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert b'"content":"two' in answer.body.replace(b" ", b"")
    assert entries(streaming, name) == CHARGED
    (charged,) = streaming.cli("calls", "--call", answer.headers["x-myna-call"])
    assert (charged["state"], charged["request_id"]) == ("kept", answer.headers["x-request-id"])


def test_the_page_after_a_stream_has_its_cost_and_times(visitor: Visitor) -> None:
    answer = visitor.post("/try/stream", text="Hello")
    page = ended(visitor, answer, answer=f"Well: {HOSTILE}", first_ms="56")
    facts = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page[page.index('<dl class="run">') :]))
    assert "Cost 1 unit First words 56 ms Time 1.2 s Balance 9 Call " in facts
    assert answer.headers["x-request-id"] in facts
    assert page.count("Well: ") == 2, "in the conversation and in the form of the next message"
    raw = visitor.post("/try/ended", text=HOSTILE, answer=HOSTILE).body.decode()
    assert "<img src=x" not in raw
    assert 'id="lines-curl"' in raw


def test_an_instruction_to_speak_is_spoken(visitor: Visitor) -> None:
    answer = visitor.post("/try/stream", text="请朗读：你好")
    (address,) = re.findall(r'"content":"(http[^"]+)"', answer.body.decode())
    page = ended(visitor, answer, text="请朗读：你好", answer=address)
    assert re.search(r'<audio controls src="/uploads/[0-9a-f]{32}\.mp3"', page)


def test_what_is_refused_before_the_answer_is_a_page(streaming: Service) -> None:
    poor = People(streaming).signed_in("stream-without-units", units=0)
    answer = poor.post("/try/stream", text="Hello")
    assert (answer.status, answer.headers["content-type"]) == (402, "text/html; charset=utf-8")
    text = html.unescape(answer.body.decode())
    assert "The account has 0 units and this call costs 1" in text
    assert "Nothing was charged." in text
    assert ">\nHello</textarea>" in text


def test_a_call_that_fails_before_its_answer_is_refunded_and_a_page(
    streaming: Service, visitor: Visitor, name: str
) -> None:
    answer = visitor.post("/try/stream", text="fault=status:500 Hello")
    assert answer.status == 500
    assert "The units of this call were refunded." in answer.body.decode()
    assert entries(streaming, name) == REFUNDED
    (refunded,) = streaming.cli("calls", "--call", call_of(answer))
    assert refunded["state"] == "refunded"


def test_what_came_of_a_broken_stream_stays_in_the_conversation(
    streaming: Service, visitor: Visitor, name: str
) -> None:
    with pytest.raises(IncompleteRead) as cut:
        visitor.post("/try/stream", text="fault=error-later one two three")
    assert b'"message":"The answer is incomplete' in cut.value.partial
    assert entries(streaming, name) == REFUNDED
    call_id = streaming.cli("ledger", name)[0]["call"]
    form = {"text": "Hello", "answer": "one", "error": "The answer is incomplete.", "call": call_id}
    page = html.unescape(visitor.post("/try/ended", **form).body.decode())
    assert re.search(r'<li class="assistant">.*?<div class="said">one</div>', page, re.DOTALL)
    assert "The answer is incomplete." in page
    assert "The units of this call were refunded." in page
    assert "Refunded: the channel broke off its answer" in visitor.page(f"/calls/{call_id}")


def test_only_a_page_of_this_site_and_a_session_can_stream(streaming: Service, visitor: Visitor) -> None:
    for path in ("/try/stream", "/try/ended"):
        assert visitor.post(path, {"origin": "https://other.example"}, text="Hello").status == 403
        anonymous = People(streaming).visitor().post(path, text="Hello")
        assert anonymous.headers["location"] == "/office/sign-in"


def test_the_call_of_another_account_is_not_shown(streaming: Service, visitor: Visitor) -> None:
    answer = visitor.post("/try/stream", text="Hello")
    other = People(streaming).signed_in("stream-of-another")
    page = ended(other, answer, answer="mine?")
    assert answer.headers["x-request-id"] not in page
    assert "/office/calls/" not in page
    assert other.post("/try/ended", text="Hello", call="../../x").status == 400


def test_a_stream_is_in_the_access_log_with_its_units(streaming: Service, visitor: Visitor) -> None:
    answer = visitor.post("/try/stream", text="Hello")
    request_id = answer.headers["x-request-id"]

    def line() -> str:
        return next((one for one in streaming.stderr.splitlines() if request_id in one), "")

    wait_until(lambda: bool(line()), 10, "the request is logged")
    assert '"status":200' in line() and '"units":1' in line()


# ---- in a browser


def send(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.get_by_role("button", name="Send").click()


def test_the_answer_is_shown_while_it_is_written(
    streaming: Service, browser_page: Page, session_upstream: Upstream, name: str
) -> None:
    send(browser_page, "fault=pause one two three four")
    said = browser_page.locator(".turns .assistant .said")
    expect(said).to_have_text("fault=pause")
    expect(browser_page.locator("dl.run")).to_have_count(0)
    session_upstream.release()
    expect(browser_page.locator("dl.run")).to_contain_text("First words")
    expect(said).to_contain_text("three four")
    expect(browser_page.locator("dl.run")).to_contain_text("1 unit")
    expect(browser_page.locator("#text")).to_have_value("")

    send(browser_page, "fault=echo and then?")
    expect(browser_page.locator(".turns .assistant")).to_have_count(2)
    expect(browser_page.locator("dl.run")).to_contain_text("Balance8")
    roles = [message["role"] for message in session_upstream.requests[-1].json["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert entries(streaming, name) == CHARGED * 2


def test_hostile_text_of_a_model_is_text(browser_page: Page) -> None:
    send(browser_page, f"fault=echo {HOSTILE}")
    expect(browser_page.locator("dl.run")).to_be_visible()
    assert browser_page.locator("img[src=x]").count() == 0
    expect(browser_page.locator(".turns .assistant .said")).to_contain_text("<img src=x")


def test_the_button_ends_the_request_and_keeps_what_was_written(
    streaming: Service, browser_page: Page, name: str
) -> None:
    send(browser_page, "fault=silent one two three four")
    said = browser_page.locator(".turns .assistant .said")
    expect(said).to_have_text("fault=silent")
    browser_page.get_by_role("button", name="Stop").click()
    expect(browser_page.locator("dl.run")).to_contain_text("(stopped)")
    expect(browser_page.locator("dl.run")).to_contain_text("1 unit")
    expect(said).to_have_text("fault=silent")
    assert entries(streaming, name) == CHARGED


def test_stopped_before_the_answer_began_the_call_is_refunded(
    streaming: Service, browser_page: Page, session_upstream: Upstream, name: str
) -> None:
    send(browser_page, "fault=hang Hello")
    wait_until(lambda: entries(streaming, name) == CHARGED, 30, "the call is charged")
    browser_page.get_by_role("button", name="Stop").click()
    expect(browser_page.get_by_role("alert")).to_contain_text("Stopped before the answer arrived.")
    wait_until(lambda: entries(streaming, name) == REFUNDED, 30, "the call is refunded")
    expect(browser_page.locator("#text")).to_have_value("fault=hang Hello")


def test_a_stream_that_its_channel_breaks_off_is_refunded_and_says_so(
    streaming: Service, browser_page: Page, name: str
) -> None:
    send(browser_page, "fault=cut-stream one two three")
    alert = browser_page.get_by_role("alert")
    expect(alert).to_contain_text("The answer is incomplete")
    expect(alert).to_contain_text("The units of this call were refunded.")
    assert entries(streaming, name) == REFUNDED


def test_a_refusal_is_shown_and_the_message_stays(streaming: Service, browser_page: Page, name: str) -> None:
    streaming.cli("account", "grant", name, "-10")
    send(browser_page, "Hello there")
    expect(browser_page.get_by_role("alert")).to_contain_text("402 The account has 0 units")
    expect(browser_page.locator("#text")).to_have_value("Hello there")
    assert entries(streaming, name)[1:] == []


def test_an_ended_session_leads_to_the_sign_in(
    streaming: Service, visitor: Visitor, browser_page: Page, name: str
) -> None:
    streaming.cli("account", "sign-out", name)
    send(browser_page, "Hello")
    browser_page.wait_for_url("**/office/sign-in")


def test_a_lost_connection_is_said_and_the_message_stays(browser_page: Page, streaming: Service) -> None:
    browser_page.route("**/office/try/*", lambda route: route.abort())
    send(browser_page, "Hello")
    expect(browser_page.locator("#lost")).to_contain_text("The connection was lost.")
    expect(browser_page.locator("#text")).to_have_value("Hello")
    browser_page.unroute("**/office/try/*")
    browser_page.get_by_role("button", name="Send").click()
    expect(browser_page.locator("dl.run")).to_contain_text("1 unit")


def test_without_scripts_the_answer_comes_whole(
    streaming: Service, visitor: Visitor, open_context: OpenContext
) -> None:
    page = signed_in_page(open_context(java_script_enabled=False), visitor)
    page.goto(f"{streaming.root_url}/office/try")
    assert not page.get_by_role("button", name="Stop").is_visible()
    send(page, "Hello without scripts")
    expect(page.locator("dl.run")).to_contain_text("1 unit")
    expect(page.locator(".turns .assistant .said")).to_contain_text("Hello without scripts")
