"""Campaigns: seeded sequences of faults under mixed traffic, on each database, and checks of every answer.

Each request has its own id, which the service stores with the call. So each answer can be compared with the
final state of its call. `MYNA_TEST_ROUNDS=50` sets the length of each campaign, and adds one. A seed
determines the sequence of faults and of requests, but not their timing.
"""

import asyncio
import http.client
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from myna.wire.farm import LeaseProof
from tests.conformance.caller import Caller, make_caller
from tests.farm.node_client import NodeClient, NodeSite, mp3, proof_of
from tests.faults.conftest import RELEASE, ServiceOn, audited
from tests.rig.calls import Answer, EventReader, Wire
from tests.rig.postgres import Postgres
from tests.rig.service import Service
from tests.rig.waiting import wait_until
from tests.store.postgres_proxy import PostgresProxy, proxy_to

CLIENTS = 8
CALL_DEADLINE_S = 2
TASK_DEADLINE_S = 4
LIMITS = {
    "MYNA_CALL_DEADLINE_S": str(CALL_DEADLINE_S),
    "MYNA_STREAM_DEADLINE_S": str(CALL_DEADLINE_S),
    "MYNA_CHARGE_WAIT_S": "1",
    "MYNA_SWEEP_EVERY_S": "0.2",
    "MYNA_LEASE_S": "1",
    "MYNA_BEAT_S": "0.2",
    "MYNA_SHUTDOWN_GRACE_S": "1",
}
VOICE = "campaign-voice"
KINDS = {
    "chat": 35,
    "stream": 15,
    "stream breaks": 5,
    "leave a stream": 5,
    "upstream fails": 10,
    "hang up": 10,
    "speech": 20,
}
"""The kinds of requests, and how often each comes."""
FAULTS = {"upstream fails": "fault=status:500", "stream breaks": "fault=error-later a b c"}
PAUSE = threading.Event()


@dataclass(frozen=True)
class Response:
    """One request of the traffic. `answer` is None if the connection ended without one; of a stream it has
    what arrived."""

    request_id: str
    text: str
    kind: str
    answer: Answer | None


class Traffic:
    """Clients that chat, stream, chat with a failing upstream, disconnect and order speech until `end` is
    called."""

    def __init__(self, callers: Sequence[Caller], seed: int) -> None:
        self._callers = callers
        self._over = threading.Event()
        self.seen: list[Response] = []
        self._clients = [
            threading.Thread(target=self._run, args=(number, random.Random(f"{seed} {number}")))
            for number in range(CLIENTS)
        ]
        for client in self._clients:
            client.start()

    def end(self) -> list[Response]:
        self._over.set()
        for client in self._clients:
            client.join(60)
        return self.seen

    def _run(self, number: int, rng: random.Random) -> None:
        count = 0
        while not self._over.is_set():
            count += 1
            request_id = f"{number}-{count}"
            caller = rng.choice(self._callers)
            kind = rng.choices(tuple(KINDS), tuple(KINDS.values()))[0]
            text = FAULTS.get(kind, f"call {request_id}.")
            try:
                if kind == "hang up":
                    _disconnect_early(caller, request_id, text)
                    continue
                if kind == "leave a stream":
                    with _stream(caller, request_id, f"fault=words:500 {text}") as stream:
                        stream.next_event()
                    continue
                answer = _ask(caller, request_id, text, kind)
            except (OSError, http.client.HTTPException):
                answer = None
                PAUSE.wait(0.02)  # the process may be down
            self.seen.append(Response(request_id=request_id, text=text, kind=kind, answer=answer))


def _ask(caller: Caller, request_id: str, text: str, kind: str) -> Answer:
    headers = {"X-Request-Id": request_id}
    if kind == "speech":
        return caller.speak(text, headers, voice_id=VOICE)
    if kind in ("stream", "stream breaks"):
        with _stream(caller, request_id, text) as stream:
            stream.rest()
            return Answer(stream.status, stream.headers, stream.raw)
    return caller.chat(text, headers)


