"""Chromium as a person uses it: one process for each module, a fresh profile for each test.

`python -m tests.rig.browser` installs a missing one: with apt, as root, Debian's package and fonts for
Chinese; elsewhere Playwright downloads its own.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.rig.office import PASSWORD, Visitor
from tests.rig.waiting import wait_until

OpenContext = Callable[..., BrowserContext]
RECORDED_S = 4.5
"""How long `record` records."""
NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-noto-cjk")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser. Fails, and is not skipped, where there is none.

    Of a module: while Playwright is started, no other event loop can run in this thread.
    """
    path = executable()
    if path is None:
        pytest.fail("there is no Chromium: `python -m tests.rig.browser` installs it")
    arguments = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def open_context(chromium: Browser) -> Iterator[OpenContext]:
    """Opens contexts: separate profiles, each with its cookies. A script error in any page fails the test."""
    opened: list[BrowserContext] = []
    errors: list[str] = []

    def open_one(**options: Any) -> BrowserContext:
        context = chromium.new_context(**{"locale": "en-US", **options})
        context.on("weberror", lambda failure: errors.append(str(failure.error)))
        context.on(
            "console",
            lambda message: errors.append(message.text) if "Content Security" in message.text else None,
        )
        context.set_default_timeout(30_000)
        opened.append(context)
        return context

    yield open_one
    for context in opened:
        context.close()
    assert not errors


def signed_in_page(context: BrowserContext, visitor: Visitor) -> Page:
    """A page of the context, with the session of the visitor."""
    url = visitor.service.root_url
    context.add_cookies(
        [{"name": name, "value": value, "url": url} for name, value in visitor.cookies.items()]
    )
    return context.new_page()


@contextmanager
def page_with_microphone(chromium: Browser, sound: Path, base_url: str) -> Iterator[Page]:
    """A page of a separate browser process, whose microphone plays the wav file. An error in the page fails
    the test."""
    arguments = [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={sound}",
        "--no-sandbox",
    ]
    browser = chromium.browser_type.launch(executable_path=executable(), args=arguments)
    try:
        page = browser.new_context(base_url=base_url, locale="en-US").new_page()
        failures: list[str] = []
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("console", lambda line: failures.append(line.text) if line.type == "error" else None)
        yield page
    finally:
        browser.close()
    assert failures == []


def record(page: Page, name: str, language: str = "") -> None:
    """Signs in, records a sample, and fills in the form of a clone, which is not sent yet."""
    page.goto("/office/sign-in?next=/office/voices/new")
    page.fill("#name", name)
    page.fill("#password", PASSWORD)
    page.click("button.main")
    page.fill("#name", "Recorded")
    if language:
        page.select_option("#language", language)
    page.click("#record")
    clock = page.locator("#clock")
    wait_until(lambda: float(clock.inner_text().removesuffix(" s")) >= RECORDED_S, 60, "it is recorded")
    level = page.locator("#level")
    wait_until(lambda: level.evaluate("meter => meter.value > meter.min"), 60, "the meter shows the sound")
    page.click("#stop")
    expect(page.get_by_text("This recording sounds usable.")).to_be_visible()
    assert float(page.inner_text("#length").removesuffix(" s")) >= RECORDED_S
    page.click("#use-text")
    page.check("input[name=consent]")


def executable() -> Path | None:
    """The browser of the system, else Playwright's own, else None."""
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
    return own if own.exists() else None


def install() -> None:
    """Installs the browser unless there is one. Raises CalledProcessError."""
    if executable():
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES], check=True)
    else:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)


if __name__ == "__main__":
    install()
