"""Transcriptions and translations: forms, channels, what is charged, and Whisper that is not installed."""

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import openai
import pytest

from myna.actions.channels import AddChannel
from myna.api.openai import SPOOLED_MAX
from myna.engines.interface import EngineBusy
from myna.errors import TooManyBodies
from myna.http.request import BodyBudget
from myna.store.database import Transaction
from myna.store.queries import config as routes_store
from myna.store.queries.config import Route, RouteKind
from tests.openai_audio.scripted_site import UNITS, Answer, Visitor, scripted_site
from tests.openai_audio.transcription_upstream import SECRET, TranscriptionUpstream
from tests.rig.actors import perform
from tests.rig.waiting import until

UPLOAD_MAX_BYTES = 300_000
RECORDING = b"RIFF" + bytes(range(256)) * 40 + b"\r\n--not-the-boundary\r\n"
MODEL = "hear-1"
COST = 3
CHANNELS = ("one", "two")
Upstreams = tuple[TranscriptionUpstream, TranscriptionUpstream]
FIELD = b"--x\r\nContent-Disposition: form-data; name=%b\r\n\r\n"


def form(
    fields: list[tuple[str, str]], recording: bytes | None = RECORDING, boundary: str = ""
) -> tuple[str, bytes]:
    """The content type and the body of a form."""
    boundary = boundary or secrets.token_hex(8)
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields
    ]
    if recording is not None:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a b.wav"\r\n'
        parts.append(head.encode() + b"Content-Type: audio/wav\r\n\r\n" + recording + b"\r\n")
    return f"multipart/form-data; boundary={boundary}", b"".join([*parts, f"--{boundary}--\r\n".encode()])


@pytest.fixture(scope="module")
def shared_upstreams() -> Iterator[Upstreams]:
    made = TranscriptionUpstream(), TranscriptionUpstream()
    yield made
    for one in made:
        one.close()


@pytest.fixture
def upstream(shared_upstreams: Upstreams) -> TranscriptionUpstream:
    shared_upstreams[0].forget()
    return shared_upstreams[0]


@pytest.fixture
def second(shared_upstreams: Upstreams) -> TranscriptionUpstream:
    shared_upstreams[1].forget()
    shared_upstreams[1].body = b'{"text":"heard by the second"}'
    return shared_upstreams[1]


