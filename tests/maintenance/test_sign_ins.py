"""A periodic job deletes what signing in leaves: expired sessions and links, forgotten failures."""

from pathlib import Path

import pytest

from myna.config import ConfigCache
from myna.service import Service
from myna.settings import Settings
from myna.sign_in import links, passwords, sessions
from myna.sign_in.links import LIFE_MS
from myna.sign_in.links import Purpose as LinkPurpose
from myna.sign_in.oidc import attempts
from myna.sign_in.oidc.attempts import Purpose
from myna.sign_in.refusal import SignInRefused
from tests.sign_in.people import ADDRESS, BROWSER, ELSEWHERE, OPERATOR, OTHER_PASSWORD, PASSWORD, person
from tests.store.books import Books
from tests.store.stalls import until

pytestmark = pytest.mark.anyio
TABLES = ("sessions", "links", "sign_in_failures", "oidc_attempts")


async def rows(books: Books) -> list[int]:
    counts = [await books.sql(f"SELECT count(*) FROM {table}") for table in TABLES]
    return [int(count) for ((count,),) in counts]


async def test_expired_sessions_links_and_failures_are_deleted(books: Books, tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path), chat_url="parrot:", speech="none")
    site = await ConfigCache.read(books.db)
    commits = Service.commits_of(books.db, settings)
    service = Service(settings=settings, environ={}, db=books.db, config=site, commits=commits)
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
