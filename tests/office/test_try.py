"""The page Try: chat and speech with one's own units."""

import html
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.farm.node_client import NodeClient, NodeSite, mp3, new_voice
from tests.rig.browser import OpenContext
from tests.rig.calls import Answer, call
from tests.rig.commands import CommandLine
from tests.rig.forks import Forks
from tests.rig.office import PASSWORD, People, Visitor
from tests.rig.service import Service
from tests.rig.upstream import Upstream

HOSTILE = '<img src=x onerror=alert(1)> & "you"'
ONCE = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def visitor(people: People, request: pytest.FixtureRequest) -> Visitor:
    return people.signed_in(name_of(request), units=10)


def name_of(request: pytest.FixtureRequest) -> str:
    """A name for the account of this test."""
    return re.sub(r"[^a-z0-9-]", "-", str(request.node.name))[:60]


def call_of(answer: Answer) -> str:
    """The id of the call that the page links to."""
    found = re.search(r'href="/office/calls/([0-9a-f]{32})"', answer.body.decode())
    assert found, answer.body.decode()
    return found[1]


def entries(service: Service, name: str) -> list[tuple[str, int]]:
    """The account's ledger without its grant, oldest first."""
    rows = service.cli("ledger", name)
    return [(row["kind"], row["units"]) for row in reversed(rows)][1:]


# ---- chat


def test_a_chat_costs_what_the_ledger_has(
    site: Service, visitor: Visitor, request: pytest.FixtureRequest
) -> None:
    assert "One request costs 1 unit of yours" in visitor.page("/try")
    answer = visitor.post("/try", text="Polly wants a cracker", model="svc-agent", once=ONCE)
    assert answer.status == 200
    page = html.unescape(answer.body.decode())
    assert page.count("Polly wants a cracker") >= 3  # asked, answered, and in the code
    assert re.search(r"<dt>Cost</dt><dd>1 unit</dd>.*<dt>Balance</dt><dd>9</dd>", page, re.DOTALL)
    assert answer.headers["x-request-id"] in page
    assert entries(site, name_of(request)) == [("charge", -1)]
    assert "Try" in visitor.page(f"/calls/{call_of(answer)}")
    (charged,) = site.cli("calls", "--call", call_of(answer))
    assert (charged["state"], charged["request_id"]) == ("kept", answer.headers["x-request-id"])


def test_a_form_that_is_sent_again_costs_nothing(
    site: Service, visitor: Visitor, request: pytest.FixtureRequest
) -> None:
    first = visitor.post("/try", text="Once", once=ONCE)
    again = visitor.post("/try", text="Once", once=ONCE)
    assert again.status == 200
    assert "nothing: this form was sent before" in again.body.decode()
    assert call_of(again) == call_of(first)
    assert entries(site, name_of(request)) == [("charge", -1)]


def test_a_conversation_continues(visitor: Visitor) -> None:
    said = ["First question", "First answer\r\nin two lines"]
    page = html.unescape(visitor.post("/try", text="Second question", said=said).body.decode())
    code = page[page.index('id="lines-openai-python"') :]
    assert '"content": "First answer\\nin two lines"' in code
    assert re.findall(r'"role": "(\w+)"', code)[:3] == ["user", "assistant", "user"]


def test_hostile_text_is_text(visitor: Visitor) -> None:
    for path in ("/try", "/try/speech"):
        answer = visitor.post(path, text=HOSTILE, voice_id=HOSTILE, said=[HOSTILE, HOSTILE])
        assert "<img src=x" not in answer.body.decode()
        assert "alert(1)" in answer.body.decode()


def test_an_instruction_to_speak_is_answered_with_a_player(site: Service, visitor: Visitor) -> None:
    answer = visitor.post("/try", text="请朗读：你好")
    audio = re.search(r'<audio controls src="(/uploads/[0-9a-f]{32}\.mp3)"', answer.body.decode())
    assert audio
    assert call("GET", site.root_url + audio[1]).headers["content-type"] == "audio/mpeg"


