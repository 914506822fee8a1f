"""A speech server on the loopback with all faults of such servers.

Its mp3s are real. It answers like the ones that copy OpenAI's API: POST {base}/audio/speech, and a list of
voices at GET {base}/audio/voices where a test gives it one.
"""

from typing import Any

import msgspec

from tests.http_client.faulty_server import Behaviour, FaultyServer, PeerConnection, Received, answer
from tests.rig.samples import mp3

AUDIO_MPEG = "Content-Type: audio/mpeg"


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
