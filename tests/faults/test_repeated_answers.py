"""An upstream that repeats, splits and delays its answers: no caller gets the answer to another."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from myna.http_client.idle import REUSE_AFTER_S
from tests.conformance.caller import Caller
from tests.faults.conftest import RELEASE, audited, new_caller
from tests.rig.repeating_upstream import RepeatingUpstream, seeded
from tests.rig.service import ServiceMaker

SEEDS = (3, 11, 58) if RELEASE else (11,)
CLIENTS = 6
CALLS = 25


def reply(body: bytes) -> bytes:
    """A completion that repeats the last message."""
    text = json.loads(body)["messages"][-1]["content"]
    return json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()


def ask(caller: Caller, client: int) -> dict[str, str]:
    """Returns the answers by text, without failed calls."""
    got = {}
    for number in range(CALLS):
        text = f"client {client}, call {number}"
        answer = caller.chat(text)
        assert answer.status in (200, 500)
        if answer.status == 200:
            got[text] = answer.json["choices"][0]["message"]["content"]
    return got


@pytest.mark.parametrize("seed", SEEDS)
def test_no_caller_gets_an_answer_to_another_caller(
    make_service: ServiceMaker, database_url: str | None, seed: int
) -> None:
    upstream = RepeatingUpstream(seeded(seed, clean=0.9), reply, REUSE_AFTER_S)
    service = make_service(database_url=database_url, chat_url=upstream.url, speech="none").start()
    callers = [new_caller(service, units=CALLS) for _ in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = list(pool.map(ask, callers, range(CLIENTS)))
    upstream.close()
    late = {json.loads(body)["messages"][-1]["content"] for body in upstream.late}
    for got in answers:
        assert {found for text, found in got.items() if found != text} <= late
    assert sum(map(len, answers)) > CLIENTS * CALLS // 2
    assert upstream.repeated
    assert audited(service)
