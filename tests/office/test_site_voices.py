"""Operators order, rename, hide and try the public voices and fetch models; and how words are read."""

import html
import re
from pathlib import Path

import msgspec
import pytest
from filelock import FileLock

from myna.engines.models.progress import Progress, ProgressFile, read
from tests.office.conftest import MakeSite
from tests.rig.calls import call
from tests.rig.office import People, Visitor, text_of
from tests.rig.service import Service
from tests.rig.waiting import SOON_S, wait_until

PATH = "/site/voices"
HOSTILE = "<script>alert(1)</script>"


def listed(site: Service) -> list[dict[str, str]]:
    """As GET /v1/voices lists them."""
    return list(site.cli("voice", "list"))


def ids(site: Service) -> list[str]:
    return [row["voice_id"] for row in listed(site)]


def test_a_voice_is_heard_without_a_charge(operator: Visitor, site: Service) -> None:
    answer = operator.result(f"{PATH}/listen", voice_id=ids(site)[-1])
    audio = re.search(r'src="(/uploads/[0-9a-f]{32}\.mp3)"', answer.body.decode())
    assert audio, text_of(answer)
    assert len(call("GET", site.root_url + audio[1]).body) > 1000
    assert site.cli("account", "show", "operator-of-site_voices")["balance"] == 1000


def test_voices_are_moved_by_one_place_and_to_the_first(operator: Visitor, site: Service) -> None:
    before = ids(site)
    operator.submit(f"{PATH}/move", voice_id=before[2], to="up")
    assert ids(site) == [before[0], before[2], before[1], *before[3:]]
    operator.submit(f"{PATH}/move", voice_id=before[0], to="down")
    assert ids(site)[:3] == [before[2], before[0], before[1]]
    operator.submit(f"{PATH}/move", voice_id=before[-1], to="first")
    assert ids(site) == [before[-1], before[2], before[0], before[1], *before[3:-1]]
    assert site.cli("activity", "--limit", "1")[0]["command"].startswith(f"myna voice order {before[-1]} ")


def test_a_voice_is_renamed_as_text_and_hidden(operator: Visitor, site: Service) -> None:
    voice_id, name = ids(site)[0], listed(site)[0]["name"]
    operator.submit(f"{PATH}/rename", voice_id=voice_id, name=HOSTILE)
    assert listed(site)[0]["name"] == HOSTILE
    assert HOSTILE.encode() not in operator.get(PATH).body
    operator.submit(f"{PATH}/rename", voice_id=voice_id, name="")
    assert listed(site)[0]["name"] == name
    operator.submit(f"{PATH}/hide", voice_id=voice_id)
    assert listed(site)[0]["hidden"]
    operator.submit(f"{PATH}/show", voice_id=voice_id)
    assert not listed(site)[0]["hidden"]


def test_two_voices_of_one_name_can_be_told_apart(operator: Visitor, site: Service) -> None:
    assert "· en-us-female-1" not in operator.get("/try/speech").body.decode()
    site.cli("voice", "rename", "en-us-female-1", "Alice")
    site.cli("voice", "rename", "en-us-female-2", "Alice")
    page = operator.page("/try/speech")
    assert "Alice · en-US · en-us-female-1" in page and "Alice · en-US · en-us-female-2" in page
    for voice_id in ("en-us-female-1", "en-us-female-2"):
        site.cli("voice", "rename", voice_id, "")


def test_refused_changes_say_why(operator: Visitor) -> None:
    for action in ("listen", "move", "rename", "hide"):
        answer = operator.post(f"{PATH}/{action}", voice_id="nobody", name="n")
        assert answer.status == 400
        assert "There is no public voice" in text_of(answer)
    refused = operator.post(f"{PATH}/blend", voice_id="mixed", recipe="a:1+b:1")
    assert (refused.status, "No speech channel can blend voices" in text_of(refused)) == (400, True)
    assert "There is no blend" in text_of(operator.post(f"{PATH}/blend/delete", voice_id="nobody"))


