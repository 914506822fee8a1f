"""Jobs of the maintenance, files left over, and probes of channels."""

import os
import time
from pathlib import Path

import pytest
from prometheus_client import Gauge

from myna.accounts.sign_in import passwords, sessions
from myna.accounts.throttle import SignInRefused
from myna.actions.accounts import ResetAccount
from myna.channels.circuits import FAILURES_MAX
from myna.lib.telemetry import metrics
from myna.server.maintenance import LEFTOVER_AGE_S, delete_expired_sign_ins
from myna.server.service import Service
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import Folder
from myna.store.queries import audit_state, sign_in
from myna.store.queries import config as config_store
from myna.store.queries import sessions as session_store
from myna.store.queries.config import ChannelRow
from myna.store.queries.sign_in import AttemptRow
from tests.maintenance.conftest import AUDIT_EVERY_S
from tests.rig.actors import perform
from tests.rig.service import ServiceMaker
from tests.rig.upstream import Upstream
from tests.rig.waiting import until, wait_until
from tests.sign_in.conftest import ADDRESS, BROWSER, ELSEWHERE, OTHER_PASSWORD, PASSWORD, person
from tests.store.books import Books, keep_of
from tests.store.fixtures import each_database


async def test_an_audit_runs_when_due_and_sets_the_metrics(books: Books, service: Service) -> None:
    await books.end(keep_of(await books.opened(await books.customer(units=5))))
    await books.move_clock(1)  # the call's id is below the fence
    await service.jobs.audit()
    assert await audit_metrics() == (0, 1, 2)
    first = await audit_state.state(books.db)
    assert abs(value_of(metrics.AUDIT_TIME) - first.audited_at / 1000) < 0.001

    await books.sql("UPDATE accounts SET balance = 9")
    await service.jobs.audit()  # not due yet
    assert (await audit_state.state(books.db)).audited_at == first.audited_at
    assert await audit_metrics() == (0, 1, 2)

    await books.move_clock(int(AUDIT_EVERY_S * 1000) + 1)
    await service.jobs.audit()
    assert await audit_metrics() == (1, 0, 0)
    await books.sql("UPDATE accounts SET balance = 4")


async def test_metrics_show_the_audit_of_another_process(books: Books, service: Service) -> None:
    counted = '{"calls": 7, "entries": 8}'
    await books.db.transaction(lambda connection: audit_state.finish(connection, 3, counted))
    await service.jobs.audit()
    assert await audit_metrics() == (3, 7, 8)


async def audit_metrics() -> tuple[float, float, float]:
    """Breaches, calls and entries of the last audit in the metrics."""
    checked = [value_of(metrics.AUDIT_CHECKED.labels(kind)) for kind in ("calls", "entries")]
    return (value_of(metrics.AUDIT_BREACHES), checked[0], checked[1])


def value_of(gauge: Gauge) -> float:
    ((sample,),) = (metric.samples for metric in gauge.collect())
    return sample.value


# ---- expired sessions and links, forgotten failures

TABLES = ("sessions", "links", "sign_in_failures", "oidc_attempts")


async def rows(books: Books) -> list[int]:
    counts = [await books.sql(f"SELECT count(*) FROM {table}") for table in TABLES]
    return [int(count) for ((count,),) in counts]


@each_database
async def test_expired_sessions_links_and_failures_are_deleted(books: Books, service: Service) -> None:
    await person(books)
    await sessions.sign_in(books.db, "ann", PASSWORD, ADDRESS, BROWSER)
    await perform(books.db, ResetAccount(name="ann"))
    with pytest.raises(SignInRefused):
        await passwords.verify(books.db, "ann", OTHER_PASSWORD, ELSEWHERE)
    attempt = AttemptRow("nonce", "verifier", "sign-in", session_id=0, target="", created_at=0)
    await books.db.transaction(
        lambda connection: sign_in.begin_attempt(connection, b"s", b"b", attempt, ADDRESS)
    )
    await books.db.transaction(delete_expired_sign_ins)
    assert await rows(books) == [1, 1, 2, 1]
    await books.move_clock(session_store.LIFE_MS)
    service.jobs.start()

    async def all_deleted() -> bool:
        return await rows(books) == [0, 0, 0, 0]

    try:
        await until(all_deleted, "all is deleted")
    finally:
        await service.jobs.close()


