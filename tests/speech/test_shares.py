"""The limits of one account on the embedded voice, so that other accounts are always served."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from tests.rig.calls import Wire, call
from tests.rig.processes import children, send
from tests.rig.service import ON_TWO_CORES, Service, ServiceMaker
from tests.rig.waiting import wait_until

WAIT_S = 60
SENTENCE = "今天天气很好，我们一起去公园散步。"
NO_END = {"text": "ﷺ" * 1000, "speed": "0.25"}
"""A text of more than an hour of sound."""


@contextmanager
def paused_speech(service: Service) -> Iterator[None]:
    """Stops the speaking processes inside the block."""
    pids = children(service.pid)
    assert len(pids) >= 2
    for pid in pids:
        send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            send(pid, signal.SIGCONT)


def charged(service: Service) -> int:
    """The units that all accounts together have spent."""
    return 100 * len(rows := service.cli("account", "list")) - sum(int(row["balance"]) for row in rows)


def asking(service: Service, key: str, text: str = SENTENCE) -> Wire:
    """A client that has sent a request and waits."""
    wire = Wire(service.base_url)
    body = ('{"text": "%s"}' % text).encode()  # noqa: UP031  braces
    wire.head(
        "POST /v1/tts HTTP/1.1",
        f"Authorization: Bearer {key}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    wire.send(body)
    return wire


def test_one_account_cannot_fill_the_queue_and_is_refused_before_the_charge(
    make_service: ServiceMaker,
) -> None:
    service = make_service(
        program=ON_TWO_CORES, chat_url="parrot:", env={"MYNA_SPEECH_ACCOUNT_MAX": "3"}
    ).start()
    greedy, other = (service.account(units=100).key().plain for _ in range(2))
    with ExitStack() as clients:
        with paused_speech(service):
            waiting = [clients.enter_context(asking(service, greedy)) for _ in range(3)]
            wait_until(lambda: charged(service) == 3, WAIT_S, "three are charged")
            for _ in range(2):
                refused = call("POST", f"{service.base_url}/tts", key=greedy, data={"text": SENTENCE})
                assert refused.status == 503
                assert refused.json["error"]["message"].startswith("This account has as many texts")
                assert int(refused.headers["retry-after"]) >= 1
            others = clients.enter_context(asking(service, other))
            wait_until(lambda: charged(service) == 4, WAIT_S, "the other account is charged")
        assert [wire.answer().status for wire in [*waiting, others]] == [200] * 4
    again = call("POST", f"{service.base_url}/tts", key=greedy, data={"text": SENTENCE})
    assert again.status == 200
    assert charged(service) == 5
    assert service.command("audit").code == 0


def test_many_requests_of_one_key_leave_the_queue_to_others(make_service: ServiceMaker) -> None:
    service = make_service(
        program=ON_TWO_CORES, chat_url="parrot:", env={"MYNA_SPEECH_QUEUE_MAX": "8"}
    ).start()
    greedy, other = (service.account(units=100).key().plain for _ in range(2))
    url = f"{service.base_url}/tts"
    with ThreadPoolExecutor(40) as threads, paused_speech(service):
        many = [threads.submit(call, "POST", url, key=greedy, data={"text": SENTENCE}) for _ in range(30)]
        wait_until(lambda: sum(one.done() for one in many) >= 20, WAIT_S, "the rest was refused")
        before = charged(service)
        others = threads.submit(call, "POST", url, key=other, data={"text": SENTENCE})
        wait_until(lambda: others.done() or charged(service) > before, WAIT_S, "the other is charged")
        for pid in children(service.pid):
            send(pid, signal.SIGCONT)
        assert others.result().status == 200
        assert {one.result().status for one in many} == {200, 503}
        spoken = sum(one.result().status == 200 for one in many)
    stats = call("GET", f"{service.base_url}/me", key=greedy).json["stats"]
    assert (stats["calls"], stats["ok_calls"]) == (spoken, spoken)  # none was charged for nothing


def test_a_client_that_disconnects_while_its_text_waits_is_refunded_and_its_slot_released(
    make_service: ServiceMaker,
) -> None:
    service = make_service(
        program=ON_TWO_CORES, chat_url="parrot:", env={"MYNA_SPEECH_ACCOUNT_MAX": "3"}
    ).start()
    key = service.account(units=100).key().plain
    with ExitStack() as clients:
        with paused_speech(service):
            spoken = [clients.enter_context(asking(service, key)) for _ in children(service.pid)]
            wait_until(lambda: charged(service) == len(spoken), WAIT_S, "all processes have one")
            disconnecting = asking(service, key)
            wait_until(lambda: charged(service) == len(spoken) + 1, WAIT_S, "one more waits")
            disconnecting.socket.close()
            wait_until(lambda: charged(service) == len(spoken), WAIT_S, "it is refunded")
            instead = clients.enter_context(asking(service, key))
            wait_until(lambda: charged(service) == len(spoken) + 1, WAIT_S, "another has its place")
        assert [wire.answer().status for wire in [*spoken, instead]] == [200] * (len(spoken) + 1)
    stats = call("GET", f"{service.base_url}/me", key=key).json["stats"]
    assert (stats["calls"], stats["ok_calls"]) == (len(spoken) + 2, len(spoken) + 1)
    assert service.command("audit").code == 0


def test_a_client_that_disconnects_while_its_text_is_spoken_pays(make_service: ServiceMaker) -> None:
    service = make_service(program=ON_TWO_CORES, chat_url="parrot:").start()
    key = service.account(units=100).key().plain
    with paused_speech(service):
        disconnecting = asking(service, key)
        wait_until(lambda: charged(service) == 1, WAIT_S, "a process has it")
        disconnecting.socket.close()

    def ended() -> bool:
        return bool(call("GET", f"{service.base_url}/me", key=key).json["stats"]["ok_calls"] == 1)

    wait_until(ended, WAIT_S, "it is spoken all the same")
    assert charged(service) == 1


@pytest.mark.parametrize("path", ["tts", "chat/completions"])
def test_a_text_over_the_sound_limit_is_400_before_the_charge(make_service: ServiceMaker, path: str) -> None:
    service = make_service(program=ON_TWO_CORES, chat_url="parrot:").start()
    service.cli("settings", "set", "tts_max_sound_s", "60")
    key = service.account(units=100).key().plain
    asked = {"messages": [{"role": "user", "content": "朗读：" + SENTENCE * 20}], "model": "svc-chat"}
    data = NO_END if path == "tts" else asked
    refused = call("POST", f"{service.base_url}/{path}", key=key, data=data)
    assert refused.status == 400
    assert refused.json["error"]["message"].startswith("text: would make up to ")
    assert call("GET", f"{service.base_url}/me", key=key).json["stats"]["calls"] == 0
