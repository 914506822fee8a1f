"""The page Try: chat and speech with one's own units, whole and as a stream, charged as by the API."""

import html
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.farm.node_client import NodeSite, mp3, new_voice
from tests.office.conftest import MakeSite
from tests.office.test_keys import make
from tests.rig.calls import Answer, Wire, call
from tests.rig.office import People, Visitor
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import SOON_S, wait_until

CHARGED = [("charge", -1)]
REFUNDED = [("charge", -1), ("refund", 1)]
HOSTILE = '<img src=x onerror=alert(1)> & "you"'
ONCE = "0123456789abcdef0123456789abcdef"
SAID = 'He said: "你好"\r\n& left'


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
    shown = html.unescape(visitor.get("/try").body.decode())
    hint = re.search(r'placeholder="[^"]*: (朗读：[^"]*)"', shown)
    assert hint
    answer = visitor.post("/try", text=hint[1], model="svc-chat")
    audio = re.search(r'<audio controls src="(/uploads/[0-9a-f]{32}\.mp3)"', answer.body.decode())
    assert audio
    assert call("GET", site.root_url + audio[1]).headers["content-type"] == "audio/mpeg"
    streamed = visitor.post("/try/stream", text="请朗读：你好")
    (address,) = re.findall(r'"content":"(http[^"]+)"', streamed.body.decode())
    page = ended(visitor, streamed, text="请朗读：你好", answer=address)
    assert re.search(r'<audio controls src="/uploads/[0-9a-f]{32}\.mp3"', page)


@pytest.mark.parametrize("path", ["/try", "/try/stream"])
def test_too_few_units_are_said_in_the_words_of_the_api(site: Service, people: People, path: str) -> None:
    name = f"without-units{path.replace('/', '-')}"
    answer = people.signed_in(name, units=0).post(path, text="Hello")
    assert (answer.status, answer.headers["content-type"]) == (402, "text/html; charset=utf-8")
    text = html.unescape(answer.body.decode())
    assert "The account has 0 units and this call costs 1; ask the operator for more." in text
    assert "Nothing was charged." in text
    assert answer.headers["x-request-id"] in text
    assert ">\nHello</textarea>" in text
    assert entries(site, name) == []


# ---- the key


