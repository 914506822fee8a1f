"""Two replicas under load behind PgBouncer, with fewer sessions than the replicas have connections."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from tests.conformance.caller import make_caller
from tests.faults.conftest import audited
from tests.rig.office import People
from tests.rig.postgres import Pooled, needs_pgbouncer
from tests.rig.service import ServiceMaker

pytestmark = needs_pgbouncer

SESSIONS = {"session": 40, "transaction": 6}
LIMITED = {"MYNA_POSTGRESQL_CONNECTIONS": "10", "MYNA_CHARGE_WAIT_S": "20"}
IDLE_S = 40
IDLE_TRANSACTIONS_MAX = 0.5
CALLS = 400


def transactions(url: str) -> int:
    """How many the server has committed and rolled back in this database, and in it alone."""

    async def query() -> int:
        connection = await asyncpg.connect(url)
        await connection.execute("SELECT pg_stat_force_next_flush()")
        number = await connection.fetchval(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        )
        await connection.close()
        return int(number)

    return asyncio.run(query())


@pytest.mark.parametrize(
    ("mode", "listens"), [("session", False), ("transaction", False), ("transaction", True)]
)
def test_two_replicas_serve_every_call_behind_pgbouncer(
    mode: str,
    listens: bool,
    pooled: Pooled,
    postgres_books_url: str,
    make_service: ServiceMaker,
    tmp_path: Path,
) -> None:
    url = pooled(postgres_books_url, mode, SESSIONS[mode])
    env = LIMITED | {"MYNA_POSTGRESQL_POOLING": mode, "MYNA_DATA": str(tmp_path / "shared")}
    env |= {"MYNA_DATABASE_LISTEN_URL": postgres_books_url} if listens else {}
    first, second = (
        make_service(chat_url="parrot:", speech="espeak", database_url=url, env=env).start() for _ in "12"
    )
    caller = make_caller(first, units=10_000)
    callers = (caller, caller.at(second))
    visitor = People(first).signed_in("reader")

    def use(number: int) -> list[tuple[int, bytes]]:
        one, other = callers[number % 2], callers[1 - number % 2]
        same = {"Idempotency-Key": str(number)}
        answers = [one.chat("hello", same), other.chat("hello", same), other.get("/me")]
        if number % 10 == 0:
            answers += [one.post("/tts", {"text": "hello"}), visitor.get("/usage"), visitor.get("/ledger")]
        return [(answer.status, answer.body) for answer in answers if answer.status != 200]

    with ThreadPoolExecutor(32) as pool:
        refused = [answer for found in pool.map(use, range(CALLS)) for answer in found]
    assert refused == []
    assert caller.stats().calls == CALLS + CALLS // 10
    assert audited(first)
    for service in (first, second):
        assert "Traceback" not in service.stderr
        assert service.stop() == 0


def test_a_replica_without_calls_leaves_the_database_alone(
    postgres_books_url: str, make_service: ServiceMaker, tmp_path: Path
) -> None:
    env = {"MYNA_DATA": str(tmp_path / "shared")}
    for _ in "12":
        make_service(chat_url="parrot:", speech="none", database_url=postgres_books_url, env=env).start()
    time.sleep(10)
    before, began = transactions(postgres_books_url), time.monotonic()
    time.sleep(IDLE_S)
    rate = (transactions(postgres_books_url) - before) / (time.monotonic() - began) / 2
    assert rate <= IDLE_TRANSACTIONS_MAX
