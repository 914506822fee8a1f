"""The jobs that audit, and that delete what signing in leaves."""

import pytest
from prometheus_client import Gauge

from myna.service import Service
from myna.sign_in import links, passwords, sessions
from myna.sign_in.links import LIFE_MS
from myna.sign_in.links import Purpose as LinkPurpose
from myna.sign_in.oidc import attempts
from myna.sign_in.oidc.attempts import Purpose
from myna.sign_in.refusal import SignInRefused
from myna.store.queries import audit_state, form_submissions
from myna.telemetry import metrics
from tests.maintenance.serving import AUDIT_EVERY_S
from tests.sign_in.people import ADDRESS, BROWSER, ELSEWHERE, OPERATOR, OTHER_PASSWORD, PASSWORD, person
from tests.store.books import Books, keep_of
from tests.store.fixtures import each_database
from tests.store.stalls import until

pytestmark = pytest.mark.anyio


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
    ann = await person(books)
    await sessions.sign_in(books.db, "ann", PASSWORD, ADDRESS, BROWSER)
    await links.create(books.db, LinkPurpose.RESET, ann.id, LIFE_MS[LinkPurpose.RESET], OPERATOR)
    with pytest.raises(SignInRefused):
        await passwords.verify(books.db, "ann", OTHER_PASSWORD, ELSEWHERE)
    await attempts.begin(
        books.db, Purpose.SIGN_IN, browser="a browser", session_id=0, target="", address=ADDRESS
    )
    await service.jobs.remove_expired_sign_ins()
    assert await rows(books) == [1, 1, 2, 1]
    await books.move_clock(sessions.LIFE_MS)
    service.jobs.start()

    async def all_deleted() -> bool:
        return await rows(books) == [0, 0, 0, 0]

    try:
        await until(all_deleted, "all is deleted")
    finally:
        await service.jobs.close()


@each_database
async def test_the_result_of_a_form_is_deleted_soon_and_the_form_with_its_session(
    books: Books, service: Service
) -> None:
    await books.stop_clock()
    once, attempt = b"a hash", b"an attempt"
    assert await books.db.transaction(lambda db: form_submissions.claim(db, once, attempt))
    await books.db.transaction(lambda db: form_submissions.put_answer(db, once, attempt, b"sealed"))
    await books.move_clock(form_submissions.ANSWER_LIFE_MS - 1)
    await service.jobs.remove_old_submissions()
    assert await stored(books) == [(b"an attempt", b"sealed")]
    await books.move_clock(1)
    await service.jobs.remove_old_submissions()
    assert await stored(books) == [(b"an attempt", None)]
    await books.move_clock(sessions.LIFE_MS)
    await service.jobs.remove_old_submissions()
    assert await stored(books) == []


async def stored(books: Books) -> list[tuple[bytes, bytes | None]]:
    return [tuple(row) for row in await books.sql("SELECT attempt, answer FROM form_submissions")]
