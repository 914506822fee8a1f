"""Handlers of /farm/v1, but for `complete`."""

import asyncio
import time

from msgspec import Struct, structs

from myna.edge import Request, Response, Routes
from myna.engines.listener import Listener
from myna.errors import DatabaseAway, InvalidRequest, NotFound
from myna.farm.door import Door
from myna.farm.upload import Uploads
from myna.nodes import Nodes
from myna.settings import Settings
from myna.store.audio import AudioStore
from myna.store.database import Database
from myna.store.nodes import NodeRow, Offer, OfferedVoice
from myna.store.samples import SampleStore
from myna.tasks import Tasks
from myna.wire.encode import to_json
from myna.wire.farm import (
    POLL_MAX_S,
    PREFIX,
    Beats,
    BeatsHeard,
    Done,
    Failure,
    Hello,
    Job,
    Join,
    Joined,
    Lease,
    Leased,
    Welcome,
)

NO_REASON = "the node didn't say why"
LOOK_EVERY_S = 1.0
"""How soon an open poll notices that its node isn't let in any more, or that the process ends."""


class FarmApi:
    """What compute nodes ask of the site."""

    def __init__(
        self,
        settings: Settings,
        db: Database,
        nodes: Nodes,
        tasks: Tasks,
        audio: AudioStore,
        samples: SampleStore,
        listener: Listener,
    ) -> None:
        self._lease_s, self._beat_s = settings.lease_s, settings.beat_s
        self._db, self._nodes, self._tasks, self._samples = db, nodes, tasks, samples
        self._door = Door(db, nodes, settings.charge_wait_s)
        self._uploads = Uploads(self._door, tasks, audio, listener)

    def routes(self) -> Routes:
        """By exact path."""
        return {
            f"{PREFIX}/join": {"POST": self.join},
            f"{PREFIX}/hello": {"POST": self.hello},
            f"{PREFIX}/lease": {"POST": self.lease},
            f"{PREFIX}/beat": {"POST": self.beat},
            f"{PREFIX}/reference": {"GET": self.reference},
            f"{PREFIX}/complete": {"POST": self._uploads.complete},
            f"{PREFIX}/fail": {"POST": self.fail},
        }

    async def join(self, request: Request) -> Response:
        asked = await self._door.stranger(request, Join)
        _check_printable("version", asked.version)
        joined = await self._door.wait(self._nodes.join(asked.token, asked.version))
        return _answer(Joined(joined.credential, joined.name))

    async def hello(self, request: Request) -> Response:
        node, hello = await self._door.asked(request, Hello)
        await self._door.wait(self._nodes.hello(node, _offer(hello)))
        return _answer(Welcome(node.name, self._lease_s, self._beat_s, POLL_MAX_S))

    async def lease(self, request: Request) -> Response:
        node, asked = await self._door.asked(request, Lease)
        await self._door.wait(self._nodes.heard(node))
        forget = await self._door.wait(self._tasks.forgotten(asked.references))
        wait_s = 0.0 if forget else asked.wait_s  # what was deleted goes without delay
        polling = asyncio.ensure_future(self._poll(request, node, asked.jobs, wait_s))
        gone = asyncio.ensure_future(request.gone())
        try:
            await asyncio.wait({polling, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not polling.done():
                return Response(b"")  # nobody is there to hear it, so no job is taken either
            return _answer(Leased(await polling, forget))
        finally:
            for waiting in (polling, gone):
                waiting.cancel()
            await asyncio.gather(polling, gone, return_exceptions=True)

    async def beat(self, request: Request) -> Response:
        node, asked = await self._door.asked(request, Beats)
        if node.heard_at:  # one that said goodbye may still be at something, and stays offline
            await self._door.wait(self._nodes.heard(node))
        cancel = await self._door.wait(self._tasks.beat(node.id, asked.beats))
        return _answer(BeatsHeard(self._lease_s, cancel))

    async def reference(self, request: Request) -> Response:
        node = await self._door.node(request)
        name = await self._door.wait(self._tasks.reference(node.id, _sha256(request)))
        path = await asyncio.to_thread(self._samples.find, name) if name else None
        if path is None:
            raise NotFound("No job that this node holds refers to such a sample.")
        return Response(await asyncio.to_thread(path.read_bytes), media_type=b"audio/wav")

    async def fail(self, request: Request) -> Response:
        node, failure = await self._door.asked(request, Failure)
        await self._tasks.fail(node.id, structs.replace(failure, reason=_line(failure.reason)))
        return _answer(Done())

    async def _poll(self, request: Request, node: NodeRow, jobs: int, wait_s: float) -> list[Job]:
        """Jobs, or none after `wait_s`. Looks at the node again and again, and last of all behind the lease:
        who isn't let in any more hears of no job."""
        until = time.monotonic() + wait_s
        while True:
            left = max(0.0, until - time.monotonic())
            try:
                found = await self._tasks.lease(node.id, jobs, min(left, LOOK_EVERY_S))
            except self._db.away:
                raise DatabaseAway from None
            node = await self._door.node(request)
            leaves = node.draining or not node.heard_at or request.stopping
            if found or leaves or left <= LOOK_EVERY_S:
                return found


def _answer(struct: Struct) -> Response:
    return Response(to_json(struct).encode())


def _offer(hello: Hello) -> Offer:
    """Raises InvalidRequest for what can't be offered."""
    _check_printable("version", hello.version)
    voices = {voice.voice_id: voice for voice in hello.voices}
    if len(voices) < len(hello.voices):
        raise InvalidRequest("voices: each voice_id may stand there once.")
    if len(set(hello.clones)) < len(hello.clones):
        raise InvalidRequest("clones: each language may stand there once.")
    for voice in hello.voices:
        _check_printable("voices: name", voice.name)
    return Offer(
        [OfferedVoice(voice.voice_id, voice.name, voice.gender, voice.language) for voice in hello.voices],
        hello.clones,
        hello.slots,
        hello.chars_per_s,
        hello.version,
        hello.leaving,
    )


def _check_printable(field: str, text: str) -> None:
    if not text.isprintable():
        raise InvalidRequest(f"{field}: must be printable.")


def _line(reason: str) -> str:
    """What a program says of its failure, as one line that can be stored and shown."""
    return "".join(char if char.isprintable() else " " for char in reason).strip() or NO_REASON


def _sha256(request: Request) -> bytes:
    text = request.query().get("sha256", "")
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise InvalidRequest("sha256: must be 64 hex digits.")
    return bytes.fromhex(text)