def test_too_few_units_are_said_in_the_words_of_the_api(site: Service, people: People) -> None:
    poor = people.signed_in("try-without-units", units=0)
    answer = poor.post("/try", text="Hello")
    assert answer.status == 402
    text = html.unescape(answer.body.decode())
    assert "The account has 0 units and this call costs 1; ask the operator for more." in text
    assert "Nothing was charged." in text
    assert answer.headers["x-request-id"] in text
    assert ">\nHello</textarea>" in text
    assert entries(site, "try-without-units") == []


def test_the_text_of_the_empty_field_is_spoken_as_it_says(site: Service, visitor: Visitor) -> None:
    shown = html.unescape(visitor.get("/try").body.decode())
    hint = re.search(r'placeholder="[^"]*: (朗读：[^"]*)"', shown)
    assert hint
    assert "<audio" in visitor.post("/try", text=hint[1], model="svc-chat", once=ONCE).body.decode()


def test_a_form_of_another_site_is_refused(visitor: Visitor) -> None:
    assert visitor.post("/try", text="Hello", headers={"origin": "https://other.example"}).status == 403


# ---- the key


def test_the_key_of_the_page_is_not_listed_and_not_changed(
    site: Service, visitor: Visitor, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    (key_id,) = {row["key"] for row in used(site, visitor)}
    assert site.cli("key", "list", name) == []
    assert "No key yet" in visitor.page("/keys")
    assert f"curl {site.root_url}/openai/v1/chat/completions" in visitor.page("/keys")
    assert visitor.get(f"/keys/{key_id}").headers["location"] == "/office/try"
    assert visitor.get(f"/keys/{key_id}/revoke").status == 404
    assert visitor.post(f"/keys/{key_id}/revoke", name="Try").status == 404
    refused = site.command("key", "revoke", str(key_id))
    assert refused.code == 1 and f"There is no key {key_id}." in refused.stderr


def used(site: Service, visitor: Visitor) -> list[dict[str, object]]:
    """Tries chat and speech; the two calls."""
    answers = [visitor.post("/try", text="Hello"), visitor.post("/try/speech", text="Hello")]
    return [dict(row) for one in answers for row in site.cli("calls", "--call", call_of(one))]


# ---- speech


def test_speech_costs_what_the_ledger_has(
    site: Service, visitor: Visitor, request: pytest.FixtureRequest
) -> None:
    answer = visitor.post("/try/speech", text="Hello", voice_id="en-us-female-1", speed="1.5", once=ONCE)
    page = answer.body.decode()
    audio = re.search(r'<audio controls autoplay src="(/uploads/[0-9a-f]{32}\.mp3)"', page)
    assert audio
    assert call("GET", site.root_url + audio[1]).status == 200
    assert re.search(r"<dt>Cost</dt><dd>1 unit</dd>.*<dt>Balance</dt><dd>9</dd>", page, re.DOTALL)
    assert entries(site, name_of(request)) == [("charge", -1)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": "Hello", "voice_id": "nobody"}, "voice_id: there is no such voice"),
        ({"text": "Hello", "speed": "9"}, "speed: must be a decimal string from 0.25 to 4.0."),
        ({"text": "…"}, "text: holds nothing that can be spoken"),
    ],
)
def test_a_wrong_request_is_explained(visitor: Visitor, fields: dict[str, str], message: str) -> None:
    answer = visitor.post("/try/speech", **fields)
    assert answer.status == 400
    assert message in html.unescape(answer.body.decode())
    assert "Nothing was charged." in answer.body.decode()


# ---- view code


def code_of(answer: Answer, client: str) -> str:
    found = re.search(rf'<pre id="lines-{client}" tabindex="0">(.*?)</pre>', answer.body.decode(), re.DOTALL)
    assert found
    return html.unescape(found[1])


