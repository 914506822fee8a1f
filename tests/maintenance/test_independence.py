"""Periodic jobs are independent: a failure of one does not stop the others."""

import logging
import time
from pathlib import Path

import pytest

from myna.actions.site import SetSetting
from myna.billing import audit
from myna.config import DAY_MS, ConfigCache, SiteSettings
from myna.server.maintenance import LEFTOVER_AGE_S
from myna.server.service import Service
from myna.store.batch import Audio, CallState
from myna.store.queries import stored_responses
from myna.store.queries.stored_responses import StoredResponse
from tests.maintenance.test_jobs import OLD_S, there, write
from tests.rig.actors import perform
from tests.rig.waiting import until
from tests.store.books import Books, keep_of, speech
from tests.store.stalls import ends_as

UNREADABLE = "INSERT INTO settings (name, value) VALUES ($1, $2)"
OLD_AUDIO = Audio("a" * 32 + ".mp3", 1, b"s" * 32)


async def test_the_sweep_reads_no_configuration(books: Books, service: Service) -> None:
    call = await books.opened(await books.customer(), deadline_ms=-1)
    await books.sql("ALTER TABLE settings RENAME TO elsewhere")
    service.jobs.start()
    await ends_as(books, call.call_id, CallState.REFUNDED)
    await service.jobs.close()
    await books.sql("ALTER TABLE elsewhere RENAME TO settings")


async def test_an_unreadable_setting_has_its_default_and_is_logged_once_per_version(
    books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    await books.sql(UNREADABLE, "chat_units", "a lot")
    await books.sql(UNREADABLE, "tts_units", "7")
    with caplog.at_level(logging.ERROR, "myna.config"):
        found = await ConfigCache.read(books.db)
        for _ in range(3):
            await found.refresh()
        assert [record.getMessage() for record in caplog.records] == [
            "the stored site setting chat_units must be a whole number from 0 to 1000000, it is 'a lot';"
            " its default applies: 1"
        ]
        assert vars(found.settings) == vars(SiteSettings(tts_units=7))
        await perform(books.db, SetSetting(name="tts_units", value="8"))
        await found.refresh()
    assert len(caplog.records) == 2
    await books.sql("DELETE FROM settings")


async def test_an_unreadable_setting_is_an_audit_breach(books: Books, service: Service) -> None:
    await books.sql(UNREADABLE, "language", "tlh")
    (breach,) = (await audit.run(books.db, service.audio)).breaches
    assert (breach.rule, breach.examples) == (audit.SETTINGS_RULE, ["language must be zh or en, it is 'tlh'"])
    await perform(books.db, SetSetting(name="language", value="en"))
    assert (await audit.run(books.db, service.audio)).breaches == []


async def test_with_an_unreadable_retention_time_no_audio_is_removed(books: Books, service: Service) -> None:
    old = await _old_audio(books)
    await books.sql(UNREADABLE, "audio_keep_days", "for ever")
    await service.jobs.refresh_config()
    await service.jobs.remove_old_audio()
    assert there(old)
    await perform(books.db, SetSetting(name="audio_keep_days", value="1"))
    await service.jobs.refresh_config()
    await service.jobs.remove_old_audio()
    assert not there(old)


async def test_stored_responses_are_removed_after_the_days_of_a_setting_that_can_be_read(
    books: Books, service: Service
) -> None:
    customer, row = await books.customer(), StoredResponse("resp_1", None, b"[]", b"{}")
    await books.db.transaction(lambda db: stored_responses.put(db, customer.account_id, row))
    await books.sql("UPDATE stored_responses SET created_at = created_at - $1", DAY_MS)

    async def count(setting: str) -> int:
        await books.sql("DELETE FROM settings WHERE name = 'responses_keep_days'")
        await books.sql(UNREADABLE, "responses_keep_days", setting)
        await books.sql("UPDATE site SET version = version + 1")
        await service.jobs.refresh_config()
        await service.jobs.remove_old_responses()
        ((found,),) = await books.sql("SELECT count(*) FROM stored_responses")
        return int(found)

    assert [await count(setting) for setting in ("for ever", "2", "1")] == [1, 1, 0]
    await books.db.transaction(lambda db: stored_responses.put(db, customer.account_id, row))
    assert await count("0") == 0


async def test_a_failing_job_does_not_stop_others(books: Books, service: Service) -> None:
    old = await _old_audio(books)
    orphan = write(books.folder / "audio" / "bb" / ("b" * 32 + ".mp3"), OLD_S)
    await perform(books.db, SetSetting(name="audio_keep_days", value="1"))
    await service.jobs.refresh_config()
    await books.sql(
        "ALTER TABLE reservations RENAME TO elsewhere"
    )  # so the job that removes stored responses fails
    service.jobs.start()
    await until(lambda: not there(old), "the old audio is removed")
    await until(lambda: not there(orphan), "the orphan is removed")
    await service.jobs.close()
    await books.sql("ALTER TABLE elsewhere RENAME TO reservations")


async def _old_audio(books: Books) -> Path:
    """The file of a task that was completed two days ago."""
    call = await books.opened(await books.customer(), task=speech())
    await books.end(keep_of(call, None, OLD_AUDIO))
    await books.sql("UPDATE tasks SET ended_at = ended_at - $1", 2 * DAY_MS)
    path = write(books.folder / "audio" / "aa" / OLD_AUDIO.name, 1)
    assert time.time() - path.stat().st_mtime < LEFTOVER_AGE_S
    return path
