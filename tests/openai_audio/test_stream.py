"""Speech as a stream: what leaves when, what a client that leaves or reads slowly causes, and who pays."""

import asyncio
import base64
import gc
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from myna.engines.audio.encoders import FORMATS, RATE_HZ, Encoder
from myna.engines.interface import EngineCrashed, EngineTimedOut, SoundTooLong
from myna.engines.registry import KOKORO
from myna.speech import delivery
from myna.speech.delivery import Delivery
from myna.store.batch import CallState, TaskStatus
from tests.openai_audio.scripted_site import UNITS, Answer, Visitor, scripted_site, tone
from tests.rig.waiting import until

ONE, TWO, THREE = tone(1.0), tone(0.5), tone(0.25)


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Visitor]:
    with pytest.MonkeyPatch.context() as patched:
        async with scripted_site(tmp_path_factory.mktemp("site"), patched) as site:
            yield site


@pytest.fixture
async def visitor(site: Visitor) -> AsyncIterator[Visitor]:
    async with site.newcomer() as visitor:
        yield visitor


async def begun(visitor: Visitor, **asked: Any) -> Answer:
    """A response of which the client has got a part of the first sound."""
    answer = await visitor.speak(**asked)
    visitor.voice.say(ONE)
    await answer.head()
    assert await answer.more()
    return answer


async def test_the_first_part_arrives_while_the_second_is_not_spoken(visitor: Visitor) -> None:
    answer = await visitor.speak()
    visitor.voice.say(ONE)
    await answer.head()
    assert (answer.status, answer.headers["content-type"]) == (200, "audio/pcm")
    assert (answer.headers["x-units-cost"], answer.headers["x-units-balance"]) == ("1", str(UNITS - 1))
    assert answer.headers["x-myna-channel"] == KOKORO
    while len(answer.body) < len(ONE) - 2000:
        assert await answer.more()
    assert visitor.voice.said == 1
    visitor.voice.say(TWO, None)
    assert await answer.rest() == ONE + TWO
    assert answer.whole
    assert await visitor.balance() == UNITS - 1
    assert len(await visitor.stored()) > 1000


async def test_the_last_bytes_leave_after_the_keep(visitor: Visitor) -> None:
    answer = await visitor.speak()
    visitor.voice.say(ONE)
    await answer.head()
    await until(lambda: visitor.voice.said >= 1)
    received = b""
    while len(received) < len(ONE) - 1024:
        received += await answer.more()
    assert len(received) < len(ONE)
    status, _ = await visitor.task()
    assert status == TaskStatus.PROCESSING
    visitor.voice.say(None)
    assert await answer.rest() == ONE


async def test_an_engine_that_fails_before_a_sound_is_refunded_with_an_error(visitor: Visitor) -> None:
    answer = await visitor.speak()
    visitor.voice.say(EngineCrashed("crashed"))
    await (await answer.head()).rest()
    assert (answer.status, answer.error["type"]) == (500, "upstream_error")
    assert "refunded" in answer.error["message"]
    await visitor.balance_becomes(UNITS)


@pytest.mark.parametrize("failure", [EngineCrashed("crashed"), EngineTimedOut("too late")])
async def test_an_engine_that_fails_after_a_sound_is_refunded_and_the_connection_is_closed(
    visitor: Visitor, failure: Exception
) -> None:
    answer = await begun(visitor)
    visitor.voice.say(failure)
    await answer.rest()
    assert not answer.whole
    await visitor.balance_becomes(UNITS)
    status, audio = await visitor.task()
    assert (status, audio) == (TaskStatus.FAILED, "")
    assert await visitor.reason() == (CallState.REFUNDED, "StreamFailed")


async def test_a_streamed_text_is_limited_in_its_silence_not_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"upstream_idle_s": 0.6, "call_deadline_s": 1.0}
    async with scripted_site(tmp_path, monkeypatch, **limits) as site, site.newcomer() as visitor:
        answer = await visitor.speak()
        for _ in range(6):
            await asyncio.sleep(0.3)
            visitor.voice.say(TWO)
        visitor.voice.say(None)
        await answer.head()
        assert await answer.rest() == 6 * TWO and answer.whole
        answer = await visitor.speak()
        visitor.voice.say(ONE)
        await answer.head()
        await answer.rest()
        assert not answer.whole
        await visitor.balance_becomes(UNITS - 1)
        assert await visitor.reason() == (CallState.REFUNDED, "StreamFailed")


