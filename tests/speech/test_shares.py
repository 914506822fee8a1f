"""The limits of one account on the embedded voice, so that other accounts are always served."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from myna.channels.circuits import FAILURES_MAX
from tests.conformance.caller import DELIVERED, UNCHARGED, Caller, Stats, check_error, make_caller
from tests.rig.calls import Wire, call
from tests.rig.commands import CommandLine
from tests.rig.processes import children, send
from tests.rig.service import ON_TWO_CORES, Service
from tests.rig.waiting import SOON_S, wait_until

SENTENCE = "今天天气很好，我们一起去公园散步。"
NO_END = "ﷺ" * 1000
"""More than an hour of sound."""
SILENT = "\ua78c"
"""A letter, SALTILLO, for which espeak-ng makes no sound."""
ACCOUNT_MAX, QUEUE_MAX = 3, 4


@pytest.fixture(scope="module")
def service(commands: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with two speaking processes, on every machine. Its books are audited at the end."""
    env = {"MYNA_SPEECH_ACCOUNT_MAX": str(ACCOUNT_MAX), "MYNA_SPEECH_QUEUE_MAX": str(QUEUE_MAX)}
    folder = tmp_path_factory.mktemp("two-cores")
    running = Service(folder, commands, chat_url="parrot:", env=env, program=ON_TWO_CORES).start()
    assert len(children(running.pid)) == 2
    yield running
    assert running.stop() == 0
    assert running.command("audit", "--audio").code == 0


@contextmanager
def paused_speech(service: Service) -> Iterator[None]:
    """Stops the speaking processes inside the block."""
    pids = children(service.pid)
    for pid in pids:
        send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            send(pid, signal.SIGCONT)


def asking(caller: Caller) -> Wire:
    """A client that has sent a request and waits."""
    wire = Wire(caller.service.base_url)
    body = json.dumps({"text": SENTENCE}).encode()
    wire.head(
        "POST /v1/tts HTTP/1.1",
        f"Authorization: Bearer {caller.key.plain}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    wire.send(body)
    return wire


def wait_charged(caller: Caller, units: int) -> None:
    wait_until(lambda: caller.stats().cost == units, SOON_S, f"{units} are charged")


def test_one_account_cannot_fill_the_queue_and_a_full_one_refuses_all_uncharged(service: Service) -> None:
    greedy, other, late = (make_caller(service, units=20) for _ in range(3))
    with ExitStack() as clients:
        with paused_speech(service):
            waiting = [clients.enter_context(asking(greedy)) for _ in range(ACCOUNT_MAX)]
            wait_charged(greedy, ACCOUNT_MAX)
            for _ in range(2):
                refused = greedy.speak(SENTENCE)
                assert check_error(refused, 503).startswith("This account has as many texts")
                assert int(refused.headers["retry-after"]) >= 1
            waiting += [clients.enter_context(asking(other)) for _ in range(ACCOUNT_MAX)]
            wait_charged(other, ACCOUNT_MAX)
            refused = late.speak(SENTENCE)
            assert not check_error(refused, 503, "service_unavailable").startswith("This account")
        assert [wire.answer().status for wire in waiting] == [200] * 2 * ACCOUNT_MAX
    for caller, delivered in ((greedy, ACCOUNT_MAX + 1), (other, ACCOUNT_MAX + 1), (late, 1)):
        assert caller.speak(SENTENCE).status == 200
        assert caller.stats() == Stats(delivered, delivered, delivered)


def test_a_client_that_leaves_while_its_text_waits_is_refunded_and_its_slot_freed(service: Service) -> None:
    caller = make_caller(service, units=20)
    with ExitStack() as clients:
        with paused_speech(service):
            spoken = [clients.enter_context(asking(caller)) for _ in children(service.pid)]
            wait_charged(caller, 2)
            disconnecting = asking(caller)
            wait_charged(caller, ACCOUNT_MAX)
            disconnecting.socket.close()
            wait_charged(caller, 2)
            instead = clients.enter_context(asking(caller))
            wait_charged(caller, ACCOUNT_MAX)
        assert [wire.answer().status for wire in [*spoken, instead]] == [200] * ACCOUNT_MAX
    assert caller.stats() == Stats(calls=ACCOUNT_MAX + 1, cost=ACCOUNT_MAX, ok_calls=ACCOUNT_MAX)


def test_a_client_that_disconnects_while_its_text_is_spoken_pays(service: Service) -> None:
    caller = make_caller(service, units=20)
    with paused_speech(service):
        disconnecting = asking(caller)
        wait_charged(caller, 1)
        disconnecting.socket.close()
    wait_until(lambda: caller.stats() == DELIVERED, SOON_S, "it is spoken all the same")


def test_a_text_over_the_sound_limit_is_400_before_the_charge(service: Service) -> None:
    caller = make_caller(service, units=20)
    for refused in (caller.speak(NO_END, speed="0.25"), caller.chat(f"朗读：{NO_END}")):
        assert check_error(refused, 400).startswith("text: would make up to ")
    assert caller.stats() == UNCHARGED


def test_a_text_without_a_sound_is_400_and_refunded_and_opens_no_circuit(service: Service) -> None:
    def files() -> set[Path]:
        return {path for path in (service.folder / "data" / "audio").rglob("*.*") if path.is_file()}

    caller, before = make_caller(service, units=20), files()
    for _ in range(FAILURES_MAX + 1):
        message = check_error(caller.speak(SILENT), 400)
        assert message.startswith("text: holds nothing that this voice can speak")
    assert caller.stats() == Stats(calls=FAILURES_MAX + 1, cost=0, ok_calls=0)
    assert caller.balance() == 20
    assert files() == before
    failures = 'myna_upstream_failures_total{channel="espeak"'
    assert failures not in call("GET", f"{service.root_url}/metrics").body.decode()
    assert caller.speak("hello").status == 200
    assert caller.balance() == 19
