"""A voice cloned in a browser from a recording, by a node process: followed live until it can be heard."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from demo.tiny_voices import zipvoice
from myna.clones import PREVIEW
from myna.office.pages.new_voice import TO_READ
from tests.rig.browser import page_with_microphone, record
from tests.rig.compute_node import NodeMaker
from tests.rig.office import People
from tests.rig.samples import voice, write_wav
from tests.rig.service import Service, ServiceMaker

pytestmark = pytest.mark.slow

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