def _stream(caller: Caller, request_id: str, text: str) -> EventReader:
    body = {"model": "svc-chat", "stream": True, "messages": [{"role": "user", "content": text}]}
    url = f"{caller.service.root_url}/openai/v1/chat/completions"
    return EventReader(url, caller.key.plain, body, {"X-Request-Id": request_id})


def _disconnect_early(caller: Caller, request_id: str, text: str) -> None:
    """Sends a chat and closes without reading."""
    body = json.dumps({"model": "svc-chat", "messages": [{"role": "user", "content": text}]}).encode()
    with Wire(caller.service.base_url, deadline_s=5) as wire:
        wire.head(
            "POST /v1/chat/completions HTTP/1.1",
            f"Authorization: Bearer {caller.key.plain}",
            f"X-Request-Id: {request_id}",
            f"Content-Length: {len(body)}",
        )
        wire.send(body)


class Worker:
    """A compute node that completes most jobs, fails some, and lets the lease of others expire."""

    def __init__(self, node: NodeClient, seed: int) -> None:
        self._node = node
        self._rng = random.Random(f"{seed} node")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                for found in self._node.lease(wait_s=0.5):
                    self._do(proof_of(found))
            except (OSError, http.client.HTTPException, AssertionError):  # the service is down or refuses
                PAUSE.wait(0.05)

    def _do(self, job: LeaseProof) -> None:
        what = self._rng.choices(("complete", "fail", "forget"), (80, 10, 10))[0]
        if what == "complete":
            self._node.complete(job, mp3())
        elif what == "fail":
            self._node.ask("fail", {"held": job, "reason": "the test failed it", "final": True})


class DatabaseWire:
    """A proxy to PostgreSQL in a separate thread. See `PostgresProxy`."""

    def __init__(self, proxy: PostgresProxy, loop: asyncio.AbstractEventLoop) -> None:
        self.url = proxy.url
        self._proxy = proxy
        self._loop = loop

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._proxy.disconnect)

    def silence_server(self) -> None:
        """Returns when the server's replies are dropped."""

        async def silence() -> None:
            self._proxy.silence()

        asyncio.run_coroutine_threadsafe(silence(), self._loop).result(10)

    def lose_commit(self) -> None:
        """The answer to the next batch of charges and ends is lost."""
        self._loop.call_soon_threadsafe(self._proxy.drop_next_reply)