def test_words_are_set_tried_and_removed(make_site: MakeSite) -> None:
    site = make_site(chat_url="parrot:", speech="espeak")
    people = People(site)
    ann, operator = people.signed_in("ann"), people.signed_in("an-operator", operator=True)
    refused = ann.post("/words", word="行长", reading="hang2")
    assert refused.status == 400
    assert "has 2 characters" in refused.body.decode()
    assert 'value="hang2"' in refused.body.decode()

    ann.submit("/words", word="行长", reading="háng zhǎng")
    operator.submit("/site/words", word="Myna", reading="MY-nuh")
    assert [(row["word"], row["account"]) for row in site.cli("voice", "word", "list")] == [("Myna", "")]
    page = ann.get("/words").body.decode()
    assert re.findall(r"<td>([^<]+)</td>", page) == ["行长", "hang2 zhang3"]
    (listen,) = re.findall(r'href="/office(/try/speech\?text=[^"]+)"', page)
    assert "行长</textarea>" in ann.get(listen).body.decode()

    read = ann.post("/try/reading", text="<speak>行长用Myna</speak>", voice_id="zh-female-1", speed="1")
    assert read.status == 200
    assert "hang2 zhang3用my-nuh" in text_of(read)
    assert site.cli("account", "show", "ann")["balance"] == 1000
    unknown = ann.post("/try/reading", text="好", voice_id="nobody", speed="1")
    assert "How this voice reads is not known" in text_of(unknown)
    assert ann.post("/try/reading", text=" ", speed="1").status == 400

    ann.submit("/words/remove", word="行长")
    assert "<table>" not in ann.get("/words").body.decode()
    assert ann.get("/site/words").status == 404


MODELS = "/site/models"
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
def model_operator(offline: Service) -> Visitor:
    return People(offline).signed_in("model-operator", operator=True)


@pytest.fixture
def folder(offline: Service) -> Path:
    """The folder of models, without a trace of an earlier command."""
    made = offline.folder / "data" / "models"
    made.mkdir(exist_ok=True)
    (made / ".kokoro.progress").unlink(missing_ok=True)
    return made


def test_a_fetch_that_fails_says_why(model_operator: Visitor, offline: Service, folder: Path) -> None:
    assert "not installed" in model_operator.page(MODELS)
    model_operator.submit(f"{MODELS}/get", name="kokoro")
    wait_until(
        lambda: "kokoro can't be fetched." in html.unescape(model_operator.page(MODELS)),
        SOON_S,
        "the page says why",
        every_s=0.2,
    )
    assert offline.cli("activity", "--limit", "1")[0]["command"] == "myna models get kokoro"
    assert SECRET not in offline.stderr + model_operator.page(MODELS)


def test_a_running_command_is_followed_and_not_started_twice(model_operator: Visitor, folder: Path) -> None:
    with FileLock(folder / ".kokoro.lock"):
        command = ProgressFile(folder / ".kokoro.progress")
        command.begin("voices-v1.0.bin", 1000)
        command.advance(250)
        command.say("Fetching <b>kokoro</b>")
        page = model_operator.get(MODELS).body.decode()
        assert re.search(r'<progress max="1000" value="250"', page)
        assert "Fetching &lt;b&gt;kokoro" in page
        for action in ("get", "remove"):
            refused = model_operator.post(f"{MODELS}/{action}", name="kokoro", typed="kokoro")
            assert "A command works on kokoro already." in text_of(refused)


def test_an_interrupted_command_is_said(model_operator: Visitor, folder: Path) -> None:
    ProgressFile(folder / ".kokoro.progress").begin("voices-v1.0.bin", 1000)
    assert "The command was interrupted." in model_operator.page(MODELS)


def test_unknown_and_absent_models_are_refused(model_operator: Visitor, folder: Path) -> None:
    assert "There is no model" in text_of(model_operator.post(f"{MODELS}/get", name="../x"))
    assert model_operator.post(f"{MODELS}/remove", name="kokoro", typed="koko").status == 400
    assert "kokoro is not in" in text_of(
        model_operator.post(f"{MODELS}/remove", name="kokoro", typed="kokoro")
    )


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