@pytest.mark.parametrize("broken_stream", ["keep", "refund"])
async def test_a_stream_that_breaks_off_is_freed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken_stream: str
) -> None:
    """Cycles stay in memory until the garbage collector runs."""
    caplog.set_level(logging.CRITICAL)  # records would be kept, with references to the exceptions
    async with scripted_site(tmp_path, monkeypatch, upstream_idle_s=0.3) as site, site.newcomer() as visitor:
        await visitor.set("broken_stream", broken_stream)
        gc.collect()
        gc.disable()
        try:
            await (await begun(visitor)).rest()
            await until(lambda: not any(isinstance(found, Delivery) for found in gc.get_objects()))
        finally:
            gc.enable()


async def test_the_sound_before_an_engine_fails_is_kept_if_the_site_says_so(visitor: Visitor) -> None:
    await visitor.set("broken_stream", "keep")
    answer = await begun(visitor)
    visitor.voice.say(EngineCrashed("crashed"))
    assert await answer.rest() == ONE
    assert not answer.whole
    await visitor.balance_becomes(UNITS - 1)
    assert len(await visitor.stored()) > 1000
    assert await visitor.reason() == (CallState.KEPT, "StreamFailed")


async def test_sound_over_the_limit_is_refunded_also_where_broken_streams_are_kept(visitor: Visitor) -> None:
    await visitor.set("broken_stream", "keep")
    answer = await begun(visitor)
    visitor.voice.say(SoundTooLong("too long"))
    await answer.rest()
    assert not answer.whole
    await visitor.balance_becomes(UNITS)


async def test_a_client_that_leaves_after_a_sound_pays_and_the_text_is_spoken_whole(visitor: Visitor) -> None:
    answer = await begun(visitor)
    answer.connection.reset()
    visitor.voice.say(TWO, THREE, None)
    await visitor.balance_becomes(UNITS - 1)
    assert visitor.voice.said == 3
    assert await visitor.reason() == (CallState.KEPT, "")
    left_behind = await visitor.stored()
    whole = await visitor.speak()
    visitor.voice.say(ONE, TWO, THREE, None)
    await (await whole.head()).rest()
    assert left_behind == await visitor.stored()


async def test_a_client_that_leaves_before_a_sound_is_refunded(visitor: Visitor) -> None:
    answer = await visitor.speak()
    await until(lambda: visitor.voice.asked == 1)
    answer.connection.reset()
    await until(lambda: not visitor.server.server_state.connections)
    visitor.voice.say(ONE)
    await visitor.balance_becomes(UNITS)
    assert visitor.voice.ended == 1
    assert await visitor.reason() == (CallState.REFUNDED, "ClientDisconnected")


async def test_a_repeated_request_for_a_kept_broken_sound_breaks_off_again(visitor: Visitor) -> None:
    await visitor.set("broken_stream", "keep")
    headers = {"Idempotency-Key": "broken"}
    answers = []
    for _ in range(2):
        answer = await visitor.speak(headers=headers, response_format="mp3")
        if not answers:
            visitor.voice.say(ONE, EngineCrashed("crashed"))
        answers.append(await (await answer.head()).rest())
        assert answer.status == 200 and not answer.whole
    assert len(answers[0]) > 1000 and len(answers[1]) > 1000
    await visitor.balance_becomes(UNITS - 1)