@contextmanager
def wire_to(url: str) -> Iterator[DatabaseWire]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    wires = proxy_to(url)

    async def end() -> None:
        proxy.disconnect()
        await wires.__aexit__(None, None, None)

    try:
        proxy = asyncio.run_coroutine_threadsafe(wires.__aenter__(), loop).result(10)
        yield DatabaseWire(proxy, loop)
        asyncio.run_coroutine_threadsafe(end(), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(_settled(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _settled() -> None:
    """The wires' tasks have seen their ends."""
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    await asyncio.wait(others, timeout=5) if others else None


def kill(service: Service, _: random.Random) -> None:
    service.kill()
    service.start()


def stop(service: Service, _: random.Random) -> None:
    assert service.stop() == 0
    service.start()


def freeze(service: Service, rng: random.Random) -> None:
    """For longer than a call's deadline, or less."""
    service.pause()
    try:
        time.sleep(rng.uniform(0.1, CALL_DEADLINE_S + 1))
    finally:
        service.resume()


def contradictions(seen: Sequence[Response], states: dict[str, list[int]]) -> Iterator[str]:
    """Each answer that the books contradict. `states` has the call states of each request id."""
    for one in seen:
        found = states.get(one.request_id, [])
        if one.answer is None:
            continue
        if one.answer.status != 200:
            if KEPT in found:
                yield f"{one.request_id}: told {one.answer.status}, and kept: {one.answer.body!r}"
        elif one.kind in ("stream", "stream breaks"):
            yield from _stream_contradictions(one, found)
        elif one.kind == "speech":
            if len(found) != 1:
                yield f"{one.request_id}: an order was accepted and has calls {found}"
        elif found != [KEPT]:
            yield f"{one.request_id}: answered, and its calls are {found}"
        elif one.answer.json["choices"][0]["message"]["content"] != one.text:
            yield f"{one.request_id}: got another one's answer {one.answer.body!r}"


def _stream_contradictions(one: Response, found: list[int]) -> Iterator[str]:
    """Where a stream's end contradicts the books: `[DONE]` means kept, an error event refunded."""
    body = one.answer.body if one.answer else b""
    if body.endswith(b"data: [DONE]\n\n"):
        if found != [KEPT]:
            yield f"{one.request_id}: streamed to its end, and its calls are {found}"
    elif b"refunded" in body.rpartition(b"data:")[2] and KEPT in found:
        yield f"{one.request_id}: told of a refund, and kept: {body[-200:]!r}"


KEPT = 1


def call_states(service: Service) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for request_id, state in NodeSite(service).sql("SELECT request_id, state FROM calls"):
        found.setdefault(request_id, []).append(int(state))
    return found


ROUNDS = int(os.environ.get("MYNA_TEST_ROUNDS", "4"))
SEEDS = (20261101, 20261123) if RELEASE else (20261101,)
UNITS = 1_000_000
SETTLED_DEADLINE_S = 60

pytestmark = pytest.mark.timeout(120 + 30 * ROUNDS)


def run_campaign(
    services: list[Service], disturbances: dict[str, Callable[[random.Random], None]], seed: int
) -> None:
    """Runs traffic under the faults and compares all answers with the books."""
    first, last = services[0], services[-1]
    last.cli("settings", "set", "task_deadline_s", str(TASK_DEADLINE_S))
    caller = make_caller(last, units=UNITS)
    rng = random.Random(seed)
    worker = Worker(NodeSite(last).node(VOICE), seed)
    traffic = Traffic([caller.at(service) for service in services], seed)
    done = Counter[str]()
    try:
        for _ in range(ROUNDS):
            before = len(traffic.seen)
            wait_until(lambda before=before: len(traffic.seen) > before + 20, 60, "calls go through")  # type: ignore[misc]
            name = rng.choice(sorted(disturbances))
            disturbances[name](rng)
            done[name] += 1
    finally:
        seen = traffic.end()
        worker.end()
    wait_until(lambda: settled(caller), SETTLED_DEADLINE_S, "every call is kept or refunded", every_s=0.2)
    found = list(contradictions(seen, call_states(first)))
    assert not found, f"after {dict(done)}: {len(found)} of {len(seen)}: {found[:5]}"
    assert audited(last), f"after {dict(done)}"
    kept = sum(state == 1 for states in call_states(first).values() for state in states)
    assert last.cli("account", "show", caller.account.name)["balance"] == UNITS - kept
    assert kept > 0


def settled(caller: Caller) -> bool:
    """Whether every charged call was delivered."""
    stats = caller.stats()
    return stats.cost == stats.ok_calls


@pytest.mark.parametrize("seed", SEEDS)
def test_sqlite_under_kill_stop_and_freeze(service_on: ServiceOn, seed: int) -> None:
    service = service_on(None, **LIMITS).start()
    run_campaign(
        [service],
        {
            "kill": lambda rng: kill(service, rng),
            "stop": lambda rng: stop(service, rng),
            "freeze": lambda rng: freeze(service, rng),
        },
        seed,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_postgresql_under_kill_freeze_cut_mute(postgres: Postgres, service_on: ServiceOn, seed: int) -> None:
    """One process has its database behind a wire that is cut, muted or loses an answer; the other, which the
    compute node talks to, has a good one."""
    url = postgres.fresh_database()
    with wire_to(url) as wire:
        beside = service_on(url, **LIMITS).start()
        service = service_on(wire.url, **LIMITS, MYNA_DATA=str(beside.folder / "data")).start()
        run_campaign(
            [service, beside],
            {
                "kill": lambda rng: kill(service, rng),
                "stop": lambda rng: stop(service, rng),
                "freeze": lambda rng: freeze(service, rng),
                "cut": lambda _: wire.cut(),
                "mute": lambda _: wire.silence_server(),
                "lose an answer": lambda _: wire.lose_commit(),
            },
            seed,
        )
        service.kill()