@each_database
async def test_the_result_of_a_form_is_deleted_soon_and_the_form_with_its_session(books: Books) -> None:
    await books.stop_clock()
    once, attempt = b"a hash", b"an attempt"
    assert await books.db.transaction(lambda db: session_store.claim_form(db, once, attempt))
    await books.db.transaction(lambda db: session_store.put_form_answer(db, once, attempt, b"sealed"))
    await books.move_clock(session_store.FORM_ANSWER_LIFE_MS - 1)
    await books.db.transaction(delete_expired_sign_ins)
    assert await stored(books) == [(b"an attempt", b"sealed")]
    await books.move_clock(1)
    await books.db.transaction(delete_expired_sign_ins)
    assert await stored(books) == [(b"an attempt", None)]
    await books.move_clock(session_store.LIFE_MS)
    await books.db.transaction(delete_expired_sign_ins)
    assert await stored(books) == []


async def stored(books: Books) -> list[tuple[bytes, bytes | None]]:
    return [tuple(row) for row in await books.sql("SELECT attempt, answer FROM form_submissions")]


OLD_S = LEFTOVER_AGE_S + 60


def write(path: Path, age_s: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    then = time.time() - age_s
    os.utime(path, (then, then))
    return path


def there(path: Path) -> bool:
    return path.exists()


def test_only_old_part_files_are_removed(tmp_path: Path) -> None:
    audio = AudioStore(Folder(tmp_path))
    old = [write(audio.folder / folder / f".{folder}.part", OLD_S) for folder in ("ab", "cd")]
    kept = [
        write(audio.folder / "ab" / ".fresh.part", 5),
        write(audio.folder / "ab" / ("a" * 32 + ".mp3"), OLD_S),
        write(audio.folder / "ab" / "visible.part", OLD_S),
        write(audio.folder / ".above.part", OLD_S),
    ]
    assert audio.remove_unfinished(time.time() - LEFTOVER_AGE_S) == 2
    assert [path.exists() for path in old + kept] == [False] * 2 + [True] * 4


async def test_files_skipped_by_a_failed_run_are_removed_by_the_next(books: Books, service: Service) -> None:
    orphan = write(books.folder / "audio" / "aa" / ("a" * 32 + ".mp3"), OLD_S)
    await books.sql("ALTER TABLE clones RENAME TO elsewhere")
    with pytest.raises(Exception, match="clones"):
        await service.jobs.remove_leftovers()
    await books.sql("ALTER TABLE elsewhere RENAME TO clones")
    await service.jobs.remove_leftovers()
    assert not there(orphan)


def test_a_server_removes_part_files_of_its_predecessor_at_startup(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none")
    left = write(service.folder / "data" / "audio" / "ab" / ".0123456789abcdef.part", OLD_S)
    fresh = write(left.with_name(".fedcba9876543210.part"), 5)
    service.start()
    wait_until(lambda: not left.exists(), 60, "the leftover is removed")
    assert fresh.exists()
    assert service.stop() == 0


ALICE = 7


async def probed(books: Books, service: Service, upstream: Upstream, failed: str, **changes: object) -> bool:
    """Adds a channel whose requests of the kind `failed` fail for one account, and has it probed. Whether its
    circuit is open then."""
    given = {"kind": "chat", "model": "m", "key_env": "", "priority": 1, "enabled": 1} | changes
    row = ChannelRow(name="up", url=upstream.url, **given)  # type: ignore[arg-type]
    await books.db.transaction(lambda connection: config_store.add_channel(connection, row))
    await service.config.refresh()
    for _ in range(FAILURES_MAX):
        service.channels.circuits.failed("up", "why", ALICE, failed)
    await service.jobs.probe_channels()
    return service.channels.circuits.open("up")


ASKED = [
    ("chat", "chat", "/chat/completions"),
    ("embeddings", "chat", "/embeddings"),
    ("transcription", "chat", "/models"),
    ("", "speech", "/audio/voices"),
]


@pytest.mark.parametrize(("kind", "of", "path"), ASKED, ids=[path for *_, path in ASKED])
@pytest.mark.parametrize(("fault", "opens"), [("status:401", True), ("echo", False)])
async def test_the_probe_is_of_the_kind_of_the_failures(
    books: Books, service: Service, upstream: Upstream, kind: str, of: str, path: str, fault: str, opens: bool
) -> None:
    upstream.behave(fault)
    assert await probed(books, service, upstream, kind, kind=of) is opens
    paths = [seen.path.partition("?")[0].removeprefix("/v1") for seen in upstream.requests]
    assert paths[:1] == [path] or (path == "/models" and not opens)
    assert service.channels.circuits.to_probe() == {}


async def test_a_refused_probe_is_an_answer(books: Books, service: Service, upstream: Upstream) -> None:
    upstream.behave("status:404")
    assert not await probed(books, service, upstream, "chat")
    service.channels.circuits.failed("up", "why", ALICE)
    assert service.channels.circuits.to_probe() == {}


async def test_a_disabled_channel_is_not_probed(books: Books, service: Service, upstream: Upstream) -> None:
    upstream.behave("status:500")
    assert not await probed(books, service, upstream, "chat", enabled=0)
    assert not upstream.requests
