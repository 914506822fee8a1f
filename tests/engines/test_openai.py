"""Speaking through a speech server: the request, the stored file, bad answers, and disks that stall."""

import asyncio
import hashlib
import logging
import threading
from pathlib import Path

import pytest

from myna.engines.interface import (
    EngineBusy,
    EngineFailed,
    EngineTimedOut,
    EngineUnavailable,
    NothingSpoken,
    ServerBusy,
)
from myna.engines.openai.engine import OpenAISpeech
from myna.http.client import HttpClient
from myna.lib.files import QUEUE_MAX, THREADS, DiskExecutor
from tests.engines.conftest import HELLO, KEY, names, speak, speech_server
from tests.engines.speech_upstream import AUDIO_MPEG, SpeechUpstream
from tests.http_client.faulty_server import PeerConnection, answer
from tests.rig.samples import mp3
from tests.rig.waiting import LoopClock, until


async def test_the_request_has_all_fields(
    engine: OpenAISpeech, upstream: SpeechUpstream, tmp_path: Path
) -> None:
    await speak(engine, tmp_path)

    [request] = upstream.requests
    said = {"input": HELLO.text, "voice": HELLO.voice_id, "speed": 1.25}
    assert upstream.orders() == [{"model": "kokoro", "response_format": "mp3", **said}]
    assert request.header("authorization") == f"Bearer {KEY}"
    assert request.header("content-type") == "application/json"


async def test_the_audio_is_stored_unchanged_as_the_only_file(engine: OpenAISpeech, tmp_path: Path) -> None:
    spoken = await speak(engine, tmp_path)

    audio = mp3(1.0)
    assert (tmp_path / "a.mp3").read_bytes() == audio
    assert (spoken.size_bytes, spoken.sha256) == (len(audio), hashlib.sha256(audio).digest())
    assert spoken.seconds == pytest.approx(1.0, abs=0.1)
    assert len(names(tmp_path)) == 1


@pytest.mark.parametrize("streams", [False, True])
async def test_a_long_text_is_spoken_in_pieces_and_joined(
    engine: OpenAISpeech, upstream: SpeechUpstream, tmp_path: Path, streams: bool
) -> None:
    text = "山高水长。" * 2000
    relayed: list[bytes] = []

    spoken = await speak(engine, tmp_path, text, relayed if streams else None)

    inputs = [order["input"] for order in upstream.orders()]
    assert "".join(inputs) == text
    assert [len(each) for each in inputs] == [4095, 4095, 1810]
    audio = mp3(1.0) * 3
    assert (tmp_path / "a.mp3").read_bytes() == audio
    assert spoken.seconds == pytest.approx(3.0, abs=0.3)
    assert (spoken.size_bytes, spoken.sha256) == (len(audio), hashlib.sha256(audio).digest())
    assert b"".join(relayed) == (audio if streams else b"") and (len(relayed) >= 3) is streams


async def test_the_size_limit_is_for_all_pieces_together(
    engine: OpenAISpeech, upstream: SpeechUpstream, tmp_path: Path
) -> None:
    upstream.speech = answer(mp3(10.0), "200 OK", AUDIO_MPEG)
    assert 100_000 > len(mp3(10.0)) > 70_000

    with pytest.raises(EngineFailed, match="more than is taken"):
        await speak(engine, tmp_path, "a. " * 4000)

    assert len(upstream.orders()) == 3
    assert names(tmp_path) == []


