"""Chromium as a person uses it: one process for each module, a fresh profile for each test."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.rig.chromium import executable

OpenContext = Callable[..., BrowserContext]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser. Fails, and is not skipped, where there is none.

    Of a module: while Playwright is started, no other event loop can run in this thread.
    """
    path = executable()
    if path is None:
        pytest.fail("there is no Chromium: `python -m tests.rig.chromium` installs it")
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
