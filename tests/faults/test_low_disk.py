"""A disk with less free space than its reserve: no new audio and no charge for it."""

import json

import pytest

from tests.conformance.caller import DELIVERED, UNCHARGED, check_error
from tests.faults.conftest import ServiceOn, audited, new_caller
from tests.rig.calls import call
from tests.rig.service import Service, ServiceMaker

RESERVE = "MYNA_DISK_RESERVE_BYTES"
MORE_THAN_ANY_DISK = str(2**50)


def capabilities(service: Service) -> tuple[dict[str, bool], dict[str, str]]:
    answer = call("GET", f"{service.root_url}/readyz")
    assert answer.status == 200
    return answer.json["capabilities"], answer.json["reasons"]


def logged(service: Service) -> list[str]:
    """The levels of the log messages about the reserve."""
    lines = [json.loads(line) for line in service.stderr.splitlines()]
    return [line["level"] for line in lines if line["logger"] == "myna.store.files.free_space"]


@pytest.mark.parametrize("path", ["/tts", "/chat/completions"])
def test_below_the_disk_reserve_speech_is_refused_uncharged_and_chat_is_served(
    make_service: ServiceMaker, path: str
) -> None:
    service = make_service(chat_url="parrot:", env={RESERVE: MORE_THAN_ANY_DISK}).start()
    caller = new_caller(service, units=1)
    answer = caller.speak("你好") if path == "/tts" else caller.chat("配音：你好")
    message = check_error(answer, 503, "service_unavailable")
    assert "nothing was charged" in message
    assert answer.headers["retry-after"] == "60"
    assert caller.stats() == UNCHARGED
    assert caller.get("/records").json["count"] == 0
    check_error(caller.speak(""), 503, "service_unavailable")  # precedes a validation error
    assert caller.chat("hello").status == 200
    assert caller.stats() == DELIVERED
    can, why = capabilities(service)
    assert can == {"chat": True, "speech": False}
    assert RESERVE in why["speech"]
    free = next(
        line.split()[1]
        for line in call("GET", f"{service.root_url}/metrics").body.decode().splitlines()
        if line.startswith("myna_disk_free_bytes ")
    )
    assert 0 < float(free) < float(MORE_THAN_ANY_DISK)
    assert logged(service) == ["error"]
    assert audited(service)
    assert service.stop() == 0

    service.env[RESERVE] = "1"
    service.start()
    assert capabilities(service)[0] == {"chat": True, "speech": True}
    check_error(caller.speak("你好"), 402, "insufficient_quota")  # only units are missing
    assert logged(service) == []


def test_below_the_disk_reserve_the_command_line_stores_no_sample(service_on: ServiceOn) -> None:
    service = service_on(None, **{RESERVE: MORE_THAN_ANY_DISK}).start()
    sample = service.folder / "sample.wav"
    sample.write_bytes(b"never listened to")
    named = ("--name", "Ann", "--language", "en", "--transcript", "Hello.")
    ended = service.command(
        "voice", "clone", service.account().name, *named, "--sample", str(sample), "--consent"
    )
    assert ended.code == 1
    assert RESERVE in ended.stderr
    assert service.cli("voice", "list") == []
