"""Every form that changes something does so once, and shows its result once.

The forms are those of the pages' declarations: a new one needs an entry in FORMS, or a reason why it may be
sent again.
"""

import re
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from myna import office
from myna.office.pages import ALL_PAGES
from myna.settings import SQLITE_FILE
from tests.office.conftest import MakeSite
from tests.office.every_form import FORMS, REPEATABLE, Scene, Sent
from tests.rig.calls import Answer
from tests.rig.office import People, Visitor, text_of
from tests.rig.oidc_provider import OidcProvider
from tests.rig.service import RunningService

FORMS_OF_ONE = 15
"""How many of them one operator sends, since an account may send only so many in a minute."""
TEMPLATES = Path(office.__file__).parent / "templates"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def scene(
    request: pytest.FixtureRequest, running_service: RunningService, shared_provider: OidcProvider
) -> Iterator[Scene]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres").fresh_books()
    env = shared_provider.env()
    with running_service(chat_url=None, database_url=url, speech="espeak", env=env) as service:
        yield Scene(service, People(service).signed_in("operator", operator=True))


def test_every_form_is_sent_below_or_says_why_it_may_be_repeated() -> None:
    forms = [page for page in ALL_PAGES if page.submit]
    assert {page.path for page in forms if page.repeatable} == REPEATABLE
    assert {page.path for page in forms if not page.repeatable} == FORMS.keys()


def test_every_form_of_a_template_has_its_value() -> None:
    repeatable = [f'action="/office{path}' for path in REPEATABLE]
    for template in sorted(TEMPLATES.rglob("*.html")):
        for line in template.read_text().splitlines():
            if 'method="post"' in line and not any(action in line for action in repeatable):
                # The page that asks for the password repeats the fields of a form, its value among them.
                assert "{{ once_field() }}" in line or template.name == "confirm.html", (template, line)


def test_a_result_is_for_the_account_that_sent_the_form_and_sealed(make_site: MakeSite) -> None:
    site = make_site()
    owner, other = (People(site).signed_in(name, operator=True) for name in ("owner", "other"))
    sent = owner.post("/site/codes", units="5", count="1", uses="1")
    with closing(sqlite3.connect(site.folder / "data" / SQLITE_FILE)) as db:
        newest = "SELECT answer FROM form_submissions ORDER BY created_at DESC LIMIT 1"
        ((answer,),) = db.execute(newest)
    other.cookies["myna-result"] = owner.cookies["myna-result"]
    assert "Batch 1" not in other.page("/site/codes")
    shown = owner.get(sent.headers["location"].removeprefix("/office")).body
    (code,) = re.findall(rb'<pre id="codes"[^>]*>([^<]+)<', shown)
    assert code not in answer and b"Batch" not in answer


@pytest.mark.parametrize("path", FORMS)
def test_a_form_that_is_sent_twice_changes_once_and_shows_its_result_once(scene: Scene, path: str) -> None:
    if next(scene.forms) % FORMS_OF_ONE == 0:
        scene.operator = scene.person(operator=True)[0]
    sent = FORMS[path](scene)
    before = changes(scene)
    without = sent.send(sent.visitor, "")
    assert (without.status, "open its page again" in text_of(without)) == (400, True)
    assert changes(scene) == before

    browsers = [Visitor(scene.service, dict(sent.visitor.cookies)) for _ in range(2)]
    once, start = f"{next(scene.numbers):064x}", threading.Barrier(2)

    def send(browser: Visitor) -> Answer:
        start.wait()
        return sent.send(browser, once)

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(send, browsers))
    answers.append(sent.send(browsers[0], once))
    assert [answer.status for answer in answers] == [sent.status] * 3, text_of(answers[-1])
    assert changes(scene) - before == sent.changes
    if sent.status == 303:
        assert len({answer.headers["location"] for answer in answers}) == 1
    if any(cookie.startswith("myna-result=") for cookie in answers[0].cookies):
        assert_shown_once(browsers[1], answers[1].headers["location"])
    if sent.fields and sent.status == 303:
        other = Sent(sent.visitor, sent.path, {**sent.fields, "more": "x"}, file=sent.file)
        assert "with other values" in text_of(other.send(browsers[0], once))
    assert changes(scene) - before == sent.changes


def assert_shown_once(browser: Visitor, location: str) -> None:
    address = location.removeprefix("/office")
    cookies = dict(browser.cookies)
    first = browser.get(address)
    assert first.status == 200
    assert "myna-result" not in browser.cookies
    assert text_of(browser.get(address)) != text_of(first)
    copied = Visitor(browser.service, cookies)
    assert text_of(copied.get(address)) != text_of(first), "a copy of the cookie shows it no second time"


def changes(scene: Scene) -> int:
    """How many entries the activity log has."""
    return len(scene.service.cli("activity", "--limit", "1000"))
