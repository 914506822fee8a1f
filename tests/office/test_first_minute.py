"""The first minute in a browser: from the one-time link to the tick, and a refused request explained."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Page, expect

from demo.first_link import first_link
from myna.settings import load
from tests.rig.browser import OpenContext
from tests.rig.commands import CommandLine
from tests.rig.forks import Forks
from tests.rig.office import PASSWORD, People
from tests.rig.service import Service

WAIT_MS = 60_000


@pytest.fixture
def fresh(
    tmp_path_factory: pytest.TempPathFactory, commands: CommandLine, forks: Forks | None
) -> Iterator[Service]:
    """A site before its first operator."""
    made = Service(tmp_path_factory.mktemp("first"), commands, speech="none", forks=forks)
    made.start()
    yield made
    made.kill()


def link_to(service: Service) -> str:
    """The link that the demo prints. In another thread, since the browser's driver has an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(first_link, load(service.env)[0]).result()


def run_python(source: str) -> subprocess.CompletedProcess[str]:
    """Runs the lines of the page as a person does who has openai installed."""
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=False
    )


def lines_for_python(page: Page) -> str:
    page.get_by_text("openai-python").click()
    return page.locator("#lines-openai-python").inner_text()


def test_the_first_minute(fresh: Service, open_context: OpenContext) -> None:
    page = open_context().new_page()
    page.goto(link_to(fresh))
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name="Where do chats go?")).to_be_visible()

    page.get_by_role("button", name="Use the parrot").click()
    expect(page.get_by_text("Chats go to parrot now.")).to_be_visible()
    page.get_by_label("Units for your account").fill("10")
    page.get_by_role("button", name="Make the key").click()
    expect(page.get_by_text("Waiting for the first request")).to_be_visible()

    ended = run_python(lines_for_python(page))
    assert ended.returncode == 0, ended.stderr
    assert "Hello" in ended.stdout
    expect(page.get_by_text("✓ first request")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("1 unit, ")).to_be_visible()
    assert link_to(fresh) == ""  # there is a first operator

    page.get_by_role("link", name="Home").click()
    expect(page.get_by_text("the sum of 2 entries")).to_be_visible()


def test_a_refused_request_is_explained_while_one_looks(
    site: Service, people: People, open_context: OpenContext
) -> None:
    people.signed_in("without-units", units=0)
    page = open_context().new_page()
    page.goto(f"{site.root_url}/office/keys/new")
    page.get_by_label("Name or e-mail").fill("without-units")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
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


def test_a_key_is_made_and_used_without_scripts(
    site: Service, people: People, open_context: OpenContext
) -> None:
    people.signed_in("no-scripts")
    page = open_context(java_script_enabled=False).new_page()
    page.goto(f"{site.root_url}/office/keys/new")
    page.get_by_label("Name or e-mail").fill("no-scripts")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make the key").click()
    assert run_python(lines_for_python(page)).returncode == 0
    page.get_by_role("link", name="To the page of this key").click()
    expect(page.get_by_text("Waiting")).to_have_count(0)
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)
