"""Screenshots of the back office: `make screenshots` writes them into docs/office.

It starts a service on a month of use, in a new folder, and takes each page in Chromium.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from demo import month
from myna import settings
from myna.wire.farm import PREFIX, PROTOCOL, PROTOCOL_HEADER
from tests.rig.browser import executable
from tests.rig.calls import call
from tests.rig.waiting import free_port, wait_until

OUT = Path(__file__).parents[1] / "docs" / "office"
PAGES = {
    "home": "", "keys": "/keys", "new-key": "/keys/new", "try": "/try",
    "key": "/keys/1", "voices": "/voices", "clone": "/voices/new", "records": "/records", "usage": "/usage",
    "ledger": "/ledger", "me": "/me",
    "accounts": "/site/accounts", "codes": "/site/codes", "channels": "/site/channels",
    "routes": "/site/routes",
    "nodes": "/site/nodes",
    "public-voices": "/site/voices", "models": "/site/models", "calls": "/site/calls?q=ann",
    "settings": "/site/settings", "health": "/site/health", "activity": "/site/activity",
}  # fmt: skip
HEADERS = {PROTOCOL_HEADER: str(PROTOCOL)}
NARROW = {"usage-narrow": "/usage", "keys-narrow": "/keys", "key-narrow": "/keys/1"}
QUESTION = "What is a myna, in one sentence?"
PASSWORD = "a picture of seven quiet birds"  # noqa: S105  of a service that ends


_RENAME_FOLDER = (
    "([old, name]) => { document.body.innerHTML = document.body.innerHTML.replaceAll(old, name) }"
)
"""Shows the folder of an installation in place of the temporary one."""


class Site:
    """A service in a new folder."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("MYNA_")} | {
            "MYNA_DATA": str(folder / "data"),
            "MYNA_PORT": str(self.port),
            "MYNA_CHAT_URL": "parrot:",
            "MYNA_SPEECH": "espeak",
            "MYNA_DISK_RESERVE_BYTES": "0",
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serves until the end of the block."""
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "myna", "serve"], env=self.env, stdout=log, stderr=log, cwd=self.folder
            )
            try:
                wait_until(self._ready, 60, "the service is ready")
                yield
            finally:
                process.terminate()
                process.wait(30)

    def cli(self, *arguments: str) -> Any:
        """Runs a command; its output."""
        command = [sys.executable, "-m", "myna", *arguments, "--json"]
        return json.loads(
            subprocess.run(command, env=self.env, cwd=self.folder, check=True, capture_output=True).stdout
        )

    def post(self, path: str, key: str, data: object) -> None:
        """Sends a request of the API."""
        request = urllib.request.Request(
            f"{self.url}/v1{path}", json.dumps(data).encode(), {"Authorization": f"Bearer {key}"}
        )
        with urllib.request.urlopen(request):
            pass

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz"):
                return True
        except OSError:
            return False


def fill(site: Site, key: str) -> str:
    """What a month of use lacks: records, and a node. Returns the invitation of the operator."""
    for voice, text in month.TEXTS:
        site.post("/tts", key, {"text": text, "voice_id": voice})
    _join_node(site)
    site.cli("audit")
    return str(site.cli("account", "invite", month.OPERATOR)["link"])


def _join_node(site: Site) -> None:
    """A compute node that clones voices: without one, no page offers it."""
    token = site.cli("node", "enroll", "gpu-1")["token"]
    welcome = call(
        "POST", f"{site.url}{PREFIX}/join", data={"token": token, "version": "0.1"}, headers=HEADERS
    )
    hello = {"voices": [], "clones": ["en", "zh"], "slots": 2}
    call("POST", f"{site.url}{PREFIX}/hello", key=welcome.json["credential"], data=hello, headers=HEADERS)


def take(site: Site, browser: Browser, link: str) -> None:
    """Signs in by the invitation and takes all pages."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    page = context.new_page()
    page.goto(link)
    page.get_by_label("Password").fill(PASSWORD)
    page.screenshot(path=OUT / "welcome.png")
    page.get_by_role("button").click()
    page.wait_for_load_state()
    for name, path in PAGES.items():
        page.goto(f"{site.url}/office{path}")
        if name == "try":
            page.get_by_label("Message").fill(QUESTION)
            page.get_by_role("button", name="Send").click()
            page.get_by_text("🦜").first.wait_for()
        page.evaluate(_RENAME_FOLDER, [site.env["MYNA_DATA"], "/var/lib/myna"])
        page.screenshot(path=OUT / f"{name}.png")
    state = context.storage_state()
    narrow = browser.new_context(
        viewport={"width": 360, "height": 720}, color_scheme="dark", locale="zh-CN", storage_state=state
    ).new_page()
    for name, path in NARROW.items():
        narrow.goto(f"{site.url}/office{path}")
        narrow.screenshot(path=OUT / f"{name}.png")


def main() -> None:
    """Takes the pictures. Raises if a page or the browser is missing."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        key = asyncio.run(month.fill(settings.load(site.env)[0]))
        with site.running(), sync_playwright() as playwright:
            link = fill(site, key)
            time.sleep(2)  # until the reports have folded the last calls
            arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=executable(), args=arguments)
            take(site, browser, link)
            browser.close()


if __name__ == "__main__":
    main()
