"""Audio is removed after 90 days, except on a site that has audio from before this setting."""

import pytest

from myna import config
from myna.store.batch import TaskStatus
from myna.store.database import Transaction
from myna.store.migrate import known
from myna.store.queries import config as store
from tests.rig.actors import TESTER
from tests.store.books import Books, speech

pytestmark = pytest.mark.anyio
NUMBER = 8


async def upgraded(books: Books) -> config.SiteSettings:
    """The settings after a migration of the present rows."""
    script = dict(known(books.db.dialect))[NUMBER]

    async def work(connection: Transaction) -> None:
        await connection.run_script(script)

    await books.db.transaction(work)
    return config.settings_of(await store.load(books.db))


async def test_the_migration_keeps_audio_for_90_days_on_a_new_site(books: Books) -> None:
    assert (await upgraded(books)).audio_keep_days == 90


async def test_the_migration_keeps_audio_forever_on_a_site_with_speech(books: Books) -> None:
    await books.opened(await books.customer(), task=speech(TaskStatus.PROCESSING))
    assert (await upgraded(books)).audio_keep_days == 0


async def test_the_migration_keeps_the_operators_setting(books: Books) -> None:
    await books.opened(await books.customer(), task=speech(TaskStatus.PROCESSING))
    await config.change(books.db, "audio_keep_days", "7", by=TESTER)
    assert (await upgraded(books)).audio_keep_days == 7
