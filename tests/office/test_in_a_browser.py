"""People's ways through the pages in a real browser: keys, forms, what pages show live, and accessibility."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from demo.tiny_voices import zipvoice
from myna.engines.voices import SAMPLES
from myna.office.pages.voices import TO_READ
from tests.office.conftest import PATHS, MakeSite
from tests.office.test_records import speak
from tests.office.test_try import entries, name_of
from tests.rig.browser import OpenContext, page_with_microphone, record, signed_in_page
from tests.rig.calls import call
from tests.rig.compute_node import NodeMaker
from tests.rig.office import PASSWORD, People, Visitor
from tests.rig.samples import voice, write_wav
from tests.rig.service import Account, Service
from tests.rig.upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.browser]

WAIT_MS = 60_000
VIEWS: dict[str, dict[str, Any]] = {
    "en-1280-light": {"locale": "en-US", "color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "zh-1280-dark": {"locale": "zh-CN", "color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "zh-360-light": {"locale": "zh-CN", "color_scheme": "light", "viewport": {"width": 360, "height": 700}},
    "en-360-dark": {"locale": "en-US", "color_scheme": "dark", "viewport": {"width": 360, "height": 700}},
}
HOSTILE = "<img src=x onerror=alert(1)>\"'&"
SERIOUS = ("serious", "critical")


def sign_in(page: Page, site: Service, name: str, password: str = PASSWORD) -> None:
    """Signs in, on the page of the sign-in or on another one."""
    if "/sign-in" not in page.url:
        page.goto(f"{site.root_url}/office/sign-in")
    page.get_by_label("Name or e-mail").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


# ---- keys


def run_python(source: str) -> subprocess.CompletedProcess[str]:
    """Runs the lines of the page as a person does who has openai installed."""
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=False
    )


def lines_for_python(page: Page) -> str:
    page.get_by_text("openai-python").click()
    return page.locator("#lines-openai-python").inner_text()


def test_a_refused_request_is_explained_while_one_looks(
    site: Service, people: People, open_context: OpenContext
) -> None:
    people.signed_in("without-units", units=0)
    page = open_context().new_page()
    page.goto(f"{site.root_url}/office/keys/new")
    sign_in(page, site, "without-units")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make the key").click()
    ended = run_python(lines_for_python(page))
    assert "402" in ended.stderr
    expect(page.get_by_text("has 0 units and this call costs 1")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("Waiting for a request that succeeds.")).to_be_visible()

    site.cli("account", "grant", "without-units", "5")
    assert run_python(page.locator("#lines-openai-python").inner_text()).returncode == 0
    expect(page.get_by_text("✓ first request")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("Waiting")).to_have_count(0)


def test_a_key_is_made_and_used_and_an_answer_comes_without_scripts(
    site: Service, people: People, open_context: OpenContext
) -> None:
    visitor = people.signed_in("no-scripts")
    page = open_context(java_script_enabled=False).new_page()
    page.goto(f"{site.root_url}/office/keys/new")
    sign_in(page, site, "no-scripts")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make the key").dblclick()
    expect(page.locator("#plain-key")).to_be_visible()
    assert len(set(re.findall(r'href="/office/keys/(\d+)"', visitor.get("/keys").body.decode()))) == 1
    assert run_python(lines_for_python(page)).returncode == 0
    page.get_by_role("link", name="To the page of this key").click()
    expect(page.get_by_text("Waiting")).to_have_count(0)
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)

    page.goto(f"{site.root_url}/office/try")
    assert not page.get_by_role("button", name="Stop").is_visible()
    page.fill("#text", "Hello without scripts")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("dl.run")).to_contain_text("1 unit")
    expect(page.locator(".turns .assistant .said")).to_contain_text("Hello without scripts")


# ---- sign-ins


def test_a_double_click_sends_once_and_the_button_is_busy(open_context: OpenContext, site: Service) -> None:
    page = signed_in_page(open_context(), People(site).signed_in("double-clicker", operator=True))
    account = site.account(units=1)
    page.goto(f"{site.root_url}/office/site/accounts?q={account.name}")
    page.get_by_role("link", name=account.name).click()
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    # While the page is left, the driver sees nothing of it: the page notes the state of its button itself.
    page.evaluate(
        """addEventListener("submit", ({submitter}) => {
          setTimeout(() => sessionStorage.setItem("busy", submitter.disabled), 20);
        })"""
    )
    page.route("**/grant", lambda route: (page.wait_for_timeout(300), route.continue_()))
    page.get_by_label("Units", exact=True).fill("5")
    page.get_by_role("button", name="Grant").dblclick()
    expect(page.get_by_text(f"+5 units for {account.name}.")).to_be_visible()
    assert (len(posts), page.evaluate("sessionStorage.getItem('busy')")) == (1, "true")
    page.go_back()
    expect(page.get_by_role("button", name="Grant")).to_be_enabled()
    assert site.cli("account", "show", account.name)["balance"] == 6


# ---- all pages


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
    site.cli("node", "enroll", "gpu-1")
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
    scrolling = (
        "[...document.querySelectorAll('.table')].filter((one) => one.scrollWidth > one.clientWidth + 1)"
    )
    if page.evaluate(f"innerWidth < 600 && {scrolling}.length"):
        faults.append(f"{url}: a table is wider than a phone")
    if page.evaluate(
        "[...document.querySelectorAll('.cards td')].some((one) => one.scrollHeight > one.clientHeight + 1)"
    ):
        faults.append(f"{url}: a label of a card lies on the next one")
    if page.locator("img[src=x]").count():
        faults.append(f"{url}: a hostile text became an element")
    return faults


def test_no_page_has_a_serious_fault(view: Page, operator: Visitor) -> None:
    root = operator.service.root_url + "/office"
    paths = [*PATHS, "/site/routes/change?name=any-*"]
    html = operator.get("/records").body.decode() + operator.get("/keys").body.decode()
    paths += sorted(set(re.findall(r'href="/office(/calls/[0-9a-f]{32}|/keys/\d+)"', html)))[:4]
    accounts = operator.get("/site/accounts").body.decode()
    paths += re.findall(r'href="/office(/site/accounts/\d+)"', accounts)[:1]
    faults = [fault for path in paths for fault in check(view, root + path)]
    assert not faults, "\n".join(faults)


def test_the_pages_before_the_sign_in_have_none_either(open_context: OpenContext, site: Service) -> None:
    link = site.cli("account", "add", "unwelcomed", "--email", "unwelcomed@example.org")["link"]
    for options in VIEWS.values():
        page = open_context(**options).new_page()
        faults = check(page, f"{site.root_url}/office/sign-in") + check(page, link)
        assert not faults, "\n".join(faults)


def test_every_part_of_a_form_can_be_reached_by_keyboard(open_context: OpenContext, site: Service) -> None:
    People(site).signed_in("keyboard")
    page = open_context().new_page()
    sign_in(page, site, "keyboard")
    page.wait_for_url(re.compile(r"/office/?$"))
    page.goto(f"{site.root_url}/office/records")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.goto(f"{site.root_url}/office/keys/new")
    page.locator("#name").focus()
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    page.wait_for_selector("pre")
    assert "by keyboard" in page.content()


CHARGED = [("charge", -1)]
HOSTILE_ANSWER = '<img src=x onerror=alert(1)> & "you"'
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


@pytest.fixture
def try_page(streaming: Service, visitor: Visitor, open_context: OpenContext) -> Page:
    """The page Try in a browser of the visitor."""
    made = signed_in_page(open_context(), visitor)
    made.goto(f"{streaming.root_url}/office/try")
    return made


def send(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.get_by_role("button", name="Send").click()


def test_the_answer_is_shown_while_it_is_written_and_as_text(
    streaming: Service, try_page: Page, session_upstream: Upstream, request: pytest.FixtureRequest
) -> None:
    send(try_page, "fault=pause one two three four")
    said = try_page.locator(".turns .assistant .said")
    expect(said).to_have_text("fault=pause")
    expect(try_page.locator("dl.run")).to_have_count(0)
    session_upstream.release()
    expect(try_page.locator("dl.run")).to_contain_text("First words")
    expect(said).to_contain_text("three four")
    expect(try_page.locator("dl.run")).to_contain_text("1 unit")
    expect(try_page.locator("#text")).to_have_value("")

    send(try_page, f"fault=echo {HOSTILE_ANSWER}")
    expect(try_page.locator(".turns .assistant")).to_have_count(2)
    expect(try_page.locator("dl.run")).to_contain_text("Balance8")
    assert try_page.locator("img[src=x]").count() == 0
    expect(said.last).to_contain_text("<img src=x")
    roles = [message["role"] for message in session_upstream.requests[-1].json["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert entries(streaming, name_of(request)) == CHARGED * 2


# ---- clones


@pytest.fixture
def cloning_site(make_site: MakeSite, make_node: NodeMaker, tmp_path: Path) -> Service:
    """A site with a node process that clones, by a tiny model."""
    site = make_site(chat_url="parrot:")
    token = site.cli("node", "enroll", "cloner")["token"]
    folder = zipvoice(tmp_path / "model", characters=SAMPLES["zh"] + TO_READ["zh"])
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
