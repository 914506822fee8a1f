"""The server process is killed or stopped while it streams: the unit, and what the client sees."""

import asyncio

import asyncpg
import pytest

from tests.conformance.caller import REFUNDED, Caller, Stats
from tests.faults.conftest import ServiceOn, audited, new_caller
from tests.rig.postgres import Postgres
from tests.rig.sse import EventReader
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

SWEPT_DEADLINE_S = 60
LOCKED_S = 1.0
"""How long a locked account is seen to delay the end of a stream."""


def stream(caller: Caller, text: str) -> EventReader:
    body = {"model": "svc-chat", "stream": True, "messages": [{"role": "user", "content": text}]}
    return EventReader(f"{caller.service.root_url}/openai/v1/chat/completions", caller.key.plain, body)


@pytest.mark.parametrize("fault", ["before", "pause"])
def test_a_killed_process_leaves_a_stream_that_is_refunded_at_the_start(
    service_on: ServiceOn, upstream: Upstream, fault: str
) -> None:
    service = service_on(None, MYNA_STREAM_DEADLINE_S="3600").start()
    caller = new_caller(service, units=1)
    with stream(caller, f"fault={fault} one two") as answer:
        upstream.wait_for_requests(1)
        if fault == "pause":
            assert answer.next_event() and answer.next_event()
        service.kill()
        if fault == "pause":
            assert not answer.rest().ended and b"[DONE]" not in answer.raw
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
    caller = new_caller(living, units=1)
    there = Caller(frozen, caller.account, caller.key)
    with stream(there, "fault=pause one two") as answer:
        assert answer.next_event() and answer.next_event()
        frozen.pause()
        upstream.release()
        wait_until(lambda: caller.stats() == REFUNDED, SWEPT_DEADLINE_S, "the call is swept")
        frozen.resume()
        assert not answer.rest().ended and b"[DONE]" not in answer.raw
    assert caller.stats() == REFUNDED
    assert audited(living)


@pytest.mark.anyio
async def test_the_end_of_a_stream_waits_for_the_commit_of_its_keep(
    service_on: ServiceOn, postgres: Postgres, upstream: Upstream
) -> None:
    """Another session locks the account within the stream: the words arrive, and `[DONE]` after the lock."""
    url = postgres.fresh_database()
    service = await asyncio.to_thread(service_on(url).start)
    caller = await asyncio.to_thread(new_caller, service, units=1)
    other = await asyncpg.connect(url)
    answer = await asyncio.to_thread(stream, caller, "fault=pause one two")
    assert await asyncio.to_thread(answer.next_event) and await asyncio.to_thread(answer.next_event)
    async with other.transaction():
        await other.execute("SELECT 1 FROM accounts FOR UPDATE")
        upstream.release()
        while b'"finish_reason": "stop"' not in answer.raw:
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
    caller = new_caller(service, units=1)
    with stream(caller, "fault=pause one two") as answer:
        assert answer.next_event() and answer.next_event()
        service.terminate()
        upstream.release()
        assert answer.rest().is_done and answer.ended
    assert service.exit_code() == 0
    service.start()
    assert caller.stats() == Stats(calls=1, cost=1, ok_calls=1)


def test_a_stream_longer_than_the_grace_period_ends_with_an_error_and_is_refunded(
    service_on: ServiceOn, upstream: Upstream
) -> None:
    service = service_on(None, MYNA_SHUTDOWN_GRACE_S="0.3").start()
    caller = new_caller(service, units=1)
    with stream(caller, "fault=pause one two") as answer:
        assert answer.next_event() and answer.next_event()
        service.terminate()
        assert not answer.rest().ended
        assert answer.error["type"] == "server_error" and "shutting down" in answer.error["message"]
    assert service.exit_code() == 0
    service.start()
    assert caller.stats() == REFUNDED
    assert audited(service)
