"""A voice cloned in a browser from a recording, by a node process: followed live until it can be heard."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from demo.tiny_voices import zipvoice
from myna.clones import PREVIEW
from myna.office.pages.new_voice import TO_READ
from tests.rig.chromium import executable
from tests.rig.compute_node import NodeMaker
from tests.rig.office import PASSWORD, People
from tests.rig.samples import voice, write_wav
from tests.rig.service import Service, ServiceMaker
from tests.rig.waiting import wait_until

pytestmark = pytest.mark.slow

RECORDED_S = 4.5
SPEAK_MS = 120_000


@pytest.fixture
def cloning_site(make_service: ServiceMaker, make_node: NodeMaker, tmp_path: Path) -> Service:
    """A site with a node process that clones, by a tiny model."""
    site = make_service(speech="none", chat_url="parrot:").start()
    token = site.cli("node", "enroll", "cloner")["token"]
    folder = zipvoice(tmp_path / "model", characters=PREVIEW["zh"] + TO_READ["zh"])
    node = make_node(f'slots = 1\n[[engine]]\nkind = "sherpa"\nfolder = "{folder}"\n')
    node.join(site.root_url, token).start()
    People(site).signed_in("cara")
    return site


def record(page: Page) -> None:
    """Signs in and records for some seconds what the microphone hears."""
    page.goto("/office/sign-in?next=/office/voices/new")
    page.fill("#name", "cara")
    page.fill("#password", PASSWORD)
    page.click("button.main")
    page.fill("#name", "Recorded")
    page.select_option("#language", "zh")  # the tiny model knows it alone
    page.click("#record")
    heard = page.locator("#clock")
    wait_until(lambda: float(heard.inner_text().removesuffix(" s")) >= RECORDED_S, 60, "it is recorded")
    page.click("#stop")
    expect(page.get_by_text("This recording sounds usable.")).to_be_visible()
    page.click("#use-text")
    page.check("input[name=consent]")


def test_a_recorded_voice_is_cloned_by_a_node_and_heard(
    cloning_site: Service, chromium: Browser, tmp_path: Path
) -> None:
    heard = write_wav(tmp_path / "heard.wav", voice(20, 48_000), 48_000)
    arguments = [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={heard}",
        "--no-sandbox",
    ]
    browser = chromium.browser_type.launch(executable_path=executable(), args=arguments)
    page = browser.new_context(base_url=cloning_site.root_url, locale="en-US").new_page()
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda line: failures.append(line.text) if line.type == "error" else None)
    record(page)
    page.click("text=Clone the voice")
    live = page.locator("[data-live]")
    expect(live).to_contain_text("ready", timeout=SPEAK_MS)
    audio = live.locator("audio")
    expect(audio).to_be_visible()
    audio.evaluate("audio => { audio.muted = true; return audio.play(); }")
    page.wait_for_function("document.querySelector('[data-live] audio').currentTime > 0")
    browser.close()
    assert failures == []
    (made,) = cloning_site.cli("voice", "list", "--account", "cara")
    assert (made["name"], made["status"]) == ("Recorded", "ready")
