"""The fake upstream has the faults of its table: without them, tests that rely on them would pass."""

import http.client
import threading

import pytest

from tests.rig.calls import Answer, Wire, call
from tests.rig.llm import Llm
from tests.rig.postgres import Postgres
from tests.rig.upstream import SECRET, Upstream
from tests.rig.waiting import wait_until


def ask(upstream: Upstream, text: str, deadline_s: float = 10) -> Answer:
    data = {"model": "m", "messages": [{"role": "user", "content": text}]}
    url = f"{upstream.url}/chat/completions"
    return call("POST", url, key=SECRET, data=data, deadline_s=deadline_s)


def content(answer: Answer) -> object:
    return answer.json["choices"][0]["message"]["content"]


def test_the_upstream_echoes_and_records_requests(upstream: Upstream) -> None:
    assert content(ask(upstream, "hello")) == "hello"
    seen = upstream.requests[0]
    assert (seen.method, seen.path) == ("POST", "/v1/chat/completions")
    assert seen.headers["authorization"] == f"Bearer {SECRET}"
    assert seen.json["messages"][0]["content"] == "hello"


def test_each_fault_sends_its_documented_answer(upstream: Upstream) -> None:
    assert content(ask(upstream, "fault=say:yes please")) == "yes"
    assert content(ask(upstream, "fault=empty")) == ""
    assert content(ask(upstream, "fault=null")) is None
    assert "\x00" in str(content(ask(upstream, "fault=odd")))
    assert content(ask(upstream, "fault=wrong-types")) == 17
    assert ask(upstream, "fault=no-choices").json["choices"] == []
    assert ask(upstream, "fault=list").json == []
    assert ask(upstream, "fault=tool-calls").json["choices"][0]["finish_reason"] == "tool_calls"
    refusal = ask(upstream, "fault=status:429")
    assert refusal.status == 429
    assert SECRET.encode() in refusal.body
    assert ask(upstream, "fault=redirect").headers["location"] == "/trap"
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        content(ask(upstream, "fault=broken"))


def test_the_connection_faults_break_the_connection(upstream: Upstream) -> None:
    with pytest.raises(http.client.RemoteDisconnected):
        ask(upstream, "fault=close")
    with pytest.raises(http.client.BadStatusLine):
        ask(upstream, "fault=garbage")
    with pytest.raises(http.client.IncompleteRead):
        ask(upstream, "fault=cut")


def test_a_hanging_call_is_counted_when_its_client_disconnects(upstream: Upstream) -> None:
    with pytest.raises(TimeoutError):
        ask(upstream, "fault=hang", deadline_s=0.2)
    wait_until(lambda: upstream.abandoned == 1 and upstream.open_now == 0, 60, "the line is free")


def test_a_dripping_call_sends_bytes_without_end(upstream: Upstream) -> None:
    body = b'{"messages": [{"role": "user", "content": "fault=drip"}]}'
    with Wire(upstream.url) as wire:
        wire.head("POST /v1/chat/completions HTTP/1.1", f"Content-Length: {len(body)}")
        wire.send(body)
        heard = b""
        while not heard.endswith(b"{   "):
            heard += wire.socket.recv(1)
    wait_until(lambda: upstream.abandoned == 1 and upstream.open_now == 0, 60, "the line is free")


def test_a_blocked_call_is_answered_after_its_release(upstream: Upstream) -> None:
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(ask(upstream, "fault=block")))
    asking.start()
    upstream.wait_for_requests(1)
    assert not answers
    upstream.release()
    asking.join()
    assert answers[0].status == 200


def test_the_trap_counts_followed_redirects(upstream: Upstream) -> None:
    call("POST", upstream.url.replace("/v1", "/trap"), data={})
    assert upstream.trapped == 1


def test_the_model_answers_its_sentence_and_requires_the_key(llm: Llm) -> None:
    data = {"messages": [{"role": "user", "content": "What do you do?"}], "temperature": 0}
    answer = call("POST", f"{llm.url}/chat/completions", key=llm.key, data=data)
    assert content(answer) == llm.sentence
    assert call("POST", f"{llm.url}/chat/completions", key="wrong", data=data).status == 401


def test_a_dropped_database_does_not_exist(postgres: Postgres) -> None:
    url = postgres.fresh_database()
    postgres.drop(url)
    with pytest.raises(ValueError, match="not in list"):
        postgres.drop(url)
