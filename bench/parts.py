"""Where a call's microseconds go: each layer of a chat call by itself, without a socket and with an upstream
that answers at once. `python -m bench parts` prints the table; a layer contains those indented below it.

What the table leaves out is the rest of `CPU s/1,000` in the large table: sockets, HTTP, the event loop, and
caches that are less warm than here.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import uvloop

from bench import fill, processes, results
from bench.commits import charge_of
from bench.fill import Size
from bench.floor import Floor
from bench.load import CHAT_BODY, CHAT_PATH, KEY_FORMAT
from bench.results import Machine, Table
from myna import settings
from myna.accounts.keys import Scope, UnverifiedCaller, hash_of
from myna.accounts.throttle import KeyThrottle
from myna.api.auth import KeyAuth
from myna.api.v1 import V1Api, unit_headers
from myna.billing.ledger import Call
from myna.engines.pool.admission import Slot
from myna.gateway.failover import ChannelClient
from myna.gateway.relay.relay import Relay
from myna.gateway.relay.v1 import V1_CHAT
from myna.http.asgi import Application
from myna.http.client import ClientResponse, HttpClient
from myna.http.request import BodyBudget, BodyLimits, Request
from myna.http.responses import Response
from myna.lib.telemetry.access_log import AccessLog
from myna.server.service import Service
from myna.store import sqlite_batch
from myna.store.batch import CallState, Charge, End
from myna.store.group_commit import GroupCommit
from myna.store.sqlite import Sqlite, SqliteConnection, clock_ms

IN_MEMORY = Path("/dev/shm")  # noqa: S108  made unique below
REPEATED, TRIES = 1000, 15
MANY = 32
WITHOUT_STORE = "a call with a constant store, in all"
SAID = (
    b'{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"The quick'
    b' brown fox jumps over the lazy dog."}}]}'
)
BODY = CHAT_BODY.encode()
BEARER = f"Bearer {KEY_FORMAT % 1}".encode()
HEADERS = [(b"host", b"127.0.0.1"), (b"authorization", BEARER), (b"content-length", b"%d" % len(BODY))]

Work = Callable[[], Awaitable[object]]


class Parts(msgspec.Struct):
    """Microseconds by layer, the minimum of many tries, since other load on the machine only adds time."""

    machine: Machine
    micros: dict[str, float]


class Instant(HttpClient):
    """An upstream that answers without I/O."""

    async def request(self, *_: Any, **__: Any) -> ClientResponse:
        return ClientResponse(200, (), SAID)


def measure() -> Parts:
    """On the core of the program under test, and a database in memory, so that no disk is in it."""
    on_its_core = processes.pinned(processes.cores().program)
    with on_its_core, tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        folder = Path(name)
        asyncio.run(fill.fill("", folder, Size()))
        micros = uvloop.run(_all(folder))
        return Parts(results.machine(folder), micros)


def table(found: dict[str, Any]) -> Table:
    """The table for the page and the terminal."""
    return Table(["layer", "us"], [[name, f"{micros:.1f}"] for name, micros in found["micros"].items()])


async def _all(folder: Path) -> dict[str, float]:
    environ = {"MYNA_DATA": str(folder), "MYNA_SPEECH": "none", "MYNA_CHAT_URL": "http://127.0.0.1:9/v1"}
    found, _ = settings.load(environ)
    async with Floor.running(found, environ) as service:
        micros = await _layers(service)
        assert isinstance(service.db, Sqlite)
        micros |= await _store(service.db, service.config.current.version)
        return micros


async def _layers(service: Service) -> dict[str, float]:
    channel_client = ChannelClient(service.settings, service.channels, Instant(connections_max=1))
    relay = Relay(channel_client, service.ledger, service.config, service.synthesizer, unit_headers)
    key_auth = KeyAuth(service.db, service.config, 1.0, KeyThrottle())
    api = V1Api(
        key_auth=key_auth,
        db=service.db,
        config=service.config,
        channels=service.channels,
        capacity=service.capacity,
        relay=relay,
        planner=service.relay_planner,
        synthesizer=service.synthesizer,
    )
    limits = BodyLimits(
        body_max_bytes=service.settings.body_max_bytes,
        body_timeout_s=service.settings.body_timeout_s,
        budget=BodyBudget(service.settings.bodies_max_bytes, service.settings.body_max_bytes),
    )
    caller = UnverifiedCaller(hash_of(KEY_FORMAT % 1), Scope.CHAT)

    plan, client = partial(service.relay_planner.plan, V1_CHAT, caller, BODY), _request(limits)

    async def answered(_: Request) -> Response:
        return Response(b"{}")

    async def admitted() -> None:
        order = (await plan(Slot())).order
        for _ in range(REPEATED):
            charged = await service.ledger.charge(caller, order, service.config.current)
            assert isinstance(charged, Call)
            async with charged as call:
                await call.keep("")

    access = AccessLog(len)
    whole = Application(
        routes={CHAT_PATH: {"POST": api.completions}}, fallback=_never, limits=limits, access=access
    )
    edge = Application(routes={CHAT_PATH: {"POST": answered}}, fallback=_never, limits=limits, access=access)
    return {
        WITHOUT_STORE: await _least(lambda: _request(limits).run(whole.serve)),
        "· edge: route, envelope, metrics, access log": await _least(
            lambda: _request(limits).run(edge.serve)
        ),
        "· key: headers, key's hash, body": await _least(
            lambda: key_auth.caller_and_body(_request(limits), Scope.CHAT)
        ),
        "· chat: all after the key": await _least(lambda: relay.answer(caller, plan, client)),
        "· · plan: JSON, intent, channels": await _least(lambda: plan(Slot())),
        "· · ledger: charge and keep, constants": await _of_many(admitted),
    }


async def _store(db: Sqlite, version: int) -> dict[str, float]:
    """Charge and keep on real SQLite: alone, through the writer's thread, through group commit; then many."""
    commits = GroupCommit(db, queue_max=4 * MANY)
    commits.start()

    def charge(number: int) -> Charge:
        return charge_of(number % Size().keys + 1, version)

    def pairs() -> None:
        for number in range(REPEATED):
            one = charge(number)
            for ends, charges in (([], [one]), ([End(one.call_id, CallState.KEPT)], [])):
                batch = partial(sqlite_batch.run, db._writer.raw, ends, charges, clock_ms())
                db._begin_and_commit(batch, synced=bool(ends))

    async def on_its_thread() -> None:
        await db._on_writer(pairs)

    async def through_thread() -> None:
        for number in range(REPEATED):
            one = charge(number)
            await db.commit_batch([], [one])
            await db.commit_batch([End(one.call_id, CallState.KEPT)], [])

    async def one_by_one() -> None:
        for number in range(REPEATED):
            await _call(commits, charge(number))

    async def together() -> None:
        for _ in range(REPEATED // MANY):
            await asyncio.gather(*(_call(commits, charge(number)) for number in range(MANY)))

    found = {
        "a bare commit of SQLite, no disk": await _bare(),
        "charge and keep, each a commit, all on the writer's thread": await _of_many(on_its_thread),
        "charge and keep, each handed to the writer's thread": await _of_many(through_thread),
        "charge and keep by group commit, one caller": await _of_many(one_by_one),
        f"charge and keep by group commit, {MANY} callers": await _of_many(together),
    }
    await commits.close(1.0)
    return found


async def _call(commits: GroupCommit, charge: Charge) -> None:
    await commits.charge(charge, 5.0)
    await commits.end(End(charge.call_id, CallState.KEPT), 5.0)


async def _bare() -> float:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        raw = SqliteConnection(Path(name) / "bare.sqlite", lambda: 0, read_only=False).raw
        raw.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, row BLOB NOT NULL) STRICT")

        async def many() -> None:
            for _ in range(REPEATED):
                raw.execute("BEGIN IMMEDIATE")
                raw.execute("INSERT INTO bare (row) VALUES (?1)", (bytes(100),))
                raw.execute("COMMIT")

        micros = await _of_many(many)
        raw.close()
        return micros


async def _least(work: Work) -> float:
    async def many() -> None:
        for _ in range(REPEATED):
            await work()

    return await _of_many(many)


async def _of_many(many: Work) -> float:
    """Microseconds of one of REPEATED, in the quickest of TRIES."""
    least = float("inf")
    for _ in range(TRIES):
        begun = time.perf_counter()
        await many()
        least = min(least, time.perf_counter() - begun)
    return least / REPEATED * 1e6


def _request(limits: BodyLimits) -> Request:
    """A request that has arrived, on a connection that keeps nothing of the response."""
    request = Request(_CONNECTION, "POST", CHAT_PATH.encode(), HEADERS)
    request.limits = limits
    request.received += BODY
    request.more_body = False
    request.news.set()
    return request


_CONNECTION: Any = SimpleNamespace(
    is_paused=False,
    half_closed=False,
    config=SimpleNamespace(stopping=False),
    server_state=SimpleNamespace(tasks=set()),
    transport=SimpleNamespace(write=len),
    resume_reading=list,
    on_response_complete=list,
)


async def _never(*_: object) -> None:
    raise AssertionError("there is but one path")