def test_the_key_of_the_page_is_not_listed_and_not_changed(
    site: Service, visitor: Visitor, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    answers = [visitor.post("/try", text="Hello"), visitor.post("/try/speech", text="Hello")]
    (key_id,) = {row["key"] for one in answers for row in site.cli("calls", "--call", call_of(one))}
    assert site.cli("key", "list", name) == []
    assert "No key yet" in visitor.page("/keys")
    assert f"curl {site.root_url}/openai/v1/chat/completions" in visitor.page("/keys")
    assert visitor.get(f"/keys/{key_id}").headers["location"] == "/office/try"
    assert visitor.get(f"/keys/{key_id}/revoke").status == 404
    assert visitor.post(f"/keys/{key_id}/revoke", typed="Try").status == 404
    refused = site.command("key", "revoke", str(key_id))
    assert refused.code == 1 and f"There is no key {key_id}." in refused.stderr


# ---- view code


@pytest.mark.parametrize(
    ("path", "expected"), [("/try", 'He said: "你好"\n& left'), ("/try/speech", "audio_url")]
)
def test_the_code_for_curl_works(
    site: Service, visitor: Visitor, tmp_path: Path, path: str, expected: str
) -> None:
    _, key = make(visitor, "code")
    answer = visitor.post(path, text=SAID, voice_id="zh-female-1")
    program = tmp_path / "code"
    (lines,) = re.findall(r'<pre id="lines-curl" tabindex="0">(.*?)</pre>', answer.body.decode(), re.DOTALL)
    program.write_text(html.unescape(lines).replace("YOUR_KEY", key), encoding="utf-8")
    ended = subprocess.run(["bash", str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)["choices"][0]["message"]["content"] if path == "/try" else ended.stdout
    assert expected in said


# ---- an upstream that fails, and compute nodes


@pytest.fixture(scope="module")
def node_site(make_site: MakeSite, session_upstream: Upstream) -> Iterator[NodeSite]:
    """A site whose chat channel fails on request, and that only compute nodes speak for."""
    service = make_site(chat_url=session_upstream.url)
    yield NodeSite(service)
    assert service.command("audit", "--audio", "--json").code == 0


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The account of this test at that site."""
    return f"at-{name_of(request)}"


@pytest.fixture
def streaming(node_site: NodeSite, session_upstream: Upstream, name: str) -> Visitor:
    """The owner of that account."""
    session_upstream.forget()
    return People(node_site.service).signed_in(name, units=10)


@pytest.mark.parametrize("path", ["/try", "/try/stream"])
def test_a_failed_call_is_refunded_and_the_page_says_so(
    node_site: NodeSite, streaming: Visitor, name: str, path: str
) -> None:
    answer = streaming.post(path, text="fault=status:500 Hello")
    assert answer.status == 500
    text = html.unescape(answer.body.decode())
    assert "The units of this call were refunded." in text
    assert re.search(r"<dt>Cost</dt><dd>0 units</dd>.*<dt>Balance</dt><dd>10</dd>", text, re.DOTALL)
    assert entries(node_site.service, name) == REFUNDED
    (refunded,) = node_site.service.cli("calls", "--call", call_of(answer))
    assert refunded["state"] == "refunded"


def test_a_nodes_task_is_followed_and_not_found_by_others(node_site: NodeSite, streaming: Visitor) -> None:
    assert "Nothing can speak now" in streaming.page("/try/speech")
    refused = streaming.post("/try/speech", text="Hello")
    assert (refused.status, b"nothing was charged" in refused.body) == (503, True)

    node = node_site.node(new_voice())
    other = People(node_site.service).signed_in("try-other")
    page = streaming.post("/try/speech", text="Hello").body.decode()
    task = re.search(r'data-live="/office(/try/tasks/\d+)/live"', page)
    assert task
    assert "queued" in streaming.page(task[1])
    job = node.take()
    node.ask("beat", {"beats": [{"held": job, "progress": 0.4}]})
    assert "processing 40%" in streaming.page(task[1])
    node.complete(job, mp3())
    assert "/uploads/" in streaming.get(task[1]).body.decode()
    live = streaming.get(f"{task[1]}/live").body.decode()
    assert "/uploads/" in live and live.endswith('event: end\ndata: ""\n\n')
    for path in (task[1], f"{task[1]}/live"):
        assert other.get(path).status == 404
    node_site.service.cli("node", "remove", node.name)


# ---- a stream


def ended(visitor: Visitor, streamed: Answer, **fields: str) -> str:
    """The page that the browser asks for after this stream."""
    form = {"text": "Hello", "call": streamed.headers["x-myna-call"], "waited_ms": "1234", **fields}
    after = visitor.post("/try/ended", **form)
    assert after.status == 200
    return html.unescape(after.body.decode())


def test_the_page_after_a_stream_has_its_cost_and_times(streaming: Visitor) -> None:
    answer = streaming.post("/try/stream", text="Hello")
    page = ended(streaming, answer, answer=f"Well: {HOSTILE}", first_ms="56")
    facts = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page[page.index('<dl class="run">') :]))
    assert "Cost 1 unit First words 56 ms Time 1.2 s Balance 9 Call " in facts
    assert answer.headers["x-request-id"] in facts
    assert page.count("Well: ") == 2, "in the conversation and in the form of the next message"
    raw = streaming.post("/try/ended", text=HOSTILE, answer=HOSTILE).body.decode()
    assert "<img src=x" not in raw
    assert 'id="lines-curl"' in raw


def test_what_came_of_a_broken_stream_stays_in_the_conversation(
    node_site: NodeSite, streaming: Visitor, name: str
) -> None:
    cut = streaming.post("/try/stream", text="fault=error-later one two three")
    assert b'"message":"The answer is incomplete' in cut.body
    assert entries(node_site.service, name) == REFUNDED
    call_id = node_site.service.cli("ledger", name)[0]["call"]
    form = {"text": "Hello", "answer": "one", "error": "The answer is incomplete.", "call": call_id}
    page = html.unescape(streaming.post("/try/ended", **form).body.decode())
    assert re.search(r'<li class="assistant">.*?<div class="said">one</div>', page, re.DOTALL)
    assert "The answer is incomplete." in page
    assert "The units of this call were refunded." in page
    assert "Refunded: the channel broke off its answer" in streaming.page(f"/calls/{call_id}")


def test_the_call_of_another_account_is_not_shown(node_site: NodeSite, streaming: Visitor) -> None:
    answer = streaming.post("/try/stream", text="Hello")
    other = People(node_site.service).signed_in("stream-of-another")
    page = ended(other, answer, answer="mine?")
    assert answer.headers["x-request-id"] not in page
    assert "/office/calls/" not in page
    assert other.post("/try/ended", text="Hello", call="../../x").status == 400


def begin(wire: Wire, visitor: Visitor, text: str) -> None:
    """Sends the form of a stream on a connection that the test ends."""
    body = urlencode({"text": text}).encode()
    wire.head(
        "POST /office/try/stream HTTP/1.1",
        f"Origin: {visitor.service.root_url}",
        f"Cookie: myna={visitor.cookies['myna']}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
    )
    wire.send(body)


def test_a_stream_that_ends_before_its_answer_is_refunded_and_one_with_words_is_kept(
    node_site: NodeSite, streaming: Visitor, name: str
) -> None:
    service = node_site.service
    with Wire(service.root_url) as wire:
        begin(wire, streaming, "fault=hang Hello")
        wait_until(lambda: entries(service, name) == CHARGED, SOON_S, "the call is charged")
    wait_until(lambda: entries(service, name) == REFUNDED, SOON_S, "the call is refunded")
    with Wire(service.root_url) as wire:
        begin(wire, streaming, "fault=silent one two")
        heard = b""
        while b"fault=silent" not in heard:
            heard += wire.socket.recv(4096)

    def states() -> list[str]:
        return [row["state"] for row in service.cli("calls", "--account", name)]

    wait_until(lambda: states() == ["kept", "refunded"], SOON_S, "the call is kept")
    assert entries(service, name) == REFUNDED + CHARGED