@pytest.fixture(scope="module")
async def site(
    shared_upstreams: Upstreams, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Visitor]:
    """A site with two channels, whose route `hear-1` costs COST units."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("myna.gateway.transcription.whisper_is_installed", lambda: False)
        folder = tmp_path_factory.mktemp("site")
        async with scripted_site(folder, patched, upload_max_bytes=UPLOAD_MAX_BYTES) as site:
            await add_route(site, dict(zip(CHANNELS, shared_upstreams, strict=True)))
            yield site


async def add_route(site: Visitor, channels: Mapping[str, TranscriptionUpstream]) -> None:
    db = site.site.db
    for priority, (name, server) in enumerate(channels.items()):
        await perform(db, AddChannel(kind="chat", name=name, url=server.url, priority=priority))
    route = Route(
        name=MODEL,
        kind=RouteKind.TRANSCRIPTION,
        upstream_model="whisper-large",
        units=COST,
        channels=tuple(channels),
    )

    async def put(connection: Transaction) -> None:
        await routes_store.put_route(connection, route)

    await db.transaction(put)
    await site.site.config.refresh()


@pytest.fixture
async def visitor(
    site: Visitor, upstream: TranscriptionUpstream, second: TranscriptionUpstream
) -> AsyncIterator[Visitor]:
    async with site.newcomer() as visitor:
        yield visitor
    for name in CHANNELS:
        site.site.channels.circuits.succeeded(name)


async def transcribe(
    visitor: Visitor,
    *fields: tuple[str, str],
    recording: bytes | None = RECORDING,
    model: str = MODEL,
    path: str = "transcriptions",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    media_type, body = form([("model", model), *fields], recording)
    sent = {"Content-Type": media_type, **(headers or {})}
    answer = await (await visitor.post(f"/openai/v1/audio/{path}", body, sent)).head()
    await answer.rest()
    return answer


async def test_a_channel_gets_the_recording_and_the_fields_and_its_answer_is_passed_on(
    visitor: Visitor, upstream: TranscriptionUpstream
) -> None:
    fields = (("language", "zh-CN"), ("prompt", "你好"), ("temperature", "0.2"), ("odd", "1"))
    answer = await transcribe(visitor, *fields)
    assert (answer.status, answer.body) == (200, upstream.content)
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert (answer.headers["x-units-cost"], answer.headers["x-myna-channel"]) == (str(COST), "one")
    assert (await transcribe(visitor, path="translations")).status == 200
    received, translation = upstream.received
    assert received.path == "/v1/audio/transcriptions"
    assert translation.path == "/v1/audio/translations"
    assert received.file_name == "a b.wav"
    assert received.fields == {
        "model": b"whisper-large",
        "file": RECORDING,
        **{name: value.encode() for name, value in fields},
        "language": b"zh",
    }
    assert await visitor.balance() == UNITS - 2 * COST


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 503, "content": b"no"},
        {"content": b"<html>", "media_type": "text/html"},
        {"content": b'{"error":{}}'},
        {"cut": True},
    ],
)
async def test_a_channel_that_fails_is_followed_by_the_next_one(
    visitor: Visitor, upstream: TranscriptionUpstream, second: TranscriptionUpstream, fault: dict[str, object]
) -> None:
    for name, value in fault.items():
        setattr(upstream, name, value)
    answer = await transcribe(visitor)
    assert (answer.status, answer.body) == (200, second.content)
    assert answer.headers["x-myna-channel"] == "two"
    assert len(upstream.received) == len(second.received) == 1
    assert await visitor.balance() == UNITS - COST


async def test_an_error_in_json_is_no_transcript_in_text(
    visitor: Visitor, upstream: TranscriptionUpstream, second: TranscriptionUpstream
) -> None:
    upstream.content, second.content = b'{"error":{"message":"no"}}', b"heard elsewhere"
    answer = await transcribe(visitor, ("response_format", "text"))
    assert (answer.status, answer.body) == (200, second.content)
    assert answer.headers["x-myna-channel"] == "two"


REFUSAL = json.dumps({"error": {"message": SECRET, "code": "audio_too_short", "param": "file"}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "code", "param"),
    [(500, SECRET.encode(), None, None), (400, REFUSAL, "audio_too_short", "file")],
)
async def test_if_every_channel_fails_or_refuses_the_units_are_refunded(
    visitor: Visitor,
    upstream: TranscriptionUpstream,
    second: TranscriptionUpstream,
    status: int,
    body: bytes,
    code: str | None,
    param: str | None,
) -> None:
    upstream.status = second.status = status
    upstream.content = second.content = body
    answer = await transcribe(visitor)
    assert (answer.status, answer.error["code"], answer.error["param"]) == (status, code, param)
    assert "refunded" in answer.error["message"]
    assert SECRET not in answer.body.decode()
    await visitor.balance_becomes(UNITS)


async def test_a_retry_with_another_boundary_gets_the_stored_transcript(
    visitor: Visitor, upstream: TranscriptionUpstream
) -> None:
    headers = {"Idempotency-Key": "one"}
    first = await transcribe(visitor, headers=headers)
    again = await transcribe(visitor, headers=headers)
    assert (again.status, again.body, again.headers["x-units-cost"]) == (200, first.body, "0")
    assert "x-myna-channel" not in again.headers
    assert len(upstream.received) == 1
    other = await transcribe(visitor, recording=RECORDING + b"x", headers=headers)
    assert other.status == 400
    assert await visitor.balance() == UNITS - COST


WRONG_FIELDS = (
    ("response_format", "docx"),
    ("language", "Chinese"),
    ("temperature", "2"),
    ("temperature", "warm"),
    ("timestamp_granularities[]", "letter"),
    ("timestamp_granularities", "letter"),
    ("prompt", "x" * 2001),
)


async def test_a_wrong_field_is_400_and_uncharged(visitor: Visitor, upstream: TranscriptionUpstream) -> None:
    for field in WRONG_FIELDS:
        answer = await transcribe(visitor, field)
        assert (answer.status, answer.error["param"]) == (400, field[0]), field
    for recording, model, param in ((None, MODEL, "file"), (b"", MODEL, "file"), (RECORDING, "", "model")):
        answer = await transcribe(visitor, recording=recording, model=model)
        assert (answer.status, answer.error["param"]) == (400, param)
    assert not upstream.received
    assert await visitor.balance() == UNITS


async def test_a_stream_has_the_answer_of_the_channel_as_events(
    visitor: Visitor, upstream: TranscriptionUpstream
) -> None:
    upstream.content = b'{"text":"heard","usage":{"type":"duration","seconds":2}}'
    client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{visitor.port}/openai/v1", api_key=visitor.key)
    stream = await client.audio.transcriptions.create(model=MODEL, file=("a.wav", RECORDING), stream=True)
    delta, done = [event async for event in stream]
    assert (delta.type, delta.delta) == ("transcript.text.delta", "heard")
    assert done.type == "transcript.text.done" and done.text == "heard"
    assert done.usage is not None and done.usage.model_dump()["seconds"] == 2
    assert "stream" not in upstream.received[0].fields
    await client.close()
    for fields in ((("stream", "false"),), (("stream", "true"), ("response_format", "verbose_json"))):
        assert (await transcribe(visitor, *fields)).body == upstream.content


async def test_whisper_that_is_not_installed_is_404_and_the_log_says_once_what_to_do(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "myna.gateway.transcription")
    for has_library in (False, False, True, True):
        monkeypatch.setattr("myna.gateway.transcription.whisper_is_installed", lambda has=has_library: has)
        answer = await transcribe(visitor, model="whisper-1")
        assert (answer.status, answer.error["code"]) == (404, "model_not_found")
        assert answer.error["message"].startswith("model: whisper-1 is not offered on this site; ")
    without_library, without_model = caplog.messages
    assert "extra 'hear' is not installed: install it" in without_library
    assert "myna models get whisper" in without_model
    assert await visitor.balance() == UNITS


async def test_a_queue_that_is_full_after_the_charge_is_503_and_refunded(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def full(*_: object) -> None:
        raise EngineBusy

    for name, found in [("whisper_is_installed", lambda: True), ("installed", lambda *_: tmp_path)]:
        monkeypatch.setattr(f"myna.gateway.transcription.{name}", found)
    monkeypatch.setattr("myna.engines.media.media.Whisper.transcribe", full)
    answer = await transcribe(visitor, model="whisper-1")
    assert (answer.status, answer.error["type"]) == (503, "service_unavailable")
    assert "retry-after" in answer.headers and "the units were refunded" in answer.error["message"]
    await visitor.balance_becomes(UNITS)


async def test_a_recording_over_the_limit_is_413_and_is_not_read_to_its_end(visitor: Visitor) -> None:
    answer = await transcribe(visitor, recording=bytes(UPLOAD_MAX_BYTES + 1))
    assert answer.status == 413
    assert answer.headers["connection"] == "close"
    assert (await transcribe(visitor, recording=bytes(UPLOAD_MAX_BYTES))).status == 200


async def test_a_body_that_is_no_whole_form_is_400(visitor: Visitor) -> None:
    for media_type, body in (
        ("application/json", b"{}"),
        ("multipart/form-data", b"--x--\r\n"),
        ("multipart/form-data; boundary=x", b""),
        ("multipart/form-data; boundary=x", b"no boundary at all"),
        ("multipart/form-data; boundary=x", FIELD % b'"file"; filename="a"' + b"RI"),
        ("multipart/form-data; boundary=x", FIELD % b'"a"' + b"\xff\r\n--x--\r\n"),
        ("multipart/form-data; boundary=x", FIELD % b'"file"' + b"RIFF\r\n--x--\r\n"),
    ):
        sent = {"Content-Type": media_type}
        answer = await (await visitor.post("/openai/v1/audio/transcriptions", body, sent)).head()
        await answer.rest()
        assert answer.status == 400, (media_type, body)
    assert b"has no file name" in answer.body
    assert await visitor.balance() == UNITS


async def test_a_wrong_key_is_401_before_the_recording_is_read(visitor: Visitor) -> None:
    media_type, _ = form([])
    headers = {
        "Content-Type": media_type,
        "Authorization": "Bearer myna_" + 40 * "0",
        "Content-Length": "200000",
    }
    answer = await (await visitor.post("/openai/v1/audio/transcriptions", b"", headers)).head()
    await answer.rest()
    assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
    assert visitor.spooled() == []


async def test_an_account_leaves_room_for_the_recordings_of_others(visitor: Visitor) -> None:
    path, head = "/openai/v1/audio/transcriptions", {"Content-Type": form([])[0]}
    keys = [visitor.key, await visitor.another_key()] * (SPOOLED_MAX // 8)
    async with visitor.newcomer() as other:
        for key in keys:
            sent = {**head, "Content-Length": str(UPLOAD_MAX_BYTES), "Authorization": f"Bearer {key}"}
            await visitor.post(path, b"", sent)
        await until(lambda: len(visitor.spooled()) == len(keys))
        assert ((await transcribe(visitor)).status, (await transcribe(other)).status) == (503, 200)
        await visitor.close()
        await until(lambda: visitor.spooled() == [])


async def test_a_client_that_leaves_while_it_sends_leaves_no_file(visitor: Visitor) -> None:
    media_type, body = form([("model", MODEL)])
    headers = {"Content-Type": media_type, "Content-Length": str(len(body))}
    answer = await visitor.post("/openai/v1/audio/transcriptions", body[:-100], headers)
    await until(lambda: len(visitor.spooled()) == 1)
    answer.connection.reset()
    await until(lambda: visitor.spooled() == [])
    assert await visitor.balance() == UNITS


async def test_a_client_that_leaves_ends_the_request_to_the_channel_and_is_refunded(
    visitor: Visitor, upstream: TranscriptionUpstream, second: TranscriptionUpstream
) -> None:
    upstream.hang = True
    media_type, body = form([("model", MODEL)])
    answer = await visitor.post("/openai/v1/audio/transcriptions", body, {"Content-Type": media_type})
    await until(lambda: len(upstream.received) == 1)
    assert await visitor.balance() == UNITS - COST
    answer.connection.reset()
    await until(lambda: upstream.abandoned == 1)
    await visitor.balance_becomes(UNITS)
    assert second.received == []
    await until(lambda: visitor.spooled() == [])


async def test_a_recording_without_memory_is_refused_before_the_charge(
    visitor: Visitor, upstream: TranscriptionUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: BodyBudget, account_id: int, size_bytes: int) -> None:
        raise TooManyBodies

    monkeypatch.setattr("myna.gateway.transcription.BodyBudget.take", full)
    answer = await transcribe(visitor)
    assert answer.status == 503 and "nothing was charged" in answer.error["message"]
    assert upstream.received == []
    assert await visitor.balance() == UNITS


async def test_openai_python_transcribes(
    visitor: Visitor, upstream: TranscriptionUpstream, tmp_path: Path
) -> None:
    path = tmp_path / "speech.wav"
    path.write_bytes(RECORDING)
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{visitor.port}/openai/v1", api_key=visitor.key)
    heard = await asyncio.to_thread(client.audio.transcriptions.create, model=MODEL, file=path, language="en")
    assert heard.text == "heard elsewhere"
    verbose = {"task": "transcribe", "language": "english", "duration": 1.5, "text": "hi", "segments": []}
    upstream.content = json.dumps(verbose).encode()
    heard = await asyncio.to_thread(
        client.audio.transcriptions.create,
        model=MODEL,
        file=path,
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )
    assert (heard.text, heard.duration) == ("hi", 1.5)
    upstream.content = b"plain\n"
    plain = await asyncio.to_thread(
        client.audio.transcriptions.create, model=MODEL, file=path, response_format="text"
    )
    assert str(plain) == "plain\n"