HTML = b"<html>It works!</html>"
ERROR = b'{"error":{"message":"no such voice"}}'
LIMITED = b'{"base_resp":{"status_code":1002,"status_msg":"no such voice"}}'
BAD: list[tuple[str, bytes, str]] = [
    ("500", answer(ERROR, "500 Internal Server Error"), "answered 500"),
    ("401", answer(ERROR, "401 Unauthorized"), "answered 401"),
    ("500 with audio", answer(mp3(1.0), "500 Internal Server Error", AUDIO_MPEG), "answered 500"),
    ("a redirect", answer(b"", "302 Found", "Location: /v2"), "answered 302"),
    ("204", b"HTTP/1.1 204 No Content\r\n\r\n", "answered 204"),
    ("an error with 200", answer(ERROR, "200 OK", "Content-Type: application/json"), "sent application/json"),
    ("a rate limit", answer(LIMITED, "200 OK", "Content-Type: application/json"), "sent application/json"),
    ("a web page", answer(HTML, "200 OK", "Content-Type: text/html; charset=utf-8"), "sent text/html"),
    ("no type", answer(mp3(1.0)), "sent something else"),
    ("bytes", answer(mp3(1.0), "200 OK", "Content-Type: application/octet-stream"), "octet-stream"),
    ("wav", answer(b"RIFF....WAVEfmt ", "200 OK", "Content-Type: audio/wav"), "sent audio/wav"),
    ("a page that says it is mp3", answer(HTML * 100, "200 OK", AUDIO_MPEG), "isn't the mp3"),
    ("wav that says it is mp3", answer(b"RIFF" + bytes(9000), "200 OK", AUDIO_MPEG), "isn't the mp3"),
    (
        "truncated",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n" + AUDIO_MPEG.encode() + b"\r\n\r\nab",
        "broke",
    ),
    ("too long", answer(mp3(40.0), "200 OK", AUDIO_MPEG), "more than is taken"),
    ("no HTTP", b"+OK POP3 ready\r\n\r\n", "broke"),
]