@pytest.mark.parametrize("client", ["curl", "openai-python"])
@pytest.mark.parametrize(
    ("path", "expected"), [("/try", 'He said: "你好"\n& left'), ("/try/speech", "audio_url")]
)
def test_the_code_works(
    site: Service, visitor: Visitor, tmp_path: Path, client: str, path: str, expected: str
) -> None:
    key = re.search(
        r"myna_[0-9a-f]{40}", visitor.post("/keys/new", name="code", scope=["chat", "tts"]).body.decode()
    )
    assert key
    answer = visitor.post(path, text='He said: "你好"\r\n& left', voice_id="zh-female-1")
    code = code_of(answer, client).replace("YOUR_KEY", key[0])
    program = tmp_path / "code"
    program.write_text(code, encoding="utf-8")
    shell = ["bash", str(program)] if client == "curl" else [sys.executable, str(program)]
    ended = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    said = ended.stdout
    if client == "curl" and path == "/try":
        said = json.loads(said)["choices"][0]["message"]["content"]
    assert expected in said


# ---- an upstream that fails, and compute nodes


@pytest.fixture(scope="module")
def node_site(
    tmp_path_factory: pytest.TempPathFactory,
    commands: CommandLine,
    forks: Forks | None,
    session_upstream: Upstream,
) -> Iterator[NodeSite]:
    """A site whose chat channel fails on request, and that only compute nodes speak for."""
    folder = tmp_path_factory.mktemp("try")
    service = Service(folder, commands, chat_url=session_upstream.url, speech="none", forks=forks).start()
    yield NodeSite(service)
    assert service.command("audit", "--audio", "--json").code == 0
    service.kill()


def test_a_failed_call_is_refunded_and_the_page_says_so(node_site: NodeSite) -> None:
    visitor = People(node_site.service).signed_in("try-refunded", units=10)
    answer = visitor.post("/try", text="fault=status:500 Hello")
    assert answer.status == 500
    text = html.unescape(answer.body.decode())
    assert "The units of this call were refunded." in text
    assert re.search(r"<dt>Cost</dt><dd>0 units</dd>.*<dt>Balance</dt><dd>10</dd>", text, re.DOTALL)
    assert entries(node_site.service, "try-refunded") == [("charge", -1), ("refund", 1)]
    (refunded,) = node_site.service.cli("calls", "--call", call_of(answer))
    assert refunded["state"] == "refunded"


def test_without_a_voice_the_page_says_so(node_site: NodeSite) -> None:
    visitor = People(node_site.service).signed_in("try-without-voice")
    assert "Nothing can speak now" in visitor.page("/try/speech")
    answer = visitor.post("/try/speech", text="Hello")
    assert answer.status == 503
    assert "nothing was charged" in answer.body.decode()


@pytest.fixture
def node(node_site: NodeSite) -> Iterator[NodeClient]:
    node = node_site.node(new_voice())
    yield node
    node_site.service.cli("node", "remove", node.name)


def test_a_task_of_others_is_not_found(node_site: NodeSite, node: NodeClient) -> None:
    owner = People(node_site.service).signed_in("try-owner")
    other = People(node_site.service).signed_in("try-other")
    page = owner.post("/try/speech", text="Hello").body.decode()
    task = re.search(r'data-live="/office(/try/tasks/\d+)/live"', page)
    assert task
    node.complete(node.take(), mp3())
    assert "/uploads/" in owner.get(task[1]).body.decode()
    for path in (task[1], f"{task[1]}/live"):
        assert other.get(path).status == 404


def test_a_task_is_followed_in_a_browser(
    node_site: NodeSite, node: NodeClient, open_context: OpenContext
) -> None:
    People(node_site.service).signed_in("try-browser")
    page = open_context(base_url=node_site.service.root_url).new_page()
    page.goto("/office/sign-in?next=/office/try/speech")
    page.fill("#name", "try-browser")
    page.fill("#password", PASSWORD)
    page.click("button.main")
    page.fill("#text", "A text that a compute node speaks")
    page.click("button.main")
    page.wait_for_selector("text=queued")
    job = node.take()
    node.ask("beat", {"beats": [{"held": job.proof, "progress": 0.4}]})
    page.wait_for_selector("text=processing 40%")
    node.complete(job, mp3())
    page.wait_for_selector("[data-live] audio")
    assert page.locator("[data-live] a[download]").count() == 1
