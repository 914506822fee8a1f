"""Handlers of /farm/v1, except `complete`."""

import asyncio

from msgspec import Struct, structs

from myna.accounts.key_throttle import KeyThrottle
from myna.api.farm.auth import ConcurrencyLimits, NodeAuth
from myna.api.farm.uploads import Uploads
from myna.engines.media.media import Inspector
from myna.errors import DatabaseUnavailable, InvalidRequest, NotFound
from myna.farm.nodes import Nodes
from myna.farm.tasks import Tasks
from myna.http.asgi import Routes
from myna.http.request import Request
from myna.http.responses import Response
from myna.settings import Settings
from myna.store.database import Database
from myna.store.files.named_files import AudioStore, SampleStore
from myna.store.files.storage import FreeSpace
from myna.store.queries.farm.nodes import NodeRow
from myna.wire.body import to_json
from myna.wire.farm import (
    POLL_MAX_S,
    PREFIX,
    Done,
    Failure,
    Heartbeats,
    HeartbeatsAnswer,
    Hello,
    Job,
    Join,
    Joined,
    Lease,
    Leased,
    Welcome,
)

NO_REASON = "the node gave no reason"
STOPPING_CHECK_S = 1.0
"""How often an open poll checks whether the process is shutting down."""


class FarmApi:
    """Handlers of the endpoints for compute nodes."""

    def __init__(
        self,
        settings: Settings,
        db: Database,
        nodes: Nodes,
        tasks: Tasks,
        audio: AudioStore,
        samples: SampleStore,
        inspector: Inspector,
        space: FreeSpace,
        throttle: KeyThrottle,
    ) -> None:
        self._lease_s = settings.lease_s
        self._beat_s = settings.beat_s
        self._db = db
        self._nodes = nodes
        self._tasks = tasks
        self._samples = samples
        self._node_auth = NodeAuth(db, nodes, settings.charge_wait_s, throttle)
        self._in_flight = ConcurrencyLimits()
        self._uploads = Uploads(
            node_auth=self._node_auth, tasks=tasks, audio=audio, inspector=inspector, space=space
        )

    def routes(self) -> Routes:
        """By exact path."""
        handlers: Routes = {
            f"{PREFIX}/hello": {"POST": self.hello},
            f"{PREFIX}/lease": {"POST": self.lease},
            f"{PREFIX}/beat": {"POST": self.beat},
            f"{PREFIX}/reference": {"GET": self.reference},
            f"{PREFIX}/complete": {"POST": self._uploads.complete},
            f"{PREFIX}/fail": {"POST": self.fail},
        }
        limited = {
            path: {method: self._in_flight.limited(handler) for method, handler in methods.items()}
            for path, methods in handlers.items()
        }
        return {f"{PREFIX}/join": {"POST": self.join}, **limited}

    async def join(self, request: Request) -> Response:
        body = await self._node_auth.unauthenticated_body(request, Join)
        _check_printable("version", body.version)
        with self._in_flight.join():
            joined = await self._node_auth.join(request, body)
        return _answer(Joined(joined.credential, joined.name))

    async def hello(self, request: Request) -> Response:
        node, hello = await self._node_auth.node_and_body(request, Hello)
        _check_offer(hello)
        await self._node_auth.in_time(self._nodes.hello(node, hello))
        return _answer(
            Welcome(name=node.name, lease_s=self._lease_s, beat_s=self._beat_s, poll_max_s=POLL_MAX_S)
        )

    async def lease(self, request: Request) -> Response:
        node, body = await self._node_auth.node_and_body(request, Lease)
        await self._node_auth.in_time(self._nodes.record_request(node))
        forget = await self._node_auth.in_time(self._tasks.unused_samples(body.references))
        wait_s = 0.0 if forget else body.wait_s  # deleted samples are reported without delay
        polling = asyncio.ensure_future(self._poll(request, node, body.jobs, wait_s))
        disconnected = asyncio.ensure_future(request.disconnected())
        try:
            while not polling.done() and not disconnected.done() and not request.stopping:
                await asyncio.wait(
                    {polling, disconnected}, timeout=STOPPING_CHECK_S, return_when=asyncio.FIRST_COMPLETED
                )
            if not polling.done():  # disconnected, or shutting down: lease no job
                return _answer(Leased([], forget))
            found = await polling
            if found and disconnected.done():  # the node would not receive them
                await self._tasks.requeue(node.id, found)
                found = []
            return _answer(Leased(found, forget))
        finally:
            for waiting in (polling, disconnected):
                waiting.cancel()
            await asyncio.gather(polling, disconnected, return_exceptions=True)

    async def beat(self, request: Request) -> Response:
        node, body = await self._node_auth.node_and_body(request, Heartbeats)
        if node.heard_at:  # a node that shuts down may still have jobs, and stays offline
            await self._node_auth.in_time(self._nodes.record_request(node))
        cancel = await self._node_auth.in_time(self._tasks.beat(node.id, body.beats))
        return _answer(HeartbeatsAnswer(self._lease_s, cancel))

    async def reference(self, request: Request) -> Response:
        node = await self._node_auth.verify(request)
        name = await self._node_auth.in_time(self._tasks.reference(node.id, _sha256(request)))
        stored = await asyncio.to_thread(self._samples.stat, name) if name else None
        if not name or stored is None:
            raise NotFound("No job that this node has leased uses such a sample.")
        sample = await asyncio.to_thread(self._samples.read, name, 0, stored.size_bytes)
        return Response(sample, media_type=b"audio/wav")

    async def fail(self, request: Request) -> Response:
        node, failure = await self._node_auth.node_and_body(request, Failure)
        await self._tasks.fail(node.id, structs.replace(failure, reason=_one_line(failure.reason)))
        return _answer(Done())

    async def _poll(self, request: Request, node: NodeRow, jobs: int, wait_s: float) -> list[Job]:
        """Leases jobs; returns none after `wait_s`. Authenticates the node again after the lease: the jobs of
        a node that was disabled during the poll are requeued."""
        try:
            found = await self._tasks.lease(node.id, jobs, wait_s)
        except self._db.unavailable:
            raise DatabaseUnavailable from None
        try:
            await self._node_auth.verify(request)
        except BaseException:
            if found:
                await self._tasks.requeue(node.id, found)
            raise
        return found


def _answer(struct: Struct) -> Response:
    return Response(to_json(struct))


def _check_offer(hello: Hello) -> None:
    """Raises InvalidRequest for an invalid offer."""
    _check_printable("version", hello.version)
    voices = {voice.voice_id: voice for voice in hello.voices}
    if len(voices) < len(hello.voices):
        raise InvalidRequest("duplicate voice_id; send each once.", field="voices")
    if len(set(hello.clones)) < len(hello.clones):
        raise InvalidRequest("duplicate language; send each once.", field="clones")
    for voice in hello.voices:
        _check_printable("voices: name", voice.name)


def _check_printable(field: str, text: str) -> None:
    if not text.isprintable():
        raise InvalidRequest("must be printable.", field=field)


def _one_line(reason: str) -> str:
    """The failure message of a node as one printable line."""
    return "".join(char if char.isprintable() else " " for char in reason).strip() or NO_REASON


def _sha256(request: Request) -> bytes:
    text = request.query().get("sha256", "")
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise InvalidRequest("must be 64 hex digits.", field="sha256")
    return bytes.fromhex(text)
