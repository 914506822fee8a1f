"""The sound of the embedded voices leaves while they speak: their processes stop or die within a text, or
the client leaves."""

import http.client
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from myna.engines.audio.encoders import RATE_HZ
from tests.audio.test_encoders import heard
from tests.conformance.caller import DELIVERED, REFUNDED, Caller, Stats, make_caller
from tests.faults.conftest import ServiceOn, audited
from tests.rig.calls import call
from tests.rig.processes import children, proc_file, send, state
from tests.rig.service import Service
from tests.rig.waiting import wait_until

SENTENCE = "今天天气很好，我们一起去公园散步吧。"
SECOND_BYTES = 2 * RATE_HZ
SOON_S = 60
CHARGED = Stats(calls=1, cost=1, ok_calls=0)


@pytest.fixture
def service(service_on: ServiceOn) -> Iterator[Service]:
    running = service_on(None, MYNA_SPEECH="espeak").start()
    yield running
    assert audited(running)
    assert list((running.folder / "data" / "spool").iterdir()) == []


class Speaking:
    """A text of eight minutes that is sent as samples. Its processes are stopped at the first second."""

    def __init__(self, caller: Caller) -> None:
        service = caller.service
        self._children = [pid for pid in children(service.pid) if "espeak.child" in proc_file(pid, "cmdline")]
        self._connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=SOON_S)
        body = json.dumps({"model": "tts-1", "input": SENTENCE * 50, "response_format": "pcm", "speed": 0.5})
        headers = {"Authorization": f"Bearer {caller.key.plain}"}
        self._connection.request("POST", "/openai/v1/audio/speech", body, headers)
        self._response = self._connection.getresponse()
        self.first = self._response.read(SECOND_BYTES)
        self.signal(signal.SIGSTOP)
        wait_until(lambda: set(map(state, self._children)) == {"T"}, SOON_S, "the processes have stopped")

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the processes that speak."""
        for pid in self._children:
            send(pid, number)

    def rest(self) -> tuple[bytes, bool]:
        """What follows, and whether the response ended well."""
        try:
            return self._response.read(), True
        except http.client.IncompleteRead as broken:
            return broken.partial, False
        finally:
            self.leave()

    def leave(self) -> None:
        self._response.close()
        self._connection.close()


def stored_s(caller: Caller) -> float:
    """The seconds of sound of the newest record."""
    (record,) = caller.get("/records?limit=1").json["data"]
    return len(heard(call("GET", record["audio_url"]).body, "mp3")) / RATE_HZ


def test_sound_arrives_while_the_rest_is_not_spoken(service: Service) -> None:
    caller = make_caller(service, units=1)
    speaking = Speaking(caller)
    assert len(speaking.first) == SECOND_BYTES
    assert caller.stats() == CHARGED
    speaking.signal(signal.SIGCONT)
    rest, whole = speaking.rest()
    assert whole
    assert caller.stats() == DELIVERED
    assert stored_s(caller) == pytest.approx(len(speaking.first + rest) / SECOND_BYTES, abs=0.1)


def test_the_text_of_a_process_that_dies_is_spoken_by_another(service: Service) -> None:
    caller = make_caller(service, units=1)
    speaking = [pid for pid in children(service.pid) if "espeak.child" in proc_file(pid, "cmdline")]
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(caller.speak, SENTENCE * 50)
        wait_until(lambda: any(state(pid) == "R" for pid in speaking), SOON_S, "a process speaks")
        for pid in speaking:
            if state(pid) == "R":
                send(pid, signal.SIGKILL)
        assert asked.result(SOON_S).status == 200
    assert caller.stats() == DELIVERED


def test_a_process_that_dies_within_a_text_is_refunded(service: Service) -> None:
    caller = make_caller(service, units=1)
    speaking = Speaking(caller)
    speaking.signal(signal.SIGKILL)
    _, whole = speaking.rest()
    assert not whole
    wait_until(lambda: caller.stats() == REFUNDED, SOON_S, "the call is refunded")
    assert list((service.folder / "data" / "audio").rglob("*.*")) == []


def test_the_sound_of_a_process_that_dies_within_a_text_is_kept_if_the_site_says_so(service: Service) -> None:
    service.cli("settings", "set", "broken_stream", "keep")
    caller = make_caller(service, units=1)
    speaking = Speaking(caller)
    speaking.signal(signal.SIGKILL)
    rest, whole = speaking.rest()
    assert not whole
    wait_until(lambda: caller.stats() == DELIVERED, SOON_S, "the call is kept")
    assert stored_s(caller) == pytest.approx(len(speaking.first + rest) / SECOND_BYTES, abs=0.1)


def test_a_client_that_leaves_within_a_text_pays_for_it_and_it_is_stored_whole(service: Service) -> None:
    caller = make_caller(service, units=1)
    speaking = Speaking(caller)
    speaking.leave()
    speaking.signal(signal.SIGCONT)
    wait_until(lambda: caller.stats() == DELIVERED, SOON_S, "the call is kept")
    assert stored_s(caller) > 400


def test_the_server_is_killed_within_a_text(service: Service) -> None:
    caller = make_caller(service, units=1)
    speaking = Speaking(caller)
    service.kill()
    _, whole = speaking.rest()
    assert not whole
    service.start()
    wait_until(lambda: caller.stats() == REFUNDED, SOON_S, "the call is refunded")
