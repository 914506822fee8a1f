"""Neural models: a fetch is a program of its own whose progress every page shows."""

import html
import re
from pathlib import Path

import msgspec
import pytest
from filelock import FileLock

from myna.engines.models.progress import Progress, ProgressFile, read
from tests.office.conftest import MakeSite
from tests.rig.office import People, Visitor, text_of
from tests.rig.service import Service
from tests.rig.waiting import SOON_S, wait_until

PATH = "/site/models"
NOWHERE = "http://127.0.0.1:1"
SECRET = "sk-of-a-channel-5309"


@pytest.fixture(scope="module")
def offline(make_site: MakeSite) -> Service:
    """A site whose programs reach no network."""
    env = {
        "HTTPS_PROXY": NOWHERE,
        "PIP_INDEX_URL": NOWHERE,
        "PIP_RETRIES": "0",
        "NPM_CONFIG_REGISTRY": NOWHERE,
        "MYNA_KEY_VENDOR": SECRET,
    }
    return make_site(env=env)


@pytest.fixture(scope="module")
def operator(offline: Service) -> Visitor:
    return People(offline).signed_in("model-operator", operator=True)


@pytest.fixture
def folder(offline: Service) -> Path:
    """The folder of models, without a trace of an earlier command."""
    made = offline.folder / "data" / "models"
    made.mkdir(exist_ok=True)
    (made / ".kokoro.progress").unlink(missing_ok=True)
    return made


def test_a_fetch_that_fails_says_why(operator: Visitor, offline: Service, folder: Path) -> None:
    assert "not installed" in operator.page(PATH)
    operator.submit(f"{PATH}/get", name="kokoro")
    wait_until(
        lambda: "kokoro can't be fetched." in html.unescape(operator.page(PATH)),
        SOON_S,
        "the page says why",
        every_s=0.2,
    )
    assert offline.cli("activity", "--limit", "1")[0]["command"] == "myna models get kokoro"
    assert SECRET not in offline.stderr + operator.page(PATH)


def test_a_running_command_is_followed_and_not_started_twice(operator: Visitor, folder: Path) -> None:
    with FileLock(folder / ".kokoro.lock"):
        command = ProgressFile(folder / ".kokoro.progress")
        command.begin("voices-v1.0.bin", 1000)
        command.advance(250)
        command.say("Fetching <b>kokoro</b>")
        page = operator.get(PATH).body.decode()
        assert re.search(r'<progress max="1000" value="250"', page)
        assert "Fetching &lt;b&gt;kokoro" in page
        for action in ("get", "remove"):
            refused = operator.post(f"{PATH}/{action}", name="kokoro", typed="kokoro")
            assert "A command works on kokoro already." in text_of(refused)


def test_an_interrupted_command_is_said(operator: Visitor, folder: Path) -> None:
    ProgressFile(folder / ".kokoro.progress").begin("voices-v1.0.bin", 1000)
    assert "The command was interrupted." in operator.page(PATH)


def test_unknown_and_absent_models_are_refused(operator: Visitor, folder: Path) -> None:
    assert "There is no model" in text_of(operator.post(f"{PATH}/get", name="../x"))
    assert operator.post(f"{PATH}/remove", name="kokoro", typed="koko").status == 400
    assert "kokoro is not in" in text_of(operator.post(f"{PATH}/remove", name="kokoro", typed="kokoro"))


def test_progress_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    assert read(path) == Progress()
    report = ProgressFile(path)
    report.begin("a step", 10)
    report.advance(4)
    report.say("a line")
    report.end("no space")
    assert read(path) == Progress("a line", "a step", 4, 10, True, "no space")
    path.write_bytes(msgspec.json.encode(read(path))[:-5])
    assert read(path) == Progress()
