"""The access log: gathered, then counted and written together; what can't be written stops nobody."""

import asyncio
import gc
import io
import json

import pytest
from prometheus_client import REGISTRY

from myna import access as module
from myna.access import Access, Answered

pytestmark = pytest.mark.anyio


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def note(access: Access, path: str = "/v1/me") -> None:
    access.note(Answered("an-id", "GET", "/v1/me", path, 200, 0.0123, 1_767_225_600.0625))


def counted() -> tuple[float, float]:
    """Requests to /v1/me answered with 200, and how many of them took at most 25 ms."""
    requests = REGISTRY.get_sample_value("myna_requests_total", {"path": "/v1/me", "status": "200"})
    quick = REGISTRY.get_sample_value("myna_request_seconds_bucket", {"path": "/v1/me", "le": "0.025"})
    return requests or 0.0, quick or 0.0


async def test_access_lines_are_gathered_and_written_soon() -> None:
    stream = io.StringIO()
    access = Access(stream)
    note(access)
    note(access, '/v1/"\n\x00')
    assert stream.getvalue() == ""
    async with asyncio.timeout(10):
        while not stream.getvalue():  # noqa: ASYNC110 - a timer of the event loop writes
            await asyncio.sleep(0.01)
    first, second = lines(stream)
    assert first == {
        "time": "2026-01-01T00:00:00.062Z",
        "level": "info",
        "logger": "access",
        "request_id": "an-id",
        "method": "GET",
        "path": "/v1/me",
        "status": 200,
        "ms": 12.3,
    }
    assert second["path"] == '/v1/"\n\x00'


async def test_many_lines_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHERED_MAX", 3)
    stream = io.StringIO()
    access = Access(stream)
    for _ in range(7):
        note(access)
    assert len(lines(stream)) == 6
    access.flush()
    assert len(lines(stream)) == 7
    access.flush()
    assert len(lines(stream)) == 7


async def test_a_log_that_cannot_be_written_stops_no_request_and_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "GATHERED_MAX", 2)
    stream = io.StringIO()
    access = Access(stream)
    stream.close()
    for _ in range(5):
        note(access)
    access.flush()
    assert access._gathered == []


async def test_what_is_written_is_counted_at_the_same_time() -> None:
    access = Access(io.StringIO())
    before = counted()
    note(access)
    note(access)
    assert counted() == before
    access.flush()
    assert counted() == (before[0] + 2, before[1] + 2)


async def test_nothing_of_what_was_written_is_held_on_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_EVERY_S", 0.0)
    access, flushes = Access(io.StringIO()), 50

    async def write_and_count() -> int:
        for _ in range(flushes):
            note(access)
            access.flush()
        await asyncio.sleep(0.01)  # the timers are over
        gc.collect()
        return len(gc.get_objects())

    await write_and_count()
    before = await write_and_count()
    assert await write_and_count() - before < flushes / 2
