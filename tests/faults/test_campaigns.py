"""Campaigns: seeded sequences of faults under mixed traffic, on each database.

`MYNA_TEST_ROUNDS=50` sets the length of each campaign, and adds one. A seed determines the sequence of faults
and of requests, but not their timing.
"""

import os
import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.conformance.caller import Caller
from tests.farm.node_client import NodeSite
from tests.faults.campaign import (
    LIMITS,
    TASK_DEADLINE_S,
    VOICE,
    Traffic,
    Worker,
    call_states,
    contradictions,
    freeze,
    kill,
    stop,
    wire_to,
)
from tests.faults.conftest import RELEASE, ServiceOn, at, audited, new_caller
from tests.rig.postgres import Postgres
from tests.rig.service import Service
from tests.rig.waiting import wait_until

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
    caller = new_caller(last, units=UNITS)
    rng = random.Random(seed)
    worker = Worker(NodeSite(last).node(VOICE), seed)
    traffic = Traffic([at(service, caller) for service in services], seed)
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
def test_postgresql_under_kill_freeze_cut_and_mute(
    postgres: Postgres, service_on: ServiceOn, seed: int
) -> None:
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