@pytest.mark.parametrize("relays", [False, True])
@pytest.mark.parametrize(("data", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
async def test_a_response_that_is_not_mp3_fails_and_leaves_no_file(
    engine: OpenAISpeech, upstream: SpeechUpstream, tmp_path: Path, data: bytes, message: str, relays: bool
) -> None:
    relayed: list[bytes] = []

    async def once(peer: PeerConnection) -> None:
        await peer.send(data)

    upstream.speech = once
    with pytest.raises(EngineFailed, match=message) as failed:
        await speak(engine, tmp_path, relayed=relayed if relays else None)

    assert names(tmp_path) == relayed == []
    assert isinstance(failed.value, ServerBusy) == (LIMITED in data)
    for secret in (KEY, "no such voice", upstream.base, HELLO.text):
        assert secret not in str(failed.value)


FACTS_ALONE = (b"\xff\xfb\x90\xc4" + bytes(17) + b"Info").ljust(417, b"\0")
"""An mp3 of one frame, which has metadata and no sound."""


@pytest.mark.parametrize("relays", [False, True])
@pytest.mark.parametrize("audio", [b"", FACTS_ALONE], ids=["empty", "no sound"])
async def test_audio_without_sound_raises_nothing_spoken(
    engine: OpenAISpeech, upstream: SpeechUpstream, tmp_path: Path, audio: bytes, relays: bool
) -> None:
    relayed: list[bytes] = []
    upstream.speech = answer(audio, "200 OK", AUDIO_MPEG)
    with pytest.raises(NothingSpoken):
        await speak(engine, tmp_path, relayed=relayed if relays else None)
    assert names(tmp_path) == relayed == []


async def test_the_body_of_a_failure_is_logged_short_and_without_the_key(
    engine: OpenAISpeech, upstream: SpeechUpstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = f"bad key {KEY}\r\n".encode() + b"!" * 2000
    upstream.speech = answer(said, "429 Too Many Requests")

    with caplog.at_level(logging.WARNING), pytest.raises(EngineBusy, match="answered 429"):
        await speak(engine, tmp_path)

    [line] = [record.getMessage() for record in caplog.records if record.name == "myna.engines.openai.api"]
    assert "answered 429: 'bad key ***\\r\\n!!!!" in line
    assert KEY not in line
    assert len(line) < 560


async def test_a_slow_server_times_out_and_leaves_no_file(
    engine: OpenAISpeech, upstream: SpeechUpstream, tmp_path: Path
) -> None:
    async def stuck(peer: PeerConnection) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\n" + AUDIO_MPEG.encode() + b"\r\n\r\n" + mp3(1.0))
        await peer.until_the_client_disconnects()

    upstream.speech = stuck
    with pytest.raises(EngineTimedOut):
        await engine.speak(HELLO, tmp_path / "a.mp3", 0.3)

    await upstream.until_no_client_is_connected()
    assert names(tmp_path) == []


async def test_a_cancelled_call_leaves_no_file(
    engine: OpenAISpeech, upstream: SpeechUpstream, tmp_path: Path
) -> None:
    async def stuck(peer: PeerConnection) -> None:
        await peer.until_the_client_disconnects()

    upstream.speech = stuck
    call = asyncio.ensure_future(speak(engine, tmp_path))
    await upstream.until_requested()
    assert len(names(tmp_path)) == 1

    call.cancel()
    await asyncio.wait([call])

    assert call.cancelled()
    assert names(tmp_path) == []
    await upstream.until_no_client_is_connected()


async def test_a_folder_that_cannot_be_created_is_a_failure(engine: OpenAISpeech, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(EngineFailed, match=r"can't be written: Not a directory\.") as failed:
        await speak(engine, tmp_path / "file" / "missing")

    assert str(tmp_path) not in str(failed.value)


async def test_a_key_that_is_no_valid_header_value_is_a_failure(
    outbound: HttpClient, upstream: SpeechUpstream, tmp_path: Path
) -> None:
    with pytest.raises(EngineUnavailable) as failed:
        await speak(speech_server(outbound, upstream.base, key="密\n钥"), tmp_path)
    assert str(failed.value.__cause__) == "The header 'authorization' can't be sent."
    assert upstream.requests == []


@pytest.mark.parametrize("text", ["", " \n\t", "\ud800"])
async def test_a_blank_text_sends_no_request(
    engine: OpenAISpeech, upstream: SpeechUpstream, tmp_path: Path, text: str
) -> None:
    with pytest.raises(NothingSpoken):
        await speak(engine, tmp_path, text)

    assert upstream.requests == []


LONG_S = 600.0


async def _idle(disk: DiskExecutor) -> None:
    """Waits until every thread has finished its jobs."""
    everybody = threading.Barrier(THREADS)
    await asyncio.gather(*(disk.run(everybody.wait) for _ in range(THREADS)))
    await disk.run_metadata(lambda: None)


async def test_a_stalled_disk_is_a_timeout(
    engine: OpenAISpeech, disk: DiskExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It blocks nothing else, and leaves no file when it responds again."""
    asked, moves = threading.Event(), threading.Event()

    def block_forever(_: int) -> None:
        asked.set()
        assert moves.wait(LONG_S)

    monkeypatch.setattr("myna.lib.files.os.fsync", block_forever)
    clock = LoopClock()
    call = asyncio.create_task(engine.speak(HELLO, tmp_path / "a.mp3", LONG_S))
    await until(asked.is_set)
    clock.move(LONG_S)

    with pytest.raises(EngineTimedOut, match=r"^The disk took too long to store the audio\.$"):
        await call

    assert await asyncio.to_thread(lambda: "at once") == "at once"
    moves.set()
    await _idle(disk)
    assert names(tmp_path) == []


async def test_a_full_disk_queue_refuses_calls(
    engine: OpenAISpeech, disk: DiskExecutor, upstream: SpeechUpstream, tmp_path: Path
) -> None:
    moves = threading.Event()
    blocked = [asyncio.ensure_future(disk.run(moves.wait)) for _ in range(THREADS + QUEUE_MAX)]
    await until(disk.full)
    with pytest.raises(EngineBusy):
        await speak(engine, tmp_path)
    assert upstream.requests == [] and names(tmp_path) == []
    moves.set()
    await asyncio.gather(*blocked)
    assert (await speak(engine, tmp_path)).seconds > 0
