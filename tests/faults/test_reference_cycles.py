"""Failing calls leave nothing for the garbage collector: an exception that refers to a frame which refers to
the exception keeps all variables of the call, its answer too, for as long as the collector doesn't run."""

import http.client
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress

import pytest

from tests.conformance.caller import Caller
from tests.faults.conftest import ServiceOn, new_caller
from tests.openai_audio.test_transcriptions import form
from tests.openai_audio.transcription_upstream import TranscriptionUpstream
from tests.rig import event_streams
from tests.rig.calls import call
from tests.rig.sse import EventReader
from tests.rig.upstream import Upstream
from tests.rig.waiting import SOON_S, wait_until

PROGRAM = """
import gc, signal, types
from collections import Counter
from pathlib import Path
from myna.cli import main

def write_garbage(*_):
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    frames = [one.tb_frame.f_code.co_qualname for one in gc.garbage if isinstance(one, types.TracebackType)]
    gc.garbage.clear()
    Path("garbage.new").write_text("\\n".join(f"{name} {count}" for name, count in Counter(frames).items()))
    Path("garbage.new").rename("garbage")

gc.disable()
gc.set_threshold = lambda *_: None
signal.signal(signal.SIGUSR2, write_garbage)
main(["serve"])
"""
"""A service without a garbage collector. At SIGUSR2 it collects once, and writes what the tracebacks in
reference cycles are of."""

WHOLE = (
    "status:500",
    "status:400",
    "redirect",
    "close",
    "cut",
    "garbage",
    "broken",
    "list",
    "no-choices",
    "null",
)
STREAMED = (
    *(
        "json-error",
        "no-end",
        "cut-stream",
        "error-first",
        "error-later",
        "html-first",
        "html-later",
        "cut-done",
    ),
    *("half-event", "status:500", "close", "garbage"),
)
CHAT, RELAY = "/v1/chat/completions", "/openai/v1/chat/completions"
RESPONSES, SPEECH, TTS = "/openai/v1/responses", "/openai/v1/audio/speech", "/v1/tts"
TIMES = 3


def body_of(path: str, text: str, streams: bool) -> Mapping[str, object]:
    """A request of this path with the text."""
    if path == TTS:
        return {"text": text}
    if path == SPEECH:
        return {"model": "tts-1", "input": text, "stream_format": "sse" if streams else "audio"}
    said = {"input": text} if path == RESPONSES else {"messages": [{"role": "user", "content": text}]}
    return {"model": "svc-chat", "stream": streams} | said


def ask(caller: Caller, path: str, text: str, streams: bool) -> int:
    """The status; 0 if the answer broke off."""
    body = json.dumps(body_of(path, text, streams)).encode()
    with suppress(http.client.IncompleteRead):
        return call("POST", caller.service.root_url + path, key=caller.key.plain, body=body).status
    return 0


def garbage(caller: Caller) -> str:
    file = caller.service.folder / "garbage"
    file.unlink(missing_ok=True)
    os.kill(caller.service.pid, signal.SIGUSR2)
    wait_until(file.exists, SOON_S, "the service has collected")
    return file.read_text()


@pytest.fixture
def caller(service_on: ServiceOn, upstream: Upstream) -> Caller:
    env = {"MYNA_SPEECH": upstream.url, "MYNA_SPEECH_KEY": upstream.key}
    upstream.behave("status:404")  # it lists no voices
    service = service_on(None, program=("-c", PROGRAM), **env).start()
    wait_until(lambda: len(service.cli("voice", "list")) > 1, SOON_S, "the voices are known")
    upstream.behave()
    return new_caller(service, units=1000)


@pytest.mark.parametrize(
    ("path", "streams", "faults"),
    [
        (CHAT, False, WHOLE),
        (RELAY, False, WHOLE),
        (RESPONSES, False, WHOLE),
        (TTS, False, WHOLE),
        (SPEECH, False, WHOLE),
        (RELAY, True, STREAMED),
        (RESPONSES, True, sorted(event_streams.OF_RESPONSES - {"before", "pause", "silent"})),
        (SPEECH, True, WHOLE),
    ],
)  # fmt: skip
def test_failing_calls_leave_no_reference_cycles(
    caller: Caller, path: str, streams: bool, faults: tuple[str, ...]
) -> None:
    for fault in faults:
        for _ in range(TIMES):
            ask(caller, path, f"fault={fault} one", streams)
            assert ask(caller, path, "hello", streams) == 200  # so that no circuit opens
    assert garbage(caller).split("\n") == [""]


def test_clients_that_leave_a_stream_leave_no_reference_cycles(caller: Caller, upstream: Upstream) -> None:
    for _ in range(TIMES):
        body = body_of(RELAY, "fault=pause one two", streams=True)
        with EventReader(caller.service.root_url + RELAY, caller.key.plain, body) as answer:
            assert answer.next_event()
    wait_until(lambda: upstream.abandoned == TIMES, SOON_S, "the requests to the channel were ended")
    assert garbage(caller).split("\n") == [""]


def test_failing_transcriptions_leave_no_reference_cycles(caller: Caller) -> None:
    server = TranscriptionUpstream(status=500)
    caller.service.cli("channel", "add", "chat", "hears", server.url)
    caller.service.cli(
        "route", "add", "hear-1", "--units", "1", "--kind", "transcription", "--channel", "hears"
    )
    kind, body = form([("model", "hear-1")])
    url = f"{caller.service.root_url}/openai/v1/audio/transcriptions"
    for _ in range(TIMES):
        answer = call("POST", url, key=caller.key.plain, body=body, headers={"Content-Type": kind})
        assert answer.status == 500
    server.close()
    assert garbage(caller).split("\n") == [""]
