"""Speech by a server that sends its mp3 while it speaks: what leaves when, and who pays."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from myna.store.batch import CallState, TaskStatus
from tests.audio.test_encoders import heard
from tests.engines.speech_upstream import AUDIO_MPEG, SpeechUpstream, mp3
from tests.http_client.faulty_server import PeerConnection
from tests.openai_audio.scripted_site import UNITS, Answer, Visitor, scripted_site
from tests.rig.waiting import until

SOUND = mp3(4.0)
ONE, TWO, THREE = SOUND[:16_000], SOUND[16_000:24_000], SOUND[24_000:]
TAIL_BYTES = 1024
"""The end of the sound, which is not sent before the call is kept."""


class Server(SpeechUpstream):
    """It sends what the test says: bytes of an mp3, `END`, or `CUT`, which closes the connection."""

    END, CUT = b"", None

    def __init__(self) -> None:
        super().__init__()
        self._script: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.speech = self._send
        self.open = 0
        """How many requests have no whole answer."""
        self.disconnected = 0
        """How many of them their client has ended."""

    def forget(self) -> None:
        """No request has arrived, and nothing is to be sent."""
        self.requests.clear()
        self.disconnected = 0
        while not self._script.empty():
            self._script.get_nowait()

    def send(self, *parts: bytes | None) -> None:
        for part in parts:
            self._script.put_nowait(part)

    async def _send(self, peer: PeerConnection) -> None:
        head = f"HTTP/1.1 200 OK\r\n{AUDIO_MPEG}\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.open += 1
        await peer.send(head.encode())
        ended = asyncio.ensure_future(peer.until_the_client_disconnects())
        while True:
            following = asyncio.ensure_future(self._script.get())
            await asyncio.wait({ended, following}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done() or (part := await following) is self.CUT:
                break
            await peer.send(b"%x\r\n%b\r\n" % (len(part), part))
            if part == self.END:
                break
        self.disconnected += ended.done()
        self.open -= 1
        following.cancel()
        ended.cancel()


@pytest.fixture(scope="module")
async def shared_server() -> AsyncIterator[Server]:
    server = Server()
    yield server
    await server.close()


@pytest.fixture
async def server(shared_server: Server) -> AsyncIterator[Server]:
    shared_server.forget()
    yield shared_server
    await until(lambda: shared_server.open == 0)


@pytest.fixture(scope="module")
async def site(shared_server: Server, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Visitor]:
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("site")
        async with scripted_site(folder, patched, speech=shared_server.base) as site:
            yield site


@pytest.fixture
async def visitor(site: Visitor, server: Server) -> AsyncIterator[Visitor]:
    async with site.newcomer() as visitor:
        yield visitor


async def read(answer: Answer, count: int) -> bytes:
    """Reads at least so many bytes of the body."""
    while len(answer.body) < count:
        assert await answer.more()
    return answer.body


async def begun(visitor: Visitor, server: Server) -> Answer:
    """A response of which the client has got a part of the sound."""
    answer = await visitor.speak(response_format="mp3")
    server.send(ONE)
    await read(await answer.head(), 1)
    return answer


async def test_an_mp3_is_passed_on_while_it_arrives(visitor: Visitor, server: Server) -> None:
    answer = await visitor.speak(response_format="mp3")
    server.send(ONE)
    await answer.head()
    assert (answer.status, answer.headers["content-type"]) == (200, "audio/mpeg")
    assert await read(answer, len(ONE) - TAIL_BYTES) == ONE[:-TAIL_BYTES]
    assert (await visitor.task())[0] == TaskStatus.PROCESSING
    server.send(TWO, THREE, Server.END)
    assert await answer.rest() == SOUND
    assert answer.whole
    assert await visitor.stored() == SOUND
    await visitor.balance_becomes(UNITS - 1)
    assert await visitor.reason() == (CallState.KEPT, "")


@pytest.mark.parametrize(
    "sent",
    [
        [Server.END],
        [b"this is no mp3 " * 1000, Server.END],
        [b"<html>" * 3000, Server.CUT],
        [ONE[:1024], Server.CUT],
        [Server.CUT],
    ],
)
async def test_a_server_that_sends_no_sound_is_an_error_and_refunded(
    visitor: Visitor, server: Server, sent: list[bytes | None]
) -> None:
    await visitor.set("broken_stream", "keep")
    answer = await visitor.speak(response_format="mp3")
    server.send(*sent)
    await (await answer.head()).rest()
    assert answer.status in (400, 500)
    assert "refunded" in answer.error["message"]
    await visitor.balance_becomes(UNITS)


async def test_a_server_that_breaks_off_is_kept_with_its_sound_if_the_site_says_so(
    visitor: Visitor, server: Server
) -> None:
    await visitor.set("broken_stream", "keep")
    answer = await begun(visitor, server)
    server.send(Server.CUT)
    assert await answer.rest() == ONE
    assert not answer.whole
    await visitor.balance_becomes(UNITS - 1)
    assert await visitor.stored() == ONE
    assert await visitor.reason() == (CallState.KEPT, "StreamFailed")


async def test_sound_after_a_large_tag_is_sent_when_it_is_complete(visitor: Visitor, server: Server) -> None:
    tag = b"ID3\x04\x00\x00\x00\x04\x00\x00" + bytes(4 << 14)
    answer = await visitor.speak(response_format="mp3")
    server.send(tag, SOUND, Server.END)
    assert await (await answer.head()).rest() == tag + SOUND
    assert answer.whole


@pytest.mark.parametrize("broken_stream", ["keep", "refund"])
async def test_sound_over_the_limit_is_refunded(visitor: Visitor, server: Server, broken_stream: str) -> None:
    await visitor.set("broken_stream", broken_stream)
    await visitor.set("tts_max_sound_s", "2")
    answer = await begun(visitor, server)
    server.send(TWO, THREE, Server.END)
    await answer.rest()
    assert not answer.whole
    await visitor.balance_becomes(UNITS)


async def test_the_second_request_of_a_text_has_the_deadline_of_the_first(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted_site(tmp_path, monkeypatch, speech=server.base, stream_deadline_s=1.0) as visitor:
        await visitor.set("broken_stream", "keep")
        await visitor.set("tts_max_chars", "9000")
        await visitor.set("tts_max_sound_s", "9000")
        answer = await visitor.speak("山高水长。" * 1000, response_format="mp3")
        server.send(ONE, Server.END)
        assert await (await answer.head()).rest() == ONE
        assert len(server.orders()) == 2
        await visitor.balance_becomes(UNITS - 1)
        assert await visitor.stored() == ONE


async def test_a_client_that_leaves_before_sound_ends_the_request_and_is_refunded(
    visitor: Visitor, server: Server
) -> None:
    answer = await visitor.speak(response_format="mp3")
    await until(lambda: len(server.orders()) == 1)
    answer.connection.reset()
    await until(lambda: server.disconnected == 1)
    await visitor.balance_becomes(UNITS)


async def test_a_client_that_leaves_after_sound_pays_and_all_of_it_is_stored(
    visitor: Visitor, server: Server
) -> None:
    answer = await begun(visitor, server)
    answer.connection.reset()
    server.send(TWO, THREE, Server.END)
    await visitor.balance_becomes(UNITS - 1)
    assert await visitor.stored() == SOUND


async def test_another_format_is_made_of_the_whole_mp3(visitor: Visitor, server: Server) -> None:
    answer = await visitor.speak(response_format="wav")
    server.send(ONE, TWO)
    head = asyncio.ensure_future(answer.head())
    await asyncio.sleep(0.1)
    assert not head.done()
    server.send(THREE, Server.END)
    await head
    sound = heard(await answer.rest(), "wav")
    assert abs(len(sound) - len(heard(SOUND, "mp3"))) < 2000
    await visitor.balance_becomes(UNITS - 1)
