"""A voice is cloned from an inspected sample, with a recorded consent, free of charge."""

import asyncio
import hashlib
import os
import time
from pathlib import Path

import pytest

from myna import accounts, clones
from myna import config as site
from myna.clones import CLONES_MAX, CONSENT
from myna.errors import CommandError
from myna.store.postgresql import Postgresql
from myna.store.queries import clones as store
from myna.store.states import CloneStatus
from tests.clones.workshop import Workshop
from tests.store.books import books_of
from tests.store.cutter import cutter_to

pytestmark = pytest.mark.anyio


async def test_a_new_voice_waits_for_a_node_with_its_sample_and_its_consent(workshop: Workshop) -> None:
    holder = await workshop.books.holder(units=7)

    row = await workshop.clone(holder, transcript=" 你好，\n 世界 ")

    assert clones.is_clone(row.voice_id)
    assert (row.account_id, row.status, row.reason) == (holder.account_id, CloneStatus.QUEUED, "")
    assert (row.name, row.language, row.transcript) == ("小明", "zh", "你好， 世界")
    assert (row.consent_by, row.consent_text) == ("the account's owner", CONSENT)
    assert abs(row.consent_at - time.time() * 1000) < 60_000
    path = workshop.samples.find(row.sample)
    assert path is not None
    data = path.read_bytes()
    assert (row.sample_bytes, row.sample_sha256) == (len(data), hashlib.sha256(data).digest())
    assert row.sample_ms == 3500
    assert await workshop.books.balance(holder) == 7
    assert await workshop.books.sql("SELECT count(*) FROM calls") == [(0,)]


async def test_a_sample_over_the_accounts_quota_is_not_stored(workshop: Workshop) -> None:
    await site.change(workshop.books.db, "account_storage_mib", "1")
    holder = await workshop.books.holder()
    first = await workshop.clone(holder)
    room = 2**20 - first.sample_bytes
    await workshop.books.sql("UPDATE clones SET preview_bytes = $1", room - first.sample_bytes)
    second = await workshop.clone(holder)  # the quota's last byte

    with pytest.raises(CommandError, match="may store 1 MiB"):
        await workshop.clone(holder)

    assert workshop.files() == sorted([first.sample, second.sample])
    await workshop.clone(await workshop.books.holder())
    await workshop.delete(second.voice_id)
    await workshop.clone(holder)


async def test_of_two_samples_that_exceed_the_quota_together_one_is_stored(workshop: Workshop) -> None:
    await site.change(workshop.books.db, "account_storage_mib", "1")
    holder = await workshop.books.holder()
    first = await workshop.clone(holder)
    room = 2**20 - 2 * first.sample_bytes
    await workshop.books.sql("UPDATE clones SET preview_bytes = $1", room)
    both = await asyncio.gather(workshop.clone(holder), workshop.clone(holder), return_exceptions=True)
    assert sorted(type(one).__name__ for one in both) == ["CloneRow", "CommandError"]
    assert len(workshop.files()) == 2


async def test_a_sample_is_readable_by_the_services_user_only(workshop: Workshop) -> None:
    row = await workshop.clone(await workshop.books.holder())
    path = workshop.samples.find(row.sample)
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == path.parent.parent.stat().st_mode & 0o777 == 0o700


async def test_a_sample_is_not_in_the_audio_store(workshop: Workshop) -> None:
    row = await workshop.clone(await workshop.books.holder())
    audio = type(workshop.audio)(workshop.books.folder / "samples")
    assert audio.find(row.sample) is None
    assert workshop.samples.find("../" + row.sample) is None


async def test_without_consent_nothing_is_stored_and_the_error_has_the_statement(workshop: Workshop) -> None:
    holder = await workshop.books.holder()
    with pytest.raises(CommandError, match="consent") as refused:
        await workshop.clone(holder, consent_by="")
    assert CONSENT in str(refused.value)
    assert workshop.files() == []
    assert await clones.list_all(workshop.books.db) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": " "}, "name must be 1 to 100"),
        ({"name": "n" * 101}, "name must be 1 to 100"),
        ({"name": "a\nb"}, "name must be 1 to 100"),
        ({"consent_by": "c" * 201}, "consents must be 1 to 200"),
        ({"language": "zh-CN"}, "zh, yue or en; it is 'zh-CN'"),
        ({"language": "ZH"}, "it is 'ZH'"),
        ({"language": ""}, "it is ''"),
        ({"transcript": "，。！"}, "no letter or digit"),
        ({"transcript": ""}, "no letter or digit"),
        ({"transcript": "字" * 1001}, "may have 1000 characters; it has 1001"),
        ({"transcript": "a\0b"}, "control character"),
    ],
    ids=str,
)
async def test_an_invalid_request_is_refused_and_nothing_is_stored(
    workshop: Workshop, change: dict[str, str], said: str
) -> None:
    holder = await workshop.books.holder()
    with pytest.raises(CommandError, match=said):
        await workshop.clone(holder, **change)
    assert workshop.files() == []