async def test_an_encoder_that_fails_is_refunded(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Encoder:
        raise OSError(12, "Cannot allocate memory")

    opus = structs.replace(FORMATS["opus"], encoder=refuse)
    monkeypatch.setattr(delivery, "FORMATS", {**FORMATS, "opus": opus})
    answer = await visitor.speak(response_format="opus")
    visitor.voice.say(ONE, None)
    await (await answer.head()).rest()
    assert (answer.status, answer.error["type"]) == (500, "upstream_error")
    await visitor.balance_becomes(UNITS)


async def test_a_format_without_its_extra_is_refused(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    answer = await visitor.speak(response_format="aac")
    await (await answer.head()).rest()
    assert (answer.status, answer.error["param"]) == (400, "response_format")
    assert "aac needs Myna's extra 'm4a'" in answer.error["message"]
    await visitor.balance_becomes(UNITS)


async def test_a_slow_reader_does_not_slow_the_engine_down(visitor: Visitor) -> None:
    parts = [tone(20.0)] * 6  # 5.8 MB, more than the sockets buffer
    answer = await visitor.speak()
    visitor.voice.say(*parts, None)
    await answer.head()
    await until(lambda: bool(visitor.voice.ended))
    await visitor.balance_becomes(UNITS - 1)
    assert (await visitor.task())[0] == TaskStatus.COMPLETED
    assert len(answer.body) == 0
    assert await answer.rest() == b"".join(parts)
    assert answer.whole


async def test_a_repeated_request_gets_the_stored_sound_in_the_same_format(visitor: Visitor) -> None:
    headers = {"Idempotency-Key": "one"}
    answer = await visitor.speak(headers=headers, response_format="mp3")
    visitor.voice.say(ONE, TWO, None)
    await (await answer.head()).rest()
    again = await visitor.speak(headers=headers, response_format="mp3")
    await (await again.head()).rest()
    assert (again.status, again.whole, again.headers["x-units-cost"]) == (200, True, "0")
    assert "x-myna-channel" not in again.headers
    assert again.body == await visitor.stored()
    assert visitor.voice.asked == 1
    assert await visitor.balance() == UNITS - 1


async def test_times_of_words_come_with_their_sound_and_again_with_the_stored_one(visitor: Visitor) -> None:
    asked = {"headers": {"Idempotency-Key": "one"}, "timestamps": True, "stream": True}
    answer = await visitor.speak(**asked)
    visitor.voice.say(ONE)
    await answer.head()
    assert answer.headers["content-type"] == "application/x-ndjson"
    first = json.loads(await answer.more())
    told = [{"word": f"word{part}", "start_time": part - 1.0, "end_time": part - 0.5} for part in (1, 2)]
    assert (first["timestamps"], first["audio_format"]) == (told[:1], "audio/pcm")
    visitor.voice.say(TWO, None)
    await answer.rest()
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert [word for line in lines for word in line["timestamps"]] == told
    assert b"".join(base64.b64decode(line["audio"]) for line in lines) == ONE + TWO
    again = await (await visitor.speak(**asked)).head()
    assert json.loads((await again.rest()).splitlines()[0])["timestamps"] == told


async def test_a_copy_waits_for_the_first_request_and_gets_its_sound(visitor: Visitor) -> None:
    headers = {"Idempotency-Key": "one"}
    answer = await visitor.speak(headers=headers)
    visitor.voice.say(ONE)
    await answer.head()
    copy = await visitor.speak(headers=headers)
    visitor.voice.say(TWO, None)
    await answer.rest()
    await (await copy.head()).rest()
    assert (copy.status, copy.whole) == (200, True)
    assert abs(len(copy.body) - len(answer.body)) < RATE_HZ * 2 * 0.2  # it was decoded from the record's mp3
    assert await visitor.balance() == UNITS - 1


@pytest.mark.parametrize("timed", [False, True])
async def test_events_have_the_sound_in_base64_and_end_with_the_usage(visitor: Visitor, timed: bool) -> None:
    answer = await visitor.speak("你好。", stream_format="sse", return_timestamps=timed)
    visitor.voice.say(ONE, TWO, None)
    await (await answer.head()).rest()
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = answer.body.decode().split("\n\n")
    assert lines.pop() == ""
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == ONE + TWO
    assert all(("timestamps" in event) == timed for event in events[:-1])
    usage = {"input_tokens": 3, "output_tokens": 0, "total_tokens": 3}
    assert events[-1] == {"type": "speech.audio.done", "usage": usage}


async def test_events_tell_of_a_failure_and_of_the_refund(visitor: Visitor) -> None:
    answer = await begun(visitor, stream_format="sse")
    visitor.voice.say(EngineCrashed("crashed"))
    await answer.rest()
    assert not answer.whole
    last = answer.body.decode().strip().split("\n\n")[-1]
    assert last.startswith("event: error\ndata: ") and "The call was refunded" in last
    assert "speech.audio.done" not in answer.body.decode()
    assert await visitor.balance() == UNITS
