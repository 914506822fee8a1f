"""The access log: lines are buffered, then counted and written together."""

import asyncio
import gc
import io
import json
from collections import Counter

import msgspec
import pytest
from prometheus_client import REGISTRY

from myna.telemetry import access_log as module
from myna.telemetry.access_log import AccessLog
from myna.telemetry.requests import CompletedRequest, RequestDetails

pytestmark = pytest.mark.anyio


def lines(stream: io.BytesIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def note(access: AccessLog, path: str = "/v1/me", details: RequestDetails | None = None) -> None:
    access.record(
        CompletedRequest(
            request_id="an-id",
            method="GET",
            route="/v1/me",
            path=path,
            status=200,
            seconds=0.0123,
            ended_at=1_767_225_600.0625,
            details=details or RequestDetails(),
        )
    )


def counted() -> tuple[float, float]:
    """Number of requests to /v1/me answered with 200, and of those that took at most 25 ms."""
    requests = REGISTRY.get_sample_value("myna_requests_total", {"path": "/v1/me", "status": "200"})
    quick = REGISTRY.get_sample_value("myna_request_seconds_bucket", {"path": "/v1/me", "le": "0.025"})
    return requests or 0.0, quick or 0.0


async def test_lines_are_buffered_and_written_soon() -> None:
    stream = io.BytesIO()
    access = AccessLog(stream.write)
    note(access)
    note(access, '/v1/"\n\x00')
    assert stream.getvalue() == b""
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


async def test_a_full_buffer_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFERED_MAX", 3)
    stream = io.BytesIO()
    access = AccessLog(stream.write)
    for _ in range(7):
        note(access)
    assert len(lines(stream)) == 6
    access.flush()
    assert len(lines(stream)) == 7
    access.flush()
    assert len(lines(stream)) == 7


async def test_metrics_are_updated_when_lines_are_written() -> None:
    access = AccessLog(io.BytesIO().write)
    before = counted()
    note(access)
    note(access)
    assert counted() == before
    access.flush()
    assert counted() == (before[0] + 2, before[1] + 2)


async def test_written_lines_leave_no_objects_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_EVERY_S", 0.0)
    access, flushes = AccessLog(io.BytesIO().write), 50

    async def write_and_count() -> Counter[type]:
        for _ in range(flushes):
            note(access)
            access.flush()
        await asyncio.sleep(0.01)  # the timers have fired
        gc.collect()
        return Counter(map(type, gc.get_objects()))

    await write_and_count()
    before = await write_and_count()
    more = await write_and_count() - before
    assert max(more.values(), default=0) < flushes / 2, more.most_common(3)


async def test_of_many_refusals_all_are_counted_and_some_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REFUSALS_LOGGED_MAX", 3)
    stream = io.BytesIO()
    access = AccessLog(stream.write)
    count, before = 10_000, refusals()
    for number in range(count):
        second = number // (count // 2)
        access.record(
            CompletedRequest(
                request_id="an-id",
                method="",
                route=module.REFUSED,
                path="",
                status=400,
                seconds=0.0,
                ended_at=1_767_225_600.0 + second,
                details=RequestDetails(),
            )
        )
        if number % (count // 2) == 0:
            note(access)  # an accepted request is always logged
    access.flush()
    assert refusals() - before == count
    assert [line.get("path", "") for line in lines(stream)] == ["", "/v1/me", "", "", "", "/v1/me", "", ""]
    assert REGISTRY.get_sample_value("myna_request_seconds_count", {"path": module.REFUSED}) is None


def refusals() -> float:
    counted = REGISTRY.get_sample_value("myna_requests_total", {"path": module.REFUSED, "status": "400"})
    return counted or 0.0


async def test_details_are_logged_and_ids_are_no_metric_labels() -> None:
    stream = io.BytesIO()
    access = AccessLog(stream.write)
    details = RequestDetails(
        account_id=3, key_id=7, error_type="upstream_error", units=2, channel="a-channel", replay_of="ab"
    )
    before = errors_and_channels()
    note(access, details=details)
    access.flush()
    (line,) = lines(stream)
    shown = ("account_id", "key_id", "error_type", "units", "channel", "replay_of")
    noted = {name: line[name] for name in shown}
    to_the_caller_alone = {
        "balance": 0, "ignored": "", "ignored_tools": "", "message": "", "call_id": b"", "rate_headers": {},
    }  # fmt: skip
    assert noted | to_the_caller_alone == msgspec.structs.asdict(details)
    assert "balance" not in line
    assert errors_and_channels() == (before[0] + 1, before[1] + 1)


def errors_and_channels() -> tuple[float, float]:
    """The two counters, selected by all of their labels: no account id and no key id is among them."""
    errors = {"path": "/v1/me", "type": "upstream_error"}
    channels = {"channel": "a-channel", "status": "200"}
    return (
        REGISTRY.get_sample_value("myna_request_errors_total", errors) or 0.0,
        REGISTRY.get_sample_value("myna_channel_requests_total", channels) or 0.0,
    )


async def test_requests_that_ended_with_an_error_are_handed_on() -> None:
    handed_on: list[CompletedRequest] = []
    access = AccessLog(io.BytesIO().write)
    access.on_error = handed_on.append
    note(access)
    note(access, details=RequestDetails(error_type="upstream_error"))
    access.flush()
    assert [one.details.error_type for one in handed_on] == ["upstream_error"]