async def test_a_file_that_is_no_recording_is_refused_with_the_inspectors_message(
    workshop: Workshop, tmp_path: Path
) -> None:
    text = tmp_path / "text.wav"
    text.write_text("no recording")
    with pytest.raises(CommandError, match="no recording that can be read here"):
        await workshop.clone(await workshop.books.holder(), sample=text)
    assert workshop.files() == []
    assert await clones.list_all(workshop.books.db) == []


async def test_concurrent_clones_do_not_exceed_the_limit(workshop: Workshop) -> None:
    holder = await workshop.books.holder()
    for _ in range(CLONES_MAX - 1):
        await workshop.queued(holder)

    results = await asyncio.gather(*(workshop.clone(holder) for _ in range(3)), return_exceptions=True)

    refused = [result for result in results if isinstance(result, CommandError)]
    assert len(refused) == 2
    assert all("has 100 cloned voices" in str(refusal) for refusal in refused)
    assert await store.count(workshop.books.db, holder.account_id) == CLONES_MAX
    assert len(workshop.files()) == CLONES_MAX
    await workshop.queued(await workshop.books.holder())  # another account isn't counted in


async def test_a_sample_is_kept_when_the_commit_of_its_voice_is_in_doubt(
    postgres_url: str, tmp_path: Path, recording: Path
) -> None:
    """The COMMIT happened and its reply was lost: without its sample the voice could never be cloned."""
    async with books_of(postgres_url, tmp_path) as books, cutter_to(postgres_url) as cutter:
        workshop = Workshop(books, recording)
        account = await accounts.find(books.db, (await books.holder()).name)
        db = await Postgresql.open(cutter.url)
        cutter.lose_answer_to(b"COMMIT")
        with pytest.raises(db.unavailable):
            await clones.clone(db, workshop.samples, workshop.listener, account, workshop.request())
        await db.close()
        await workshop.close()
        (owned,) = await clones.list_all(books.db)
        assert workshop.samples.find(owned.clone.sample) is not None


async def test_an_old_sample_without_a_voice_is_removed(workshop: Workshop) -> None:
    voice = await workshop.find(await workshop.queued(await workshop.books.holder()))
    orphan, path = workshop.samples.new()
    path.write_bytes(b"left behind")
    young, young_path = workshop.samples.new()
    young_path.write_bytes(b"on its way")
    assert voice is not None
    for name in (voice.sample, orphan):
        found = workshop.samples.find(name)
        assert found is not None
        os.utime(found, (1000, 1000))

    assert await clones.remove_orphans(workshop.books.db, workshop.samples, 2000) == 1

    assert workshop.files() == sorted([voice.sample, young])


async def test_only_ready_voices_count_and_only_for_their_account(workshop: Workshop) -> None:
    db, holder, other = workshop.books.db, await workshop.books.holder(), await workshop.books.holder()
    node = await workshop.node()
    first, second = await workshop.ready(holder, node), await workshop.ready(holder, node)
    theirs = await workshop.ready(other, node)
    queued = await workshop.queued(holder)

    assert await store.ready(db, holder.account_id) == [first, second]
    listed = [owned.clone.voice_id for owned in await store.owned_by(db, holder.account_id)]
    assert listed == [first.voice_id, second.voice_id, queued]
    assert [(owned.clone.voice_id, owned.account) for owned in await clones.list_all(db)] == [
        (first.voice_id, holder.name),
        (second.voice_id, holder.name),
        (theirs.voice_id, other.name),
        (queued, holder.name),
    ]


async def test_the_preview_is_spoken_in_the_voices_language(workshop: Workshop) -> None:
    await workshop.queued(await workshop.books.holder())
    job = await workshop.leased(await workshop.node())
    assert job.text == clones.PREVIEW["zh"]
    assert clones.preview_text("tlh") == clones.PREVIEW["en"]


@pytest.mark.parametrize(
    "voice_id",
    ["zh-female-1", "clone-", "clone-" + "A" * 32, "clone-" + "0" * 33, "clone-" + "0" * 32 + "\n"],
)
def test_the_id_of_a_cloned_voice_has_its_own_form(voice_id: str) -> None:
    assert clones.is_clone("clone-" + "0f" * 16)
    assert not clones.is_clone(voice_id)


def test_the_documentation_has_the_statement_that_is_recorded() -> None:
    page = Path(__file__).parents[2] / "docs" / "voices.md"
    assert f"> {CONSENT}\n" in page.read_text(encoding="utf-8")
