"""What pages show live in a real browser: an answer while it is written, a machine that joins, a clone."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from demo.tiny_voices import zipvoice
from myna.office.pages.voices import TO_READ
from myna.voices.clones import PREVIEW
from tests.office.conftest import MakeSite
from tests.office.test_nodes import NODE_TOML
from tests.office.test_nodes import PATH as NODES
from tests.office.test_try import entries
from tests.rig.browser import OpenContext, page_with_microphone, record, signed_in_page
from tests.rig.compute_node import NodeMaker
from tests.rig.office import People, Visitor
from tests.rig.samples import voice, write_wav
from tests.rig.service import Service
from tests.rig.upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.browser]

CHARGED = [("charge", -1)]
REFUNDED = [("charge", -1), ("refund", 1)]
HOSTILE = '<img src=x onerror=alert(1)> & "you"'
SPEAK_MS = 120_000


# ---- the page Try


@pytest.fixture(scope="module")
def streaming(make_site: MakeSite, session_upstream: Upstream) -> Service:
    """A site whose chat channel streams as the message says."""
    return make_site(chat_url=session_upstream.url)


@pytest.fixture
def visitor(streaming: Service, session_upstream: Upstream, request: pytest.FixtureRequest) -> Visitor:
    session_upstream.forget()
    return People(streaming).signed_in(name_of(request), units=10)


def name_of(request: pytest.FixtureRequest) -> str:
    """The account of this test."""
    return re.sub(r"[^a-z0-9-]", "-", str(request.node.name))[:60]


@pytest.fixture
def page(streaming: Service, visitor: Visitor, open_context: OpenContext) -> Page:
    """The page Try in a browser of the visitor."""
    made = signed_in_page(open_context(), visitor)
    made.goto(f"{streaming.root_url}/office/try")
    return made


def send(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.get_by_role("button", name="Send").click()


def test_the_answer_is_shown_while_it_is_written_and_as_text(
    streaming: Service, page: Page, session_upstream: Upstream, request: pytest.FixtureRequest
) -> None:
    send(page, "fault=pause one two three four")
    said = page.locator(".turns .assistant .said")
    expect(said).to_have_text("fault=pause")
    expect(page.locator("dl.run")).to_have_count(0)
    session_upstream.release()
    expect(page.locator("dl.run")).to_contain_text("First words")
    expect(said).to_contain_text("three four")
    expect(page.locator("dl.run")).to_contain_text("1 unit")
    expect(page.locator("#text")).to_have_value("")

    send(page, f"fault=echo {HOSTILE}")
    expect(page.locator(".turns .assistant")).to_have_count(2)
    expect(page.locator("dl.run")).to_contain_text("Balance8")
    assert page.locator("img[src=x]").count() == 0
    expect(said.last).to_contain_text("<img src=x")
    roles = [message["role"] for message in session_upstream.requests[-1].json["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert entries(streaming, name_of(request)) == CHARGED * 2


# ---- nodes and clones


def test_a_node_joins_and_the_page_shows_it_live(
    site: Service, people: People, open_context: OpenContext, make_node: NodeMaker
) -> None:
    visitor = people.signed_in("node-watcher", operator=True)
    page = signed_in_page(open_context(), visitor)
    page.goto(f"{site.root_url}/office{NODES}")
    page.get_by_label("Name").fill("garage")
    page.get_by_role("button", name="Make a join token").click()
    line = page.locator("#join").inner_text()
    url, token = line.split()[3:5]
    steps = page.locator("[data-live]")
    expect(steps).to_contain_text("Waiting for the machine to use its token")
    node = make_node(NODE_TOML).join(url, token)
    expect(steps).to_contain_text("The token is used, the machine has joined")
    node.start()
    expect(steps).to_contain_text("online", timeout=60_000)
    expect(steps).to_contain_text(re.compile(r"\d+ voices"))
    expect(steps).to_contain_text(re.compile(r"\d+ characters per second"))
    node.stop()
    expect(steps).to_contain_text("offline", timeout=60_000)
    site.cli("node", "remove", "garage")


@pytest.fixture
def cloning_site(make_site: MakeSite, make_node: NodeMaker, tmp_path: Path) -> Service:
    """A site with a node process that clones, by a tiny model."""
    site = make_site(chat_url="parrot:")
    token = site.cli("node", "enroll", "cloner")["token"]
    folder = zipvoice(tmp_path / "model", characters=PREVIEW["zh"] + TO_READ["zh"])
    node = make_node(f'slots = 1\n[[engine]]\nkind = "sherpa"\nfolder = "{folder}"\n')
    node.join(site.root_url, token).start()
    People(site).signed_in("cara")
    return site


def test_a_recorded_voice_is_cloned_by_a_node_and_heard(
    cloning_site: Service, chromium: Browser, tmp_path: Path
) -> None:
    heard = write_wav(tmp_path / "heard.wav", voice(20, 48_000), 48_000)
    with page_with_microphone(chromium, heard, cloning_site.root_url) as page:
        record(page, "cara", "zh")  # the only language of the tiny model
        page.click("text=Clone the voice")
        live = page.locator("[data-live]")
        expect(live).to_contain_text("ready", timeout=SPEAK_MS)
        audio = live.locator("audio")
        expect(audio).to_be_visible()
        audio.evaluate("audio => { audio.muted = true; return audio.play(); }")
        page.wait_for_function("document.querySelector('[data-live] audio').currentTime > 0")
    (made,) = cloning_site.cli("voice", "list", "--account", "cara")
    assert (made["name"], made["status"]) == ("Recorded", "ready")
