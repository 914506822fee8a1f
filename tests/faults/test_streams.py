"""The server process is killed or stopped while it streams: the unit, and what the client sees."""

import asyncio
import http.client
import re
from typing import Any

import asyncpg
import pytest

from demo import tiny_voices
from tests.conformance.caller import REFUNDED, Caller, Stats, make_caller
from tests.faults.conftest import ServiceOn, audited
from tests.rig.calls import EventReader
from tests.rig.postgres import Postgres
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

SWEPT_DEADLINE_S = 60
ENDS = (b"[DONE]", b"response.completed", b"speech.audio.done")
LOCKED_S = 1.0
"""How long a locked account is seen to delay the end of a stream."""


KINDS = ("chat", "responses", "speech")
"""The streams of /openai/v1. That of a response is translated from one of a chat."""
VOICE = "af_heart"
PAUSED_VOICE = """
import asyncio
from myna.cli import main
from myna.engines.kokoro.engine import Kokoro

sound = Kokoro.sound

async def paused(self, utterance, deadline_s, client):
    if {before}:
        await asyncio.Event().wait()
    async for part in sound(self, utterance, deadline_s, client):
        yield part
        if part.pcm:
            await asyncio.Event().wait()

Kokoro.sound = paused
main(["serve"])
"""
"""The program of a service whose voice never begins, or does not speak on after its first sound."""

UNSENT_SOUND = """
import asyncio
from myna.cli import main
from myna.speech.delivery import Delivery

async def unsent(self):
    await asyncio.Event().wait()

Delivery._send = unsent
main(["serve"])
"""
"""The program of a service that speaks and keeps calls, and sends nothing of their sound."""


def stream(caller: Caller, text: str, kind: str = "chat") -> EventReader:
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "chat": ("chat/completions", {"model": "svc-chat", "messages": [{"role": "user", "content": text}]}),
        "responses": ("responses", {"model": "svc-chat", "input": text}),
        "speech": ("audio/speech", {"model": "tts-1", "input": "One. Two. Three.", "stream_format": "sse"}),
    }
    path, body = calls[kind]
    url = f"{caller.service.root_url}/openai/v1/{path}"
    return EventReader(url, caller.key.plain, {"stream": True, **body})


def service_that_pauses(service_on: ServiceOn, kind: str, fault: str, **env: str) -> Service:
    """A service whose upstream or voice pauses: with `before` before the first event, with `pause` later."""
    if kind != "speech":
        return service_on(None, **env).start()
    return service_that_speaks(service_on, PAUSED_VOICE.format(before=fault == "before"), **env)


def service_that_speaks(service_on: ServiceOn, program: str, **env: str) -> Service:
    service = service_on(None, program=("-c", program), MYNA_SPEECH="kokoro", **env)
    tiny_voices.neural(service.folder / "data" / "models" / "kokoro", [VOICE])
    return service.start()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["before", "pause"])
def test_a_killed_process_leaves_a_stream_that_is_refunded_at_the_start(
    service_on: ServiceOn, fault: str, kind: str
) -> None:
    service = service_that_pauses(service_on, kind, fault, MYNA_STREAM_DEADLINE_S="3600")
    caller = make_caller(service, units=1)
    with stream(caller, f"fault={fault} one two", kind) as answer:
        wait_until(lambda: caller.stats().calls == 1, SWEPT_DEADLINE_S, "the call is charged")
        if fault == "pause":
            assert answer.next_event()
        service.kill()
        if fault == "pause":
            assert not answer.rest().ended
            assert not any(end in answer.raw for end in ENDS)
    service.start()
    assert caller.stats() == REFUNDED
    assert audited(service)


