"""A speech server on the loopback with all faults of such servers.

Its mp3s are real. It answers like the ones that copy OpenAI's API: POST {base}/audio/speech, and a list of
voices at GET {base}/audio/voices where a test gives it one.
"""

import math
import struct
from functools import cache
from typing import Any

import lameenc
import msgspec

from tests.http_client.faulty_server import Behaviour, FaultyServer, PeerConnection, Received, answer

RATE_HZ = 24_000
AUDIO_MPEG = "Content-Type: audio/mpeg"


@cache
def mp3(seconds: float, rate_hz: int = RATE_HZ, kbps: int = 64, channels: int = 1) -> bytes:
    """A tone of 440 Hz."""
    encoder = lameenc.Encoder()
    encoder.set_channels(channels)
    encoder.set_in_sample_rate(rate_hz)
    encoder.set_out_sample_rate(rate_hz)
    encoder.set_bit_rate(kbps)
    encoder.set_quality(7)
    encoder.silence()
    tone = (int(9000 * math.sin(2 * math.pi * 440 * i / rate_hz)) for i in range(round(seconds * rate_hz)))
    pcm = b"".join(struct.pack("<h", sample) * channels for sample in tone)
    return bytes(encoder.encode(pcm)) + bytes(encoder.flush())


class SpeechUpstream:
    """The server behaves as its attributes say at the time of a request."""

    def __init__(self) -> None:
        self._faulty = FaultyServer(self._behave)
        self.base = f"http://127.0.0.1:{self._faulty.port}/v1"
        self.speech: bytes | Behaviour = answer(mp3(1.0), "200 OK", AUDIO_MPEG)
        self.voices: bytes = answer(b"no such path", "404 Not Found")

    @property
    def requests(self) -> list[Received]:
        return self._faulty.requests

    def orders(self) -> list[dict[str, Any]]:
        """The bodies of the calls for speech, in order."""
        return [msgspec.json.decode(request.body) for request in self.requests if request.body]

    async def close(self) -> None:
        await self._faulty.close()

    async def until_no_client_is_connected(self) -> None:
        await self._faulty.until(lambda: self._faulty.open == 0)

    async def until_requested(self) -> None:
        await self._faulty.until(lambda: bool(self.requests))

    async def _behave(self, peer: PeerConnection) -> None:
        while request := await peer.receive():
            if request.line.startswith("GET /v1/audio/voices"):
                await peer.send(self.voices)
            elif request.line != "POST /v1/audio/speech HTTP/1.1":
                await peer.send(answer(b"no such path", "404 Not Found"))
            elif isinstance(self.speech, bytes):
                await peer.send(self.speech)
            else:
                return await self.speech(peer)
        return None