def test_a_frozen_process_withholds_the_end_of_a_stream_that_was_refunded(
    service_on: ServiceOn, postgres: Postgres, upstream: Upstream
) -> None:
    """Another process sweeps the call past its deadline; the frozen one continues, without `[DONE]`."""
    url = postgres.fresh_database()
    env = {"MYNA_STREAM_DEADLINE_S": "1", "MYNA_SWEEP_EVERY_S": "0.2"}
    living = service_on(url, **env).start()
    frozen = service_on(url, **env, MYNA_DATA=str(living.folder / "data")).start()
    caller = make_caller(living, units=1)
    there = Caller(frozen, caller.account, caller.key)
    with stream(there, "fault=pause one two") as answer:
        assert answer.next_event() and answer.next_event()
        frozen.pause()
        upstream.release()
        wait_until(lambda: caller.stats() == REFUNDED, SWEPT_DEADLINE_S, "the call is swept")
        frozen.resume()
        assert answer.rest().ended and b"[DONE]" not in answer.raw
    assert caller.stats() == REFUNDED
    assert audited(living)


async def test_the_end_of_a_stream_waits_for_the_commit_of_its_keep(
    service_on: ServiceOn, postgres: Postgres, upstream: Upstream
) -> None:
    """Another session locks the account within the stream: the words arrive, and `[DONE]` after the lock."""
    url = postgres.fresh_database()
    service = await asyncio.to_thread(service_on(url).start)
    caller = await asyncio.to_thread(make_caller, service, units=1)
    other = await asyncpg.connect(url)
    answer = await asyncio.to_thread(stream, caller, "fault=pause one two")
    assert await asyncio.to_thread(answer.next_event) and await asyncio.to_thread(answer.next_event)
    async with other.transaction():
        await other.execute("SELECT 1 FROM accounts FOR UPDATE")
        upstream.release()
        while not re.search(rb'"finish_reason": ?"stop"', answer.raw):
            assert await asyncio.to_thread(answer.next_event)
        ending = asyncio.create_task(asyncio.to_thread(answer.next_event))
        await asyncio.wait({ending}, timeout=LOCKED_S)
        assert not ending.done()
    assert await ending == b"data: [DONE]"
    answer.leave()
    await other.close()
    assert (await asyncio.to_thread(caller.stats)) == Stats(calls=1, cost=1, ok_calls=1)


def test_a_stream_ends_within_the_grace_period(service_on: ServiceOn, upstream: Upstream) -> None:
    service = service_on(None, MYNA_SHUTDOWN_GRACE_S="60").start()
    caller = make_caller(service, units=1)
    with stream(caller, "fault=pause one two") as answer:
        assert answer.next_event() and answer.next_event()
        service.terminate()
        upstream.release()
        assert answer.rest().is_done and answer.ended
    assert service.exit_code() == 0
    service.start()
    assert caller.stats() == Stats(calls=1, cost=1, ok_calls=1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_longer_than_the_grace_period_ends_with_an_error_and_is_refunded(
    service_on: ServiceOn, kind: str
) -> None:
    service = service_that_pauses(service_on, kind, "pause", MYNA_SHUTDOWN_GRACE_S="0.3")
    caller = make_caller(service, units=1)
    with stream(caller, "fault=pause one two", kind) as answer:
        assert answer.next_event()
        service.terminate()
        assert answer.rest().ended is (kind != "speech")
        assert not any(end in answer.raw for end in ENDS)
        last = answer.chunks[-1]
        error = last["response"]["error"] if kind == "responses" else last["error"]
        assert "shutting down" in error["message"]
        assert error["code" if kind == "responses" else "type"] == "server_error"
    assert service.exit_code() == 0
    service.start()
    assert caller.stats() == REFUNDED
    assert audited(service)


def test_speech_that_was_kept_gets_no_answer_that_reads_as_a_refund(service_on: ServiceOn) -> None:
    service = service_that_speaks(service_on, UNSENT_SOUND, MYNA_SHUTDOWN_GRACE_S="0.3")
    caller = make_caller(service, units=1)
    with stream(caller, "", "speech") as answer:
        wait_until(lambda: caller.stats().ok_calls == 1, SWEPT_DEADLINE_S, "the call is kept")
        service.terminate()
        with pytest.raises(http.client.RemoteDisconnected):
            _ = answer.status
    assert service.exit_code() == 0
    service.start()
    assert caller.stats() == Stats(calls=1, cost=1, ok_calls=1)
    assert audited(service)
